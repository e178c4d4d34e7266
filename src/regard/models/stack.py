"""A stack of blocks, of which encoders and decoders are made, and its settings."""

from itertools import cycle, islice
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from pydantic import PositiveInt, model_validator
from torch import Tensor, nn

from regard.config import refuse
from regard.errors import ConfigError
from regard.models.contract import ModelConfig
from regard.nn.attention.kinds import AttentionConfig, FullConfig
from regard.nn.attention.module import NO_POSITION
from regard.nn.block import Block, NormPlace, Residual, block_class
from regard.nn.cache import CacheLengths, KVCache
from regard.nn.context import AttentionContext
from regard.nn.dropout import Dropout, DropoutConfig, DropoutSettings, DropWords
from regard.nn.embedding import EmbeddingConfig
from regard.nn.experts import ExpertsConfig as ExpertsConfig  # registers itself
from regard.nn.fast.packed import prepare_key_ranges
from regard.nn.feedforward import AnyFeedForwardConfig, FeedForwardConfig
from regard.nn.initialise import InitialiseConfig, XavierConfig
from regard.nn.layers import Layers
from regard.nn.layout import Layout
from regard.nn.norm import LayerNormConfig, NormConfig
from regard.nn.pattern import Causal, Padding, Pattern, Shifted
from regard.nn.position import Position, PositionConfig, RotaryConfig, SinusoidalConfig

Vectors = Float[Tensor, "batch time width"]


class StackConfig(ModelConfig):
    """Settings that every Transformer has, whatever its shape."""

    width: PositiveInt = 256
    """Width of the model (d): elements of each token's vector."""
    depth: PositiveInt = 3
    """Number of blocks."""
    heads: PositiveInt = 4
    """Attention heads in each block."""
    attention: AttentionConfig = FullConfig()
    """Kind of attention: which tokens attend to which, and the shape of the heads."""
    position: PositionConfig = SinusoidalConfig()
    """Position encoding."""
    norm: NormConfig = LayerNormConfig()
    """Normalisation."""
    norm_place: NormPlace = "before"
    """Normalise `before` each sub-layer (trains more easily) or `after` it (as in Vaswani 2017)."""
    final_norm: bool | None = None
    """Norm after the last block; when left out, only with norm_place `before`."""
    residual: bool = True
    """Residual connections; off, to show what happens without."""
    feedforward: AnyFeedForwardConfig = FeedForwardConfig()
    """The feed-forward network after attention."""
    dropout: DropoutConfig = DropoutSettings(embedding=0.1, residual=0.1)
    """Dropout rates while training; one number sets embedding and residual."""
    initialise: InitialiseConfig = XavierConfig()
    """Initialisation of the parameters."""

    @model_validator(mode="after")
    def _fits_together(self) -> "StackConfig":
        try:
            head_width = self.head_width
        except ConfigError as error:
            raise refuse("heads", str(error).partition(": ")[2]) from None
        if self.attention.kv_heads and self.heads % self.attention.kv_heads:
            raise refuse(
                "attention.kv_heads", f"expected a divisor of heads = {self.heads}, got {self.attention.kv_heads}"
            )
        if isinstance(self.position, RotaryConfig) and int(head_width * self.position.share) % 2:
            raise refuse("position", f"rotary turns pairs of numbers: expected an even head width, got {head_width}")
        self.attention.refuse_position(self.position.kind)
        self.attention.refuse_widths(self.width, self.heads, self.position)
        return self

    @property
    def head_width(self) -> int:
        return self.attention.width_of_head(self.width, self.heads)

    @property
    def longest(self) -> int | None:
        """Most tokens of a sequence, where positions or attention have such a limit."""
        limits = (self.position.longest, self.attention.longest)
        return min((limit for limit in limits if limit is not None), default=None)

    @property
    def has_final_norm(self) -> bool:
        return self.norm_place == "before" if self.final_norm is None else self.final_norm

    def stack_params(
        self,
        depth: int,
        position: PositionConfig,
        cross: bool = False,
        input_norm: bool = False,
        attention: AttentionConfig | None = None,
    ) -> int:
        """Parameters of one stack."""
        attention = attention or self.attention
        norm = self.norm.num_params(self.width)
        of_attention = sum(kind.num_params(self.width, self.heads) for kind in by_layer(attention, depth))
        sublayers = 1 + cross + (self.feedforward.kind != "none")
        block = self.feedforward.num_params(self.width) + norm * sublayers
        if cross:
            block += attention.num_params(self.width, self.heads, cross=True)
        positions = position.num_params(width=self.width, heads=self.heads, head_width=self.head_width)
        positions *= depth if position.per_layer else 1
        once = attention.shared_params(self.heads) + attention.added_tokens * self.width
        return of_attention + depth * block + positions + norm * (self.has_final_norm + input_norm) + once

    def stack_flops(
        self,
        depth: int,
        position: PositionConfig,
        batch: int,
        time: int,
        source: int | None = None,
        attention: AttentionConfig | None = None,
    ) -> int:
        """Matmul FLOPs of one forward pass through a stack, with cross-attention to `source` tokens if given."""
        attention = attention or self.attention
        time += attention.added_tokens
        layers = by_layer(attention, depth)
        of_attention = sum(kind.flops(self.width, self.heads, batch, time, time) for kind in layers)
        block = position.flops(
            width=self.width, heads=self.heads, head_width=self.head_width, batch=batch, queries=time, keys=time
        )
        if source is not None:
            block += attention.flops(self.width, self.heads, batch, time, source, cross=True)
        block += self.feedforward.flops(self.width, batch * time)
        inputs = position.input_flops(width=self.width, batch=batch, time=time) * (depth if position.every_layer else 1)
        return of_attention + depth * block + inputs


def by_layer(attention: AttentionConfig, depth: int) -> list[AttentionConfig]:
    """The kind of attention of each layer."""
    return list(islice(cycle(attention.layer_kinds), depth))


class TextStackConfig(StackConfig):
    """Settings of models whose inputs are tokens."""

    embedding: EmbeddingConfig = EmbeddingConfig()
    """Embeddings, and which matrices source, target and output share."""


class Stack(nn.Module):
    """Positions and dropout on the inputs, then the blocks, then the final norm."""

    def __init__(
        self,
        config: StackConfig,
        depth: int,
        position: PositionConfig,
        causal: bool = False,
        cross: bool = False,
        input_norm: bool = False,
        attention: AttentionConfig | None = None,
    ) -> None:
        super().__init__()
        self.config, self.causal, self.position_config = config, causal, position
        self.attention = attention or config.attention
        self.layer_kinds = self.attention.layer_kinds
        shape: dict[str, Any] = {"width": config.width, "heads": config.heads, "head_width": config.head_width}
        count, in_first = depth if position.per_layer else 1, position.in_heads and not position.every_layer
        self.positions = Layers[Position](position.build(**shape, causal=causal) for _ in range(count))
        self.input_norm = config.norm.build(config.width) if input_norm else nn.Identity()
        self.dropout = nn.Sequential(DropWords(config.dropout.word), Dropout(config.dropout.embedding))
        self.shared = self.attention.build_shared(config.heads)
        added = self.attention.added_tokens
        self.added = nn.Parameter(torch.randn(added, config.width) * config.width**-0.5) if added else None
        self.blocks = Layers[Block](
            self._block(kind, NO_POSITION if layer and in_first else self.positions[layer % count], cross)
            for layer, kind in enumerate(by_layer(self.attention, depth))
        )
        self.final_norm = config.norm.build(config.width) if config.has_final_norm else nn.Identity()
        self.residual_dtype: torch.dtype | None = None
        """Data type of the residual stream in training, if not that of the inputs."""
        self._patterns: dict[tuple[int, str, int], Pattern | None] = {}

    def _block(self, attention: AttentionConfig, position: nn.Module, cross: bool) -> Block:
        config, drop = self.config, self.config.dropout
        feedforward = config.feedforward.build(config.width, drop.feedforward)

        def around() -> Residual:
            norm = config.norm.build(config.width)
            return Residual(norm, config.norm_place, config.residual, drop.residual, drop.layer)

        build = attention.build
        return block_class(config.norm_place, config.residual)(
            build(config.width, config.heads, position, drop.attention, causal=self.causal, shared=self.shared),  # type: ignore[arg-type]
            around(),
            feedforward,
            around() if feedforward is not None else None,
            self.attention.build_cross(config.width, config.heads, drop.attention) if cross else None,
            around() if cross else None,
        )

    def forward(
        self,
        x: Vectors,
        context: AttentionContext,
        valid: Bool[Tensor, "batch time"] | None = None,
        source_kv: list[KVCache] | None = None,
        source_context: AttentionContext | None = None,
        caches: list[KVCache] | None = None,
        cache_lengths: CacheLengths | None = None,
    ) -> Vectors:
        every = self.position_config.every_layer
        if self.added is not None:
            x = torch.cat([self.added.to(x.dtype).expand(len(x), -1, -1), x], dim=1)
            valid = None if valid is None else F.pad(valid, (len(self.added), 0), value=True)
        for layer, block in enumerate(self.blocks):
            if layer == 0 or every:
                x = self.positions[layer % len(self.positions)].embed(x, context)
            if layer == 0:
                x = self.dropout(self.input_norm(x))
                x = x.to(self.residual_dtype) if self.residual_dtype is not None and self.training else x
            layer_kv = source_kv[layer] if source_kv is not None else None
            cache = caches[layer] if caches is not None else None
            x = block(x, context.for_layer(layer), valid, layer_kv, source_context, cache, cache_lengths)
        x = self.final_norm(x)
        return x if self.added is None else x[:, len(self.added) :]

    def context(self, layout: Layout) -> AttentionContext:
        """The attention context of a whole batch."""
        if self.added is not None:
            return self._context_with_added(layout, len(self.added))
        return AttentionContext.alternating(
            [self._context(layout, kind_index) for kind_index in range(len(self.layer_kinds))]
        )

    def _context(self, layout: Layout, kind_index: int) -> AttentionContext:
        inner, outer = self.pattern(layout.longest, layout.segment.device, kind_index), layout.pattern()
        if self.causal and not layout.packed:
            outer = None  # padding stands on the right: a causal mask covers it
        if inner is not None and layout.packed and not inner.by_distance:
            inner = Shifted(inner, layout.index, layout.index)
        pattern = outer if inner is None else inner & outer
        prepare_key_ranges(pattern)
        length = layout.longest if layout.packed else None
        return AttentionContext(pattern, layout.positions, layout.positions, layout.tree, length)

    def _context_with_added(self, layout: Layout, added: int) -> AttentionContext:
        """The same with global tokens in front, at the position of the first token."""
        if layout.packed:
            raise ConfigError("data.batching", "added global tokens need padded batches, got packed ones")
        inner = self.pattern(layout.longest + added, layout.segment.device)
        lengths = layout.lengths + added
        outer = None if layout.whole else Padding(keys=lengths, queries=lengths)
        positions = F.pad(layout.positions, (added, 0))
        return AttentionContext(outer if inner is None else inner & outer, positions, positions)

    def next_context(self, cache_lengths: CacheLengths, time: int) -> AttentionContext:
        """The attention context of the next `time` tokens of each row in decoding."""
        return AttentionContext.alternating(
            [self._next_context(cache_lengths, time, kind_index) for kind_index in range(len(self.layer_kinds))]
        )

    def _next_context(self, cache_lengths: CacheLengths, time: int, kind_index: int) -> AttentionContext:
        queries = cache_lengths.next_positions(time)
        keys = torch.arange(cache_lengths.longest + time, device=queries.device)[None]
        inner = self.pattern(cache_lengths.capacity, queries.device, kind_index)
        needs_no_mask = time == 1 and cache_lengths.uniform and isinstance(inner, Causal) and not inner.strict
        pattern = None if needs_no_mask or inner is None else Shifted(inner, queries, keys)
        if cache_lengths.longest == 0 and cache_lengths.uniform:
            pattern = inner
        return AttentionContext(pattern, queries, keys)

    def pattern(self, length: int, device: torch.device, kind_index: int = 0) -> Pattern | None:
        """The pattern of self-attention for sequences up to a length, cached together with its masks."""
        key = (1 << max(length - 1, 1).bit_length(), str(device), kind_index)
        if key not in self._patterns:
            kind = self.layer_kinds[kind_index]
            self._patterns[key] = kind.pattern(self.config.heads, key[0], self.causal, device)
        return self._patterns[key]

    def project_source(self, source: Vectors) -> list[KVCache]:
        """Keys and values of the encoded source for each block's cross-attention."""
        return [block.cross.project_source(source) for block in self.blocks]  # type: ignore[union-attr, operator]

    def new_caches(self, rows: int, capacity: int, like: Tensor) -> list[KVCache]:
        """Empty caches for all blocks."""
        kv_heads = self.attention.kv_heads or self.config.heads
        value_width = self.attention.width_of_value(self.config.width, self.config.heads)
        return [
            KVCache.allocate(rows, kv_heads, capacity, self.config.head_width, like, value_width) for _ in self.blocks
        ]


def stacks_of(model: nn.Module) -> list[Stack]:
    """The stacks of a model: none in a baseline."""
    return [part for part in model.modules() if isinstance(part, Stack)]
