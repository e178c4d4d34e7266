"""regard with torch: its trainer and its text generation. `packed` packs sequences instead of padding them."""

import sys
import tempfile
from pathlib import Path

import numpy as np
import protocol
import torch

from regard import __version__
from regard.data.batches import Batch, Batches
from regard.data.collate import Packed, Padded, Ragged, pack, pad
from regard.decode import BeamConfig, GreedyConfig
from regard.decode.steppers import choose_backend
from regard.models import DecoderConfig, EncoderDecoderConfig
from regard.tasks import LanguageModelConfig, TranslationConfig, Vocabularies
from regard.tasks.generation import TextGenerator
from regard.text.special_tokens import BOS
from regard.text.tokenizer import Tokenizer, WordConfig
from regard.train.loop import Trainer
from regard.train.monitor import Quiet
from regard.train.optimiser import AdamWConfig
from regard.train.parallel.processes import World
from regard.train.precision import choose_precision
from regard.train.schedule import ConstantConfig
from regard.train.settings import TrainConfig


def vocabulary(work: protocol.Work) -> Tokenizer:
    """A vocabulary of words of the workload's size."""
    text = " ".join(f"w{number}" for number in range(work["vocabulary"]))
    return Tokenizer.train([text], WordConfig(size=work["vocabulary"]))


def model_config(work: protocol.Work) -> DecoderConfig | EncoderDecoderConfig:
    size = {"width": work["width"], "depth": work["depth"], "heads": work["heads"], "dropout": work["dropout"]}
    if work["kind"] in ("train-pair", "translate"):
        return EncoderDecoderConfig.from_tree(size)
    position = {"kind": "learned", "length": work["longest"] + work["write"]}
    feedforward = {"kind": "plain", "activation": "gelu-tanh"}
    return DecoderConfig.from_tree(
        {**size, "position": position, "feedforward": feedforward, "embedding": {"scale": False}}
    )


class OneBatch(Batches):
    """One batch, again and again."""

    def __init__(self, fields: dict[str, Padded | Packed], rows: int, *, one_shape: bool, one_row: bool) -> None:
        self.one_shape, self.one_row = one_shape, one_row
        self.only = Batch(fields, {}, np.arange(rows))

    def num_batches(self, epoch: int) -> int:
        return 1

    def batch(self, epoch: int, step: int, rank: int = 0, world: int = 1) -> Batch:
        return self.only


def make(request: protocol.Request) -> protocol.Step:
    torch.manual_seed(0)
    torch.set_num_threads(request["threads"])
    return train(request) if request["work"]["kind"].startswith("train") else generate(request)


def train(request: protocol.Request) -> protocol.Step:
    work, words = request["work"], vocabulary(request["work"])
    collate = pack if "packed" in sys.argv[1:] else pad
    device = torch.device(work["device"])
    if work["kind"] == "train-pair":
        task = TranslationConfig(smoothing=0.0).task(Vocabularies({"source": words, "target": words}))
        source, target = (protocol.rows(work, request["lengths"], seed) for seed in (1, 2))
        fields = {"source": collate(Ragged.of(source)), "target": collate(Ragged.of([[BOS, *row] for row in target]))}
    else:
        task = LanguageModelConfig().task(Vocabularies({"text": words}))
        longer = [length + 1 for length in request["lengths"]]
        fields = {"text": collate(Ragged.of(protocol.rows(work, longer, 1)))}
    config = TrainConfig(steps=10**9, clip=0.0, schedule=ConstantConfig(lr=1e-4), optimiser=AdamWConfig())
    trainer = Trainer(
        config,
        task,
        task.build(model_config(work)).to(device).train(),
        OneBatch(fields, len(request["lengths"]), one_shape=work["kind"] == "train-text", one_row=collate is pack),
        lambda model: {},
        Path(tempfile.gettempdir()),
        seed=1,
        world=World(0, 1, device),
        precision=choose_precision("bfloat16" if request["precision"] == "bfloat16" else "float32", device),
        watcher=Quiet(),
        log=Quiet(),
    )
    return trainer.step


def generate(request: protocol.Request) -> protocol.Step:
    """The generator that `regard translate` and `regard generate` use."""
    work, words = request["work"], vocabulary(request["work"])
    pairs = work["kind"] == "translate"
    sizes = (words.vocab_size, words.vocab_size) if pairs else (words.vocab_size,)
    dtype = torch.bfloat16 if request["precision"] == "bfloat16" else torch.float32
    model = model_config(work).build(*sizes).to(work["device"], dtype).eval()
    texts = [words.decode(row) for row in protocol.rows(work, request["lengths"])]
    count = {"max_length": work["write"], "min_length": work["write"] - 1}
    search = GreedyConfig(**count) if work["beam"] == 1 else BeamConfig(size=work["beam"], **count)
    device = torch.device(work["device"])
    generator = TextGenerator(choose_backend(model, device).stepper, words if pairs else None, words, device)
    if pairs:
        return lambda: generator.translate(texts, search)
    return lambda: generator.generate(texts, search, documents=False)


if __name__ == "__main__":
    protocol.serve(make, lambda: f"regard {__version__}, torch {torch.__version__}")
