"""Summarisation: a short text for a long one, by an encoder-decoder (T-ED) or by a decoder alone (T-D).

Liu 2018 compares four systems, each a matter of `model`:

    seq2seq-attention   model.kind = "lstm-seq2seq"
    T-ED                model.kind = "encoder-decoder"
    T-D                 model.kind = "decoder"                 input, separator and output as one sequence
    T-DMCA              … and model.attention = "alternating"  local and memory-compressed layers in turn

A decoder reads m_1 … m_n <sep> y_1 … y_k <eos>, of which only what follows the separator is predicted, unless the input
is to be predicted too.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Literal, cast

import numpy as np
import torch
from jaxtyping import Int
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor, nn

from regard.data.batches import Batch
from regard.data.collate import Packed, Ragged, pack, pad
from regard.data.examples import Example
from regard.data.fields import TextField
from regard.data.settings import DataConfig
from regard.data.store_writer import Row
from regard.decode import AnySearch, AnyStepper, Ensemble, in_batches
from regard.decode.steppers import max_positions
from regard.errors import ConfigError
from regard.models.stepper import PrefixDecoder
from regard.models.transformer import Decoder
from regard.nn.device import to_device
from regard.nn.layout import Layout
from regard.nn.loss import IGNORED, Losses
from regard.tasks.base import (
    TRAINING_SETTINGS,
    GenerationTask,
    Inputs,
    TaskConfig,
    Tokens,
    Vocabularies,
    need_shape,
    with_balance,
)
from regard.tasks.contract import ModelConfig, config_of, evaluation_mode, token_model
from regard.tasks.generation import AnyInputs, TextGenerator
from regard.tasks.tensors import shift
from regard.tasks.translation import Translation, TranslationConfig
from regard.text.inputs import SourceSegment, truncate_document
from regard.text.outputs import Output, Summary, join_segments
from regard.text.special_tokens import BOS, EOS, SEP, SPECIAL_TOKENS
from regard.text.tokenizer import Tokenizer, TokenizerConfig


class SummarisationConfig(TaskConfig):
    """A short text for each long one: summaries, subjects of messages, minutes of meetings (Liu 2018)."""

    kind: Literal["summarisation"] = "summarisation"
    smoothing: float = Field(0.1, ge=0, lt=1)
    """Label smoothing: the share of each token's probability that is spread over all tokens. Losses are shown without
    it; metrics.jsonl has the smoothed one as `objective`."""
    input_tokens: int = Field(500, ge=2)
    """Most tokens of an input, its end token counted: longer ones are cut there, in training and after, and counted.
    `data.max_length` is for the outputs."""
    predict_input: bool = False
    """A decoder is trained to predict its input too, not the output alone, as in Liu 2018; scores count the output."""

    content = "pairs"
    texts = ("source", "target")
    scoring = "texts"
    default_score = "rouge_l"
    measured = ("loss", "perplexity", "cut")
    example_command = "echo 'Your text' | regard translate {folder}"
    ctranslate2_settings = TRAINING_SETTINGS | {"input_tokens", "predict_input"}
    generates = True

    @property
    def input_limit(self) -> int:
        return self.input_tokens

    def task(self, vocabularies: Vocabularies) -> "Summarisation":
        return Summarisation(vocabularies, self)

    def check(self, model: ModelConfig, data: DataConfig) -> None:
        super().check(model, data)
        need_shape(model, ["encoder-decoder", "decoder"], "summarisation")
        if data.batching is not None and data.batching.kind == "stream":
            raise ConfigError("data.batching", "inputs and outputs need 'bucketed' or 'packed' batches, got 'stream'")
        if self.predict_input and model.shape != "decoder":
            raise ConfigError("task.predict_input", f"only a decoder predicts its input; {model.kind} reads it")
        needed = self.input_tokens + (data.max_length if model.shape == "decoder" else 0)
        if model.longest is not None and model.longest < needed:
            raise ConfigError(
                "model.position.length",
                f"expected at least {needed} for task.input_tokens = {self.input_tokens}"
                f"{' and data.max_length' if needed > self.input_tokens else ''}, got {model.longest}",
            )


@dataclass(frozen=True)
class JoinedInputs(Inputs):
    """A batch of joined sequences; scores count the outputs, whatever the objective counts."""

    outputs: Tensor
    """The targets without those of the input."""
    output_count: int

    @property
    def scored(self) -> int:
        return self.output_count


def join(source: Tokens, target: Tokens) -> Tokens:
    """Each source without its end token, the separator, and its target without its begin token."""
    rows = [
        np.concatenate([one[:-1], [SEP], other[1:]]) for one, other in zip(_rows(source), _rows(target), strict=True)
    ]
    ragged = Ragged(np.concatenate(rows), np.array([len(row) for row in rows], np.int64))
    return pack(ragged) if isinstance(source, Packed) else pad(ragged)


def _rows(field: Tokens) -> list[NDArray[np.int64]]:
    if isinstance(field, Packed):
        return np.split(field.tokens[0], np.cumsum(field.lengths)[:-1])
    return [row[:length] for row, length in zip(field.tokens, field.lengths, strict=True)]


def joined_inputs(
    source: Tokens,
    target: Tokens,
    model: ModelConfig,
    vocab: int,
    device: torch.device,
    forward_flops: Callable[[Callable[..., int], Tokens], float],
    passes: float = 3.0,
    predict_input: bool = False,
) -> JoinedInputs:
    whole = join(source, target)
    joined_tokens, targets = shift(whole, device)
    outputs = targets.masked_fill(
        _before_output(joined_tokens.layout, to_device(torch.as_tensor(source.lengths), device)), IGNORED
    )
    tokens, count = int(np.sum(whole.lengths - 1)), int(np.sum(target.lengths - 1))
    counted, target_count = (targets, tokens) if predict_input else (outputs, count)
    flops = forward_flops(partial(model.flops, vocab=0), whole)
    flops += target_count * (model.flops(1, 1, vocab=vocab) - model.flops(1, 1, vocab=0))  # logits of the targets only
    return JoinedInputs((joined_tokens,), counted, target_count, tokens, passes * flops, outputs, count)


def _before_output(layout: Layout, sources: Int[Tensor, " sequences"]) -> Tensor:
    """True at positions whose next token belongs to the input or is the separator."""
    lengths = sources[layout.segment] if layout.packed else sources[:, None]
    return layout.index < lengths - 1


@dataclass(frozen=True)
class Summariser(TextGenerator):
    """Generates summaries from the beginning of each text; how much was not read is told with each."""

    input_tokens: int = 500
    """Most tokens of a text, its end token counted."""

    def translate(
        self, texts: AnyInputs, config: AnySearch, prefixes: Sequence[str] | None = None, cut: bool = True
    ) -> list[list[Output]]:
        """The summaries of each text, best first; a blank text stays blank."""
        if self.positions is not None and config.max_length > self.positions:
            config = config.but(max_length=self.positions, min_length=min(config.min_length, self.positions - 1))
        texts = [str(text) for text in texts]
        starts = [self.target.encode(prefix) for prefix in prefixes or [""] * len(texts)]
        read = [self._read(text) for text in texts]
        rows = zip(texts, read, starts, strict=True)
        jobs = [SourceSegment(ids, start, text) for text, (ids, _), start in rows if text.strip()]
        outputs = iter(in_batches(jobs, lambda batch: self._translate(batch, config), **self.at_once(config)))
        return [
            [Summary(**vars(output), unread=unread) for output in next(outputs)]
            if text.strip()
            else join_segments([], [])
            for text, (_, unread) in zip(texts, read, strict=True)
        ]

    @cached_property
    def positions(self) -> int | None:
        """Most tokens of a summary; of a decoder, what the longest input leaves of its positions."""
        steppers = self.stepper.members if isinstance(self.stepper, Ensemble) else [self.stepper]
        limits = [
            positions - self.input_tokens + 1 if isinstance(stepper, PrefixDecoder) else positions
            for stepper in steppers
            if (positions := max_positions(stepper)) is not None
        ]
        return min(limits, default=None)

    def source_ids(self, text: str) -> list[int]:
        return self._read(text)[0]

    def _read(self, text: str) -> tuple[list[int], int]:
        """The tokens of a text that are read, and how many are not."""
        assert self.source is not None
        tokens, unread = truncate_document(text, self.source, self.input_tokens)
        return [*tokens, EOS], unread


class Summarisation(GenerationTask):
    """−Σ log P(y_i | y_<i, m_1 … m_L): each token of the output from those before it and the first L of the input."""

    verb = "translate"
    predicted = ("target",)

    def __init__(self, vocabularies: Vocabularies, config: SummarisationConfig) -> None:
        super().__init__(vocabularies, config)
        self.input_tokens, self.predict_input = config.input_tokens, config.predict_input
        self.source, self.target = vocabularies.tokenizers["source"], vocabularies.tokenizers["target"]
        self._pairs = Translation(vocabularies, TranslationConfig(consistency=config.consistency))

    def fields(self, data: DataConfig, tokenizer: TokenizerConfig, training: bool) -> dict[str, TextField]:
        """As for translation, but inputs are cut at their limit, after training too."""
        fields = self._pairs.fields(data, tokenizer, training)
        source = TextField(self.source, fields["source"].sampler, max_length=self.input_tokens, overlong="cut")
        return {**fields, "source": source}

    def position_limits(self, model: ModelConfig) -> dict[str, int]:
        """In a decoder, input, separator and output share the positions, and the input has its own limit."""
        limits = super().position_limits(model)
        if model.longest is None or not limits or not self.joins_source(model):
            return limits
        return {"source": self.input_tokens, "target": model.longest - self.input_tokens + 2}

    def joins_source(self, model: ModelConfig) -> bool:
        return model.shape == "decoder"

    def row(self, example: Example) -> Row:
        return self._pairs.row(example)

    def rows(self, examples: Sequence[Example]) -> list[Row]:
        return self._pairs.rows(examples)

    def sizes(self, model: ModelConfig) -> tuple[int, ...]:
        return (self.target.vocab_size,) if self.joins_source(model) else self._pairs.sizes(model)

    def build(self, model: ModelConfig) -> nn.Module:
        if self.joins_source(model):
            need_separator(self.source, self.target)
        return super().build(model)

    def inputs(self, batch: Batch, model: ModelConfig, device: torch.device) -> Inputs:
        if not self.joins_source(model):
            return self._pairs.inputs(batch, model, device)
        source, target = batch.fields["source"], batch.fields["target"]
        flops = partial(self.forward_flops, shifted=True)
        vocab, passes = self.target.vocab_size, 3.0 * self.passes
        return joined_inputs(source, target, model, vocab, device, flops, passes, self.predict_input)

    def losses(self, model: nn.Module, inputs: Inputs) -> Losses:
        """Cross-entropy of the targets; logits are computed only where there is one."""
        if not isinstance(inputs, JoinedInputs):
            return super().losses(model, inputs)
        if self.config.consistency:
            losses = super().losses(model, inputs)
            plain = self._plain(model, inputs) if self.predict_input else losses.plain
            return Losses(losses.objective, plain)
        x = token_model(model).hidden(*inputs.arguments)
        losses = losses_at_targets(model, x, inputs.targets, self.config.smoothing)
        if self.predict_input:  # then the objective is of the inputs too, and scores are not
            with torch.no_grad():
                losses = Losses(losses.objective, losses_at_targets(model, x.detach(), inputs.outputs).objective)
        return with_balance(model, losses, inputs.count)

    def measure(self, model: nn.Module, inputs: Inputs) -> dict[str, float]:
        if not isinstance(inputs, JoinedInputs):
            return super().measure(model, inputs)
        return {"nll": float(self._plain(model, inputs)), "count": inputs.output_count}

    @torch.no_grad()
    def _plain(self, model: nn.Module, inputs: JoinedInputs) -> Tensor:
        with evaluation_mode(model):
            return losses_at_targets(model, token_model(model).hidden(*inputs.arguments), inputs.outputs).objective

    def generator(
        self, stepper: AnyStepper, device: torch.device, longest: int | None = None, base: Path = Path()
    ) -> Summariser:
        if isinstance(stepper, Ensemble):
            stepper = Ensemble([with_prompt(member) for member in stepper.members], stepper.mean)
        else:
            stepper = with_prompt(stepper)
        return Summariser(stepper, self.source, self.target, device, input_tokens=self.input_tokens)


def losses_at_targets(model: nn.Module, x: Tensor, targets: Tensor, smoothing: float = 0.0) -> Losses:
    """Cross-entropy of the targets; positions without one, such as a long input, cost no logits."""
    counted = targets != IGNORED
    return token_model(model).head.losses(x[counted][None], targets[counted][None], smoothing)


def with_prompt(stepper: AnyStepper) -> AnyStepper:
    """A decoder that reads the source as its prompt; an encoder-decoder as it is."""
    if config_of(cast(nn.Module, stepper)).shape != "decoder":
        return stepper
    return PrefixDecoder(cast(Decoder, stepper), begin=BOS, separator=SEP)


def need_separator(source: Tokenizer, target: Tokenizer) -> None:
    """A decoder reads input and output as one text: one vocabulary, with a token between the two."""
    if source.identity != target.identity:
        raise ConfigError(
            "tokenizer.joint", "a decoder reads input and output as one text, so both need one vocabulary; set it true"
        )
    name = SPECIAL_TOKENS[SEP]
    if source.core.token_to_id(name) != SEP:
        raise ConfigError("tokenizer", f"expected the separator {name} as token {SEP} between input and output")
