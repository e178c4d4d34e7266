"""Transformers of one stack: the encoder with full, and the decoder with causal self-attention."""

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import torch
from jaxtyping import Float, Int
from pydantic import model_validator
from torch import Tensor

from regard.config import refuse
from regard.errors import ConfigError
from regard.models.contract import GenerativeModel, Model
from regard.models.stack import Stack, TextStackConfig
from regard.models.stepper import at_last
from regard.nn.cache import CacheLengths, KVCache
from regard.nn.head import (
    AnyHeadConfig,
    HeadConfig,
    PooledHead,
    PooledHeadConfig,
    VocabularyHeadConfig,
    head_for,
)
from regard.nn.layout import Layout, Sequences
from regard.nn.position import PositionConfig


class SingleStackConfig(TextStackConfig):
    """Settings of models with one stack."""

    head: HeadConfig | None = None
    """Output layer; when left out, the one the task needs: vocabulary, or pooled where there are classes."""

    def head_for(self, classes: int | None) -> AnyHeadConfig:
        return head_for(self.head, classes)

    def num_params(self, vocab: int, classes: int | None = None) -> int:
        head = self.head_for(classes)
        shared = self.embedding.shares_output
        if isinstance(head, VocabularyHeadConfig):
            output = head.num_params(self.width, vocab, shared)
        else:
            output = head.num_params(self.width, classes or 0)
        stack = self.stack_params(self.depth, self.position, input_norm=self.embedding.norm)
        return self.embedding.num_params(vocab, self.width) + stack + output

    def flops(self, batch: int, time: int, vocab: int, classes: int | None = None) -> int:
        head, tokens = self.head_for(classes), batch * time
        total = self.stack_flops(self.depth, self.position, batch, time) + self.embedding.flops(self.width, tokens)
        if isinstance(head, VocabularyHeadConfig):
            factor = self.embedding.factor if self.embedding.shares_output else None
            return total + head.flops(self.width, vocab, tokens, factor)
        return total + head.flops(self.width, classes or 0, batch if isinstance(head, PooledHeadConfig) else tokens)


class SingleStack(Model[SingleStackConfig]):
    """Embedding, stack, output layer."""

    def __init__(self, config: SingleStackConfig, vocab: int, classes: int | None, causal: bool) -> None:
        super().__init__()
        self.config = config
        head = config.head_for(classes)
        self.embedding = config.embedding.build(vocab, config.width)
        self.stack = Stack(config, config.depth, config.position, causal, input_norm=config.embedding.norm)
        if isinstance(head, VocabularyHeadConfig):
            shared = self.embedding if config.embedding.shares_output else None
            self.head = head.build(config.width, vocab, shared)
        else:
            self.head = head.build(config.width, classes or 0)
        config.initialise.apply(self, config.depth)

    def forward(self, sequences: Sequences, segments: Int[Tensor, "batch time"] | None = None) -> Tensor:
        """Logits over the vocabulary or the classes at each position, or over the classes for each row."""
        x = self.hidden(sequences, segments)
        if isinstance(self.head, PooledHead):
            if sequences.layout.packed:
                raise ConfigError(
                    "data.batching", "one class for a whole sequence needs padded batches, got packed ones"
                )
            return self.head(x, sequences.layout.valid)
        return self.head(x)

    def hidden(
        self, sequences: Sequences, segments: Int[Tensor, "batch time"] | None = None
    ) -> Float[Tensor, "batch time width"]:
        layout = sequences.layout
        x = self.embedding(sequences.tokens, segments)
        return self.stack(x, self.stack.context(layout), None if layout.whole else layout.valid)


class EncoderConfig(SingleStackConfig):
    """Every token attends to every other: classification, tagging, masked language models."""

    kind: Literal["encoder"] = "encoder"
    shape: ClassVar[str] = "encoder"

    @model_validator(mode="after")
    def _sees_both_ways(self) -> "EncoderConfig":
        if self.attention.strict:
            raise refuse("attention.strict", "an encoder hides no token, so there is nothing to be strict about")
        return self

    def build(self, vocab: int, classes: int | None = None) -> "Encoder":
        return Encoder(self, vocab, classes)


class Encoder(SingleStack):
    """Every token attends to every other."""

    def __init__(self, config: EncoderConfig, vocab: int, classes: int | None = None) -> None:
        super().__init__(config, vocab, classes, causal=False)


class DecoderConfig(SingleStackConfig):
    """Every token attends to itself and earlier ones: language models, generation."""

    kind: Literal["decoder"] = "decoder"
    shape: ClassVar[str] = "decoder"

    @model_validator(mode="after")
    def _writes_left_to_right(self) -> "DecoderConfig":
        refuse_tree(self.position, "position")
        self.attention.refuse_causal("attention")
        return self

    def build(self, vocab: int, classes: int | None = None) -> "Decoder":
        return Decoder(self, vocab, classes)


def refuse_tree(position: PositionConfig, setting: str) -> None:
    """Raises for tree positions, as a decoder has no parsed sentence yet."""
    if position.needs_tree:
        raise refuse(
            setting, "a decoder writes its sentence token by token, so it has no tree yet; choose another kind"
        )


@dataclass(frozen=True, eq=False)
class DecoderState:
    """The decoding state: cached keys and values of each row, and those of the source."""

    cache_lengths: CacheLengths
    caches: list[KVCache]
    source_kv: list[KVCache] | None = None
    source_layout: Layout | None = None
    source_rows: Int[Tensor, " batch"] | None = None
    """Which source each row decodes; the rows of a beam are consecutive and share one."""

    def reorder(self, rows: Int[Tensor, " rows"]) -> "DecoderState":
        filled = self.cache_lengths.longest
        caches = [cache.reorder(rows, filled) for cache in self.caches]
        state = replace(self, cache_lengths=self.cache_lengths.reorder(rows), caches=caches)
        return state._reorder_source(rows) if self.source_kv is not None else state

    def _reorder_source(self, rows: Int[Tensor, " rows"]) -> "DecoderState":
        """The source of the chosen rows, sources once per beam if all beams are equally wide."""
        assert self.source_kv is not None
        assert self.source_layout is not None
        assert self.source_rows is not None
        source_rows, layout = self.source_rows[rows], self.source_layout
        if torch.equal(source_rows, self.source_rows):
            return self
        sources, beams = torch.unique_consecutive(source_rows, return_counts=True)
        if not torch.equal(beams, beams[:1].expand_as(beams)):
            sources = source_rows
        index = torch.arange(len(sources), device=sources.device)
        state = replace(self, source_rows=index.repeat_interleave(len(rows) // len(sources)))
        if torch.equal(sources, torch.arange(len(layout.lengths), device=sources.device)):
            return state
        return replace(
            state,
            source_kv=[layer.reorder(sources) for layer in self.source_kv],
            source_layout=Layout.padded(layout.lengths[sources], layout.segment.shape[1]),
        )


class Decoder(SingleStack, GenerativeModel[SingleStackConfig, DecoderState]):
    """Every token attends to itself and earlier ones; a `Stepper`."""

    def __init__(self, config: DecoderConfig, vocab: int, classes: int | None = None) -> None:
        super().__init__(config, vocab, classes, causal=True)

    def start(self, source: Sequences | None, *, rows: int, capacity: int) -> DecoderState:
        """The state before the first token; a decoder alone has no source."""
        if source is not None:
            raise ConfigError("model.kind", "a decoder has no source; give the text as a prompt instead")
        return start_decoding(self.stack, self.embedding.table.weight, rows, capacity)

    @torch.no_grad()
    def step(
        self, tokens: Int[Tensor, "batch time"], state: DecoderState, lengths: Int[Tensor, " batch"] | None = None
    ) -> tuple[Float[Tensor, "batch time vocab"], DecoderState]:
        x, state = self._append(tokens, state, lengths)
        return self.head(x), state

    @torch.no_grad()
    def last_logits(
        self, tokens: Int[Tensor, "batch time"], state: DecoderState, lengths: Int[Tensor, " batch"] | None = None
    ) -> tuple[Float[Tensor, "batch vocab"], DecoderState]:
        """`step` that computes only the logits after each row's last token."""
        x, state = self._append(tokens, state, lengths)
        return self.head(at_last(x, lengths)[:, None])[:, 0], state

    def _append(
        self, tokens: Int[Tensor, "batch time"], state: DecoderState, lengths: Int[Tensor, " batch"] | None
    ) -> tuple[Float[Tensor, "batch time width"], DecoderState]:
        time = tokens.shape[1]
        context = self.stack.next_context(state.cache_lengths, time)
        x = self.stack(self.embedding(tokens), context, caches=state.caches, cache_lengths=state.cache_lengths)
        return x, replace(state, cache_lengths=state.cache_lengths.advance(time, lengths))


def start_decoding(stack: Stack, like: Tensor, rows: int, capacity: int) -> DecoderState:
    """Empty caches; raises where positions end before `capacity`."""
    longest = stack.position_config.longest
    if longest is not None and capacity > longest:
        raise ConfigError(
            "model.position.length",
            f"learned positions reach {longest} tokens, got capacity {capacity}; "
            "generate less, train with a larger table, or choose a kind that extends (alibi, t5, rotary)",
        )
    return DecoderState(CacheLengths.empty(rows, capacity, like.device), stack.new_caches(rows, capacity, like))
