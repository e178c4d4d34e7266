"""Translation, and every other task from text to text: read the source, write the target."""

from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from pydantic import Field
from torch import nn

from regard.data.batches import Batch
from regard.data.examples import Example, Pair
from regard.data.fields import TextField
from regard.data.settings import DataConfig
from regard.data.sources import Content
from regard.data.store_writing import Row
from regard.data.tokenizer import AnyTokenizerConfig
from regard.tasks.base import Inputs, Lexicon, TaskBase, WritingTask, need_shape, total_tokens
from regard.tasks.tensors import shift, to_sequences


class TranslationConfig(TaskBase):
    """From text to text: translation, and any other pairs (parsing, questions and answers, data to text)."""

    kind: Literal["translation"] = "translation"
    smoothing: float = Field(0.1, ge=0, lt=1)
    """Label smoothing: the share of each target's probability that is spread over all tokens."""

    content: ClassVar[Content] = "pairs"
    texts: ClassVar[tuple[str, ...]] = ("source", "target")

    def task(self, lexicon: Lexicon) -> "Translation":
        """The task, once vocabularies are known."""
        return Translation(lexicon, self.smoothing, self.consistency)

    def check(self, model: Any, data: DataConfig) -> None:  # noqa: ANN401
        """Refuses a model or data that this task cannot use."""
        super().check(model, data)
        need_shape(model, ["encoder-decoder"], "translation")


class Translation(WritingTask):
    """−Σ log P(y_i | y_<i, x): each target token from those before it and the whole source."""

    def __init__(self, lexicon: Lexicon, smoothing: float = 0.0, consistency: float = 0.0) -> None:
        super().__init__(lexicon, smoothing, consistency)
        self.source, self.target = lexicon.tokenizers["source"], lexicon.tokenizers["target"]

    def fields(self, data: DataConfig, tokenizer: AnyTokenizerConfig, training: bool) -> dict[str, TextField]:
        """Sources end with the end token; targets begin and end with theirs."""
        limit = data.max_length if training else None
        source_sampler = self.source.sampler(tokenizer) if training else None
        target_sampler = self.target.sampler(tokenizer) if training else None
        return {
            "source": TextField(self.source, source_sampler, max_length=limit, overlong=data.overlong),
            "target": TextField(
                self.target, target_sampler, begin=True, max_length=limit and limit + 1, overlong=data.overlong
            ),
        }

    def row(self, example: Example) -> Row:
        """A pair as the store takes it."""
        assert isinstance(example, Pair)
        return {"source": example.source, "target": example.target}

    def build(self, model: Any) -> nn.Module:  # noqa: ANN401
        """The model for both vocabularies."""
        return model.build(self.source.vocab_size, self.target.vocab_size)

    def num_params(self, model: Any) -> int:  # noqa: ANN401
        """Learned numbers of the model, without building it."""
        return model.num_params(self.source.vocab_size, self.target.vocab_size)

    def inputs(self, batch: Batch, model: Any, device: torch.device) -> Inputs:  # noqa: ANN401
        """Source and shifted target as tensors."""
        source, target = batch.fields["source"], batch.fields["target"]
        written, targets = shift(target, device)
        count = int(np.sum(target.lengths - 1))
        if written.layout.packed:
            one = partial(model.flops, 1, vocab=self.target.vocab_size)
            flops = self.packed_flops(one, source.lengths, target.lengths - 1)
        else:
            rows, time = target.tokens.shape
            flops = model.flops(rows, source.tokens.shape[1], time - 1, self.target.vocab_size)
        arguments = (to_sequences(source, device), written)
        return Inputs(arguments, targets, count, total_tokens(batch) - len(target.lengths), 3.0 * flops * self.passes)
