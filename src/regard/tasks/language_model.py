"""Language modelling: each token from those before it."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np
import torch

from regard.config import Unused
from regard.data.batches import Batch, BatchingConfig, StreamConfig
from regard.data.examples import Example, Text
from regard.data.fields import TextField
from regard.data.settings import DataConfig
from regard.data.store_writer import Row
from regard.decode import AnyStepper, SampleConfig
from regard.tasks.base import TRAINING_SETTINGS, GenerationTask, Inputs, TaskConfig, Vocabularies, need_shape
from regard.tasks.contract import ModelConfig
from regard.tasks.generation import TextGenerator
from regard.tasks.tensors import shift
from regard.text.tokenizer import TokenizerConfig


class LanguageModelConfig(TaskConfig):
    """Predicts each token from those before it; generates text."""

    kind: Literal["language_model"] = "language_model"
    content = "text"
    texts = ("text",)
    usual_model = "decoder"
    scoring = "tokens"
    default_score = "loss"
    measured = ("loss", "perplexity", "bits_per_byte")
    example_command = "echo 'Once upon' | regard generate {folder}"
    ctranslate2_settings = TRAINING_SETTINGS
    generates = True
    usual_search = SampleConfig(temperature=0.8, top_k=200)

    def task(self, vocabularies: Vocabularies) -> "LanguageModel":
        return LanguageModel(vocabularies, self)

    def batching(self, data: DataConfig) -> BatchingConfig:
        return data.batching or StreamConfig()

    def check(self, model: ModelConfig, data: DataConfig) -> None:
        super().check(model, data)
        need_shape(model, ["decoder"], "language_model")

    def unused(self, model: ModelConfig, data: DataConfig, tokenizer: TokenizerConfig) -> Iterator[Unused]:
        """Documents are read whole, except for what exceeds the positions of the model."""
        yield from super().unused(model, data, tokenizer)
        yield Unused("data.max_length", "on the documents of a language model, which are read whole")
        if model.longest is None:
            yield Unused("data.overlong", "on the documents of a language model, which are read whole")


class LanguageModel(GenerationTask):
    """−Σ log P(x_i | x_<i)."""

    verb = "generate"
    predicted = ("text",)

    def __init__(self, vocabularies: Vocabularies, config: LanguageModelConfig) -> None:
        super().__init__(vocabularies, config)
        self.tokenizer = vocabularies.tokenizers["text"]

    def generator(
        self, stepper: AnyStepper, device: torch.device, longest: int | None = None, base: Path = Path()
    ) -> TextGenerator:
        return TextGenerator(stepper, None, self.tokenizer, device)

    def fields(self, data: DataConfig, tokenizer: TokenizerConfig, training: bool) -> dict[str, TextField]:
        """A running text is one stream; documents begin and end with their tokens."""
        running = data.train is not None and data.train.is_running_text
        whole = training and not isinstance(self.config.batching(data), StreamConfig)
        sampler = self.tokenizer.sampler(tokenizer) if whole else None
        return {"text": TextField(self.tokenizer, sampler, begin=not running, end=not running)}

    def row(self, example: Example) -> Row:
        """A line with its line end, or a document."""
        assert isinstance(example, Text)
        return {"text": example.text + example.end}

    def sizes(self, model: ModelConfig) -> tuple[int, ...]:
        return (self.tokenizer.vocab_size,)

    def inputs(self, batch: Batch, model: ModelConfig, device: torch.device) -> Inputs:
        text = batch.fields["text"]
        tokens, targets = shift(text, device)
        for token, other in self.tokenizer.same:  # an imported model may end texts where documents begin
            targets = targets.masked_fill(targets == token, other)
        count = int(np.sum(text.lengths - 1))
        flops = self.forward_flops(partial(model.flops, vocab=self.tokenizer.vocab_size), text, shifted=True)
        return Inputs((tokens,), targets, count, count, 3.0 * flops * self.passes)
