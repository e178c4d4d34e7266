"""How much a writer takes at a time, by where it writes and what its search keeps."""

import torch

from regard.decode import BeamConfig, GreedyConfig, SampleConfig
from regard.tasks.generation import TextGenerator
from regard.text.tokenizer import Tokenizer, WordConfig

WORDS = Tokenizer.train(["a b c"], WordConfig())


def test_a_gpu_takes_more_but_no_more_rows_than_its_memory_holds():
    cpu, gpu = (TextGenerator(None, WORDS, WORDS, torch.device(where)) for where in ("cpu", "cuda"))
    assert gpu.at_once(GreedyConfig())["tokens_per_batch"] > cpu.at_once(GreedyConfig())["tokens_per_batch"]
    assert "rows_per_batch" not in cpu.at_once(BeamConfig(size=5))
    most = gpu.at_once(GreedyConfig())["rows_per_batch"]
    assert gpu.at_once(BeamConfig(size=8))["rows_per_batch"] == most // 8
    assert gpu.at_once(SampleConfig(samples=3))["rows_per_batch"] == most // 3
    assert gpu.at_once(BeamConfig(size=10 * most))["rows_per_batch"] == 1
