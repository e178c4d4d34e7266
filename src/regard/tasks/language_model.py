"""Language modelling: each token from those before it."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from torch import nn

from regard.config import Unused
from regard.data.batches import Batch, BatchingConfig, StreamConfig
from regard.data.examples import Example, Text
from regard.data.fields import TextField
from regard.data.settings import DataConfig
from regard.data.sources import Content
from regard.data.store_writer import Row
from regard.decode import BeamConfig, GreedyConfig, SampleConfig
from regard.tasks.base import GenerationTask, Inputs, TaskBase, Vocabularies, need_shape
from regard.tasks.generation import TextGenerator
from regard.tasks.tensors import shift
from regard.text.tokenizer import TokenizerConfig


class LanguageModelConfig(TaskBase):
    """Predicts each token from those before it; then writes on."""

    kind: Literal["language_model"] = "language_model"
    content: ClassVar[Content] = "text"
    texts: ClassVar[tuple[str, ...]] = ("text",)
    usual_model: ClassVar[str] = "decoder"
    scores: ClassVar[tuple[str, ...]] = ("loss", "perplexity", "bits_per_byte")
    predicts_tokens: ClassVar[bool] = True
    generates: ClassVar[bool] = True
    usual_search: ClassVar[GreedyConfig | BeamConfig | SampleConfig] = SampleConfig(temperature=0.8, top_k=200)

    def task(self, vocabularies: Vocabularies) -> "LanguageModel":
        """The task, once the vocabulary is known."""
        return LanguageModel(vocabularies, self)

    def batching(self, data: DataConfig) -> BatchingConfig:
        """One long stream unless the recipe says otherwise."""
        return data.batching or StreamConfig()

    def check(self, model: Any, data: DataConfig) -> None:  # noqa: ANN401
        """Refuses a model or data that this task cannot use."""
        super().check(model, data)
        need_shape(model, ["decoder"], "language_model")

    def unused(self, model: Any, data: DataConfig, tokenizer: TokenizerConfig) -> Iterator[Unused]:  # noqa: ANN401
        """Documents are read whole, but for what the positions of the model cannot hold."""
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
        self,
        stepper: Any,  # noqa: ANN401
        device: torch.device,
        longest: int | None = None,
        base: Path = Path(),
    ) -> TextGenerator:
        """What writes on with a model."""
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

    def build(self, model: Any) -> nn.Module:  # noqa: ANN401
        """The model for the vocabulary."""
        return model.build(self.tokenizer.vocab_size)

    def num_params(self, model: Any) -> int:  # noqa: ANN401
        """Learned numbers of the model, without building it."""
        return model.num_params(self.tokenizer.vocab_size)

    def inputs(self, batch: Batch, model: Any, device: torch.device) -> Inputs:  # noqa: ANN401
        """All tokens but the last, and all but the first."""
        text = batch.fields["text"]
        written, targets = shift(text, device)
        for token, other in self.tokenizer.same:  # an imported model may write its end where documents begin
            targets = targets.masked_fill(targets == token, other)
        count = int(np.sum(text.lengths - 1))
        if written.layout.packed:
            flops = self.packed_flops(partial(model.flops, 1, vocab=self.tokenizer.vocab_size), text.lengths - 1)
        else:
            rows, time = text.tokens.shape
            flops = model.flops(rows, time - 1, self.tokenizer.vocab_size)
        return Inputs((written,), targets, count, count, 3.0 * flops * self.passes)
