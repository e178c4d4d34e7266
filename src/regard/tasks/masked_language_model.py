"""Masked language modelling: hidden tokens from all that stands around them, on both sides (BERT, Devlin 2019).

An encoder that has learnt this is where others begin: `model.from` starts a classifier with its weights.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.config import Unused
from regard.data.batches import Batch, BatchingConfig, StreamConfig
from regard.data.collate import Packed
from regard.data.examples import Example, Text
from regard.data.fields import TextField
from regard.data.masking import MaskingConfig
from regard.data.settings import DataConfig
from regard.data.sources import Content
from regard.data.store_writer import Row
from regard.errors import ConfigError
from regard.models.recurrent.single_stack import SingleRecurrentConfig
from regard.nn.device import to_device
from regard.nn.loss import Losses, cross_entropy
from regard.tasks.base import Inputs, Task, TaskBase, Vocabularies, need_shape, total_tokens, with_balance
from regard.tasks.consistency import consistent_losses, twice
from regard.tasks.mask_filling import Filled, fill
from regard.tasks.tensors import to_sequences
from regard.text.tokenizer import TokenizerConfig


class MaskedLanguageModelConfig(TaskBase):
    """Guesses hidden tokens of plain text from both sides: pre-training for encoders."""

    kind: Literal["masked_language_model"] = "masked_language_model"
    content: ClassVar[Content] = "text"
    texts: ClassVar[tuple[str, ...]] = ("text",)
    usual_model: ClassVar[str] = "encoder"
    scores: ClassVar[tuple[str, ...]] = ("loss", "perplexity", "accuracy", "pseudo_perplexity")
    predicts_tokens: ClassVar[bool] = True

    masking: MaskingConfig = MaskingConfig()
    """What is hidden, and how."""

    def task(self, vocabularies: Vocabularies) -> "MaskedLanguageModel":
        """The task, once the vocabulary is known."""
        return MaskedLanguageModel(vocabularies, self)

    def batching(self, data: DataConfig) -> BatchingConfig:
        """One long stream unless the recipe says otherwise; a row of it has `context` tokens, all of them read."""
        chosen = data.batching or StreamConfig()
        return chosen.but(context=chosen.context - 1) if isinstance(chosen, StreamConfig) else chosen

    def check(self, model: Any, data: DataConfig) -> None:  # noqa: ANN401
        """Refuses a model or data that this task cannot use."""
        super().check(model, data)
        need_shape(model, ["encoder"], "masked_language_model")
        if isinstance(data.batching, StreamConfig) and data.batching.context < 2:
            raise ConfigError("data.batching.context", "a token is guessed from others: expected at least 2, got 1")

    def unused(self, model: Any, data: DataConfig, tokenizer: TokenizerConfig) -> Iterator[Unused]:  # noqa: ANN401
        """Tokens that are words have no parts to hide together."""
        yield from super().unused(model, data, tokenizer)
        if tokenizer.kind == "word":
            yield Unused("task.masking.whole_words", "on a vocabulary of whole words")


@dataclass(frozen=True)
class MaskedInputs(Inputs):
    """One batch as tensors: `targets` are the hidden tokens, one after another."""

    places: Int[Tensor, " chosen"]
    """Where they stand, counted through the grid row by row."""


class MaskedLanguageModel(Task):
    """−Σ log P(x_i | everything but the hidden tokens), over the hidden tokens i."""

    def __init__(self, vocabularies: Vocabularies, config: MaskedLanguageModelConfig) -> None:
        super().__init__(vocabularies, config)
        self.tokenizer = vocabularies.tokenizers["text"]
        self.masking = config.masking.build(self.tokenizer)

    def fields(self, data: DataConfig, tokenizer: TokenizerConfig, training: bool) -> dict[str, TextField]:
        """A running text is one stream; a text of its own ends with the end token, as one to classify does."""
        stream = data.batching is None or isinstance(data.batching, StreamConfig)
        running = data.train is not None and data.train.is_running_text
        if stream:
            return {"text": TextField(self.tokenizer, None, end=not running)}
        sampler = self.tokenizer.sampler(tokenizer) if training else None
        return {"text": TextField(self.tokenizer, sampler, max_length=data.max_length, overlong=data.overlong)}

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

    def inputs(self, batch: Batch, model: Any, device: torch.device) -> MaskedInputs:  # noqa: ANN401
        """The tokens with some of them hidden, and what was hidden; the same for the same seed, epoch and example."""
        text = batch.fields["text"]
        masked = self.masking.mask(text, batch.examples, batch.seed, batch.epoch)
        vocab, count = self.tokenizer.vocab_size, len(masked.answers)
        if isinstance(text, Packed):
            flops = self.packed_flops(partial(model.flops, 1, vocab=vocab), text.lengths)
        else:
            flops = float(model.flops(*text.tokens.shape, vocab))
        flops -= head_flops(model, vocab, text.tokens.size) - head_flops(model, vocab, count)
        return MaskedInputs(
            (to_sequences(masked.field, device),),
            to_device(torch.from_numpy(masked.answers), device),
            max(1, count),  # texts without a token to hide are no reason to divide by zero
            total_tokens(batch),
            3.0 * flops * self.passes,
            to_device(torch.from_numpy(masked.positions), device),
        )

    def losses(self, model: nn.Module, inputs: Inputs) -> Losses:
        """Cross-entropy of the hidden tokens; the output layer is asked at their places only."""
        assert isinstance(inputs, MaskedInputs)
        smoothing, consistency = self.config.smoothing, self.config.consistency
        head: Any = model.head
        if consistency:
            halves = hidden(model, twice(inputs.arguments)).chunk(2, 1 if inputs.arguments[0].layout.packed else 0)
            first, second = (head(at(half, inputs.places)) for half in halves)
            losses = consistent_losses(first, second, inputs.targets, smoothing, consistency, head.spread)
        else:
            x = at(hidden(model, inputs.arguments), inputs.places)
            losses = head.losses(x[None], inputs.targets[None], smoothing)
        return with_balance(model, losses, inputs.count)

    def measure(self, model: nn.Module, inputs: Inputs) -> dict[str, float]:
        """Cross-entropy without smoothing, and how many hidden tokens are guessed right."""
        assert isinstance(inputs, MaskedInputs)
        head: Any = model.head
        logits = head(at(hidden(model, inputs.arguments), inputs.places))
        right = (logits.argmax(-1) == inputs.targets).sum()
        nll = cross_entropy(logits, inputs.targets)
        return {"nll": float(nll), "right": float(right), "count": len(inputs.targets)}

    def summarise(self, sums: Mapping[str, float]) -> dict[str, float]:
        """Mean loss of the hidden tokens and the share that is guessed right."""
        return {**super().summarise(sums), "accuracy": sums["right"] / sums["count"] if sums["count"] else math.nan}

    def fill(
        self, model: nn.Module, texts: Sequence[str], device: torch.device, top: int = 5, ends: bool = False
    ) -> list[Filled]:
        """Each text with the likeliest token in the place of every `<mask>`; `ends`: put the end token after it."""
        return fill(model, self.tokenizer, texts, device, top, ends)


def hidden(model: nn.Module, arguments: tuple[Any, ...]) -> Float[Tensor, "batch time width"]:
    """The vectors that the output layer is given."""
    return model.hidden(*arguments)  # type: ignore[operator]


def at(x: Float[Tensor, "batch time width"], places: Int[Tensor, " chosen"]) -> Float[Tensor, "chosen width"]:
    """The vectors at some places, counted through the grid row by row."""
    return x.flatten(0, 1)[places]


def head_flops(model: Any, vocab: int, places: int) -> float:  # noqa: ANN401
    """Matrix-product FLOPs of the output layer at so many places."""
    width = model.layers()[-1].width if isinstance(model, SingleRecurrentConfig) else model.width
    factor = model.embedding.factor if model.embedding.shares_output else None
    head: Any = model.head_for(None)
    return float(head.flops(width, vocab, places, factor))
