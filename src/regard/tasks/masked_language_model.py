"""Masked language modelling: masked tokens from their context on both sides (BERT, Devlin 2019).

`model.from` initialises a classifier with the weights of an encoder that was trained so.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.config import Unused
from regard.data.batches import Batch, BatchingConfig, StreamConfig
from regard.data.examples import Example, Text
from regard.data.fields import TextField
from regard.data.masking import MaskingConfig
from regard.data.settings import DataConfig
from regard.data.store_writer import Row
from regard.decode import in_batches
from regard.errors import ConfigError, InputError
from regard.models.recurrent.single_stack import SingleRecurrentConfig
from regard.models.transformer import EncoderConfig
from regard.nn.device import to_device
from regard.nn.head import VocabularyHeadConfig
from regard.nn.layout import Sequences
from regard.nn.loss import Losses, cross_entropy
from regard.tasks.base import Inputs, Task, TaskConfig, Vocabularies, need_shape, total_tokens, with_balance
from regard.tasks.classification import accuracy
from regard.tasks.contract import ModelConfig, sequences, token_model
from regard.tasks.regularisation import consistent_losses, twice
from regard.tasks.tensors import to_sequences
from regard.text.special_tokens import EOS, MASK, SPECIAL_TOKENS
from regard.text.tokenizer import Tokenizer, TokenizerConfig

MASK_TEXT = SPECIAL_TOKENS[MASK]
FIRST = len(SPECIAL_TOKENS)
TOKENS_AT_ONCE = 4096


class MaskedLanguageModelConfig(TaskConfig):
    """Predicts masked tokens of plain text from both sides: pre-training for encoders."""

    kind: Literal["masked_language_model"] = "masked_language_model"
    content = "text"
    texts = ("text",)
    usual_model = "encoder"
    scoring = "masked_tokens"
    default_score = "loss"
    measured = ("loss", "perplexity", "accuracy", "pseudo_perplexity")
    example_command = "regard train RECIPE model.from={folder}"

    masking: MaskingConfig = MaskingConfig()
    """Which tokens are masked, and how."""

    @property
    def target_masking(self) -> MaskingConfig:
        return self.masking

    def task(self, vocabularies: Vocabularies) -> "MaskedLanguageModel":
        return MaskedLanguageModel(vocabularies, self)

    def batching(self, data: DataConfig) -> BatchingConfig:
        """One long stream unless the recipe says otherwise; a row of it has `context` tokens, all of them read."""
        chosen = data.batching or StreamConfig()
        return chosen.but(context=chosen.context - 1) if isinstance(chosen, StreamConfig) else chosen

    def check(self, model: ModelConfig, data: DataConfig) -> None:
        super().check(model, data)
        need_shape(model, ["encoder"], "masked_language_model")
        if isinstance(data.batching, StreamConfig) and data.batching.context < 2:
            raise ConfigError("data.batching.context", "a token is predicted from others: expected at least 2, got 1")

    def unused(self, model: ModelConfig, data: DataConfig, tokenizer: TokenizerConfig) -> Iterator[Unused]:
        """Words of one token have no parts to mask together."""
        yield from super().unused(model, data, tokenizer)
        if tokenizer.kind == "word":
            yield Unused("task.masking.whole_words", "on a vocabulary of whole words")


@dataclass(frozen=True)
class MaskedInputs(Inputs):
    """One batch as tensors: `targets` are the masked tokens, one after another."""

    positions: Int[Tensor, " masked"]
    """Their indices in the flattened batch."""


@dataclass(frozen=True)
class Filled:
    """A text with its masks filled in."""

    text: str
    guesses: list[list[tuple[str, float]]]
    """For each mask the likeliest tokens and their probabilities."""


class MaskedLanguageModel(Task):
    """−Σ log P(x_i | all tokens that are not masked), over the masked tokens i."""

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
        assert isinstance(example, Text)
        return {"text": example.text + example.end}

    def sizes(self, model: ModelConfig) -> tuple[int, ...]:
        return (self.tokenizer.vocab_size,)

    def inputs(self, batch: Batch, model: ModelConfig, device: torch.device) -> MaskedInputs:
        """The tokens, some of them masked, and the masked ones; the same for the same seed, epoch and example."""
        text = batch.fields["text"]
        masked = self.masking.mask(text, batch.examples, batch.seed, batch.epoch)
        vocab, count = self.tokenizer.vocab_size, len(masked.answers)
        flops = self.forward_flops(partial(model.flops, vocab=vocab), text)
        flops -= head_flops(model, vocab, text.tokens.size) - head_flops(model, vocab, count)
        return MaskedInputs(
            (to_sequences(masked.field, device),),
            to_device(torch.as_tensor(masked.answers), device),
            max(1, count),  # texts without a token to mask must not divide by zero
            total_tokens(batch),
            3.0 * flops * self.passes,
            to_device(torch.as_tensor(masked.positions), device),
        )

    def losses(self, model: nn.Module, inputs: Inputs) -> Losses:
        """Cross-entropy of the masked tokens; logits are computed at their positions only."""
        assert isinstance(inputs, MaskedInputs)
        smoothing, consistency = self.config.smoothing, self.config.consistency
        parts = token_model(model)
        if consistency:
            packed = sequences(inputs.arguments[0]).layout.packed
            halves = parts.hidden(*twice(inputs.arguments)).chunk(2, 1 if packed else 0)
            first, second = (parts.head(at(half, inputs.positions)) for half in halves)
            losses = consistent_losses(first, second, inputs.targets, smoothing, consistency, parts.head.spread)
        else:
            x = at(parts.hidden(*inputs.arguments), inputs.positions)
            losses = parts.head.losses(x[None], inputs.targets[None], smoothing)
        return with_balance(model, losses, inputs.count)

    def measure(self, model: nn.Module, inputs: Inputs) -> dict[str, float]:
        assert isinstance(inputs, MaskedInputs)
        parts = token_model(model)
        logits = parts.head(at(parts.hidden(*inputs.arguments), inputs.positions))
        right = (logits.argmax(-1) == inputs.targets).sum()
        nll = cross_entropy(logits, inputs.targets)
        return {"nll": float(nll), "right": float(right), "count": len(inputs.targets)}

    def summarise(self, sums: Mapping[str, float]) -> dict[str, float]:
        return {**super().summarise(sums), **accuracy(sums)}

    def fill(
        self, model: nn.Module, texts: Sequence[str], device: torch.device, top: int = 5, ends: bool = False
    ) -> list[Filled]:
        """Each text with every `<mask>` replaced by its likeliest token, each predicted independently.

        `ends` appends the end token to each text, for models that were trained with it.
        """
        tokenizer = self.tokenizer
        rows = [masked_ids(tokenizer, text, number) + [EOS] * ends for number, text in enumerate(texts, start=1)]
        predictions = mask_logprobs(model, rows, device)
        return [_filled(tokenizer, row, logprobs, top) for row, logprobs in zip(rows, predictions, strict=True)]


def at(x: Float[Tensor, "batch time width"], positions: Int[Tensor, " masked"]) -> Float[Tensor, "masked width"]:
    return x.flatten(0, 1)[positions]


def head_flops(model: ModelConfig, vocab: int, positions: int) -> float:
    width = model.layers()[-1].width if isinstance(model, SingleRecurrentConfig) else model.width
    config = cast(EncoderConfig, model)  # or a baseline with the same parts
    factor = config.embedding.factor if config.embedding.shares_output else None
    head = config.head_for(None)
    assert isinstance(head, VocabularyHeadConfig)
    return float(head.flops(width, vocab, positions, factor))


def masked_nlls(model: nn.Module, tokens: Sequence[tuple[Sequence[int], int]], device: torch.device) -> list[float]:
    """−log P(token | all others of its row) for each (row, position): every token masked alone."""
    rows = [[*row[:position], MASK, *row[position + 1 :]] for row, position in tokens]
    predictions = mask_logprobs(model, rows, device)
    pairs = zip(tokens, predictions, strict=True)
    return [-float(logprobs[0, row[position]]) for (row, position), logprobs in pairs]


@torch.no_grad()
def mask_logprobs(
    model: nn.Module, rows: Sequence[list[int]], device: torch.device
) -> list[Float[Tensor, "masks vocab"]]:
    """The log-probability of every token at each mask of each row."""
    parts = token_model(model)

    def work(batch: list[list[int]]) -> list[Tensor]:
        tokens = Sequences.padded(batch, device=device)
        at_mask = tokens.tokens == MASK
        logits = parts.head(parts.hidden(tokens)[at_mask]).float()
        logprobs, ends = logits.log_softmax(-1).cpu(), at_mask.sum(1).cumsum(0).cpu()
        return list(logprobs.tensor_split(ends[:-1]))

    return in_batches(rows, work, tokens_per_batch=TOKENS_AT_ONCE)


def masked_ids(tokenizer: Tokenizer, text: str, number: int = 1) -> list[int]:
    """The tokens of a text with masks; where tokens begin with a space, the mask includes it."""
    parts = text.replace(tokenizer.mask, MASK_TEXT).split(MASK_TEXT)
    if len(parts) == 1:
        raise InputError(number, f"expected a {MASK_TEXT} to fill in, got none")
    if _has_spaces(tokenizer):
        parts = [*(part.removesuffix(" ") for part in parts[:-1]), parts[-1]]
    rows = [tokenizer.encode(part, prefix=False) if part else [] for part in parts]
    return [*tokenizer.prefix_ids, *rows[0], *(token for row in rows[1:] for token in (MASK, *row))]


def _has_spaces(tokenizer: Tokenizer) -> bool:
    """Whether the space before a word is part of the word's token."""
    return any(len(token) > 1 and token[0] == "▁" for token in tokenizer.tokens(range(tokenizer.vocab_size)))


def _filled(tokenizer: Tokenizer, row: list[int], logprobs: Float[Tensor, "masks vocab"], top: int) -> Filled:
    values, indices = logprobs[:, FIRST:].topk(min(top, logprobs.shape[1] - FIRST))
    ids: list[list[int]] = (indices + FIRST).numpy().tolist()
    best = iter(likely[0] for likely in ids)
    text = tokenizer.decode([next(best) if token == MASK else token for token in row])
    columns = zip(ids, values.exp().numpy().tolist(), strict=True)
    return Filled(text, [list(zip(tokenizer.tokens(likely), column, strict=True)) for likely, column in columns])
