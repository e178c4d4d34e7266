"""Multi-head attention: projections and heads around scaled dot-product attention, as self- and as cross-attention."""

import math
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import torch
from jaxtyping import Float
from pydantic import PositiveInt, model_validator
from torch import Tensor, nn

from regard.config import Family, refuse
from regard.errors import ConfigError
from regard.nn.attention.heads import HeadProjection, HeadShape, NarrowHeadProjection, NoHeadProjection, join_heads
from regard.nn.attention.reference import AttentionSteps, Key, Output, Query, Scores, Value, reference_attention
from regard.nn.cache import CacheLengths, KVCache
from regard.nn.context import AttentionContext
from regard.nn.fast.plan import FAST_PATHS, Plan, plan
from regard.nn.pattern import Causal, Pattern
from regard.nn.position import Bias, Position, PositionConfig


def attend(
    q: Query,
    k: Key,
    v: Value,
    pattern: Pattern | None = None,
    bias: Bias | None = None,
    scale: float | None = None,
    dropout: float = 0.0,
    values_by_distance: Callable[[Scores], Output | None] | None = None,
) -> Output:
    """`reference_attention(…).output` by the fastest path that fits."""
    chosen = plan(q, k, pattern, bias, values_by_distance is not None, dropout, v.shape[-1])
    if chosen.path == "reference":
        return reference_attention(q, k, v, pattern, bias, scale, dropout, values_by_distance).output
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    return FAST_PATHS[chosen.path](q, k, v, pattern, bias, scale, dropout)


class AttentionConfig(Family):
    """Settings that all kinds of attention share."""

    renamed: ClassVar[Mapping[str, str]] = {"maps": "projections"}

    shape: HeadShape = "standard"
    """How heads share the width: `standard` d × d/h each, `narrow` d/h × d/h on a chunk each, `wide` d × d each."""
    kv_heads: PositiveInt | None = None
    """Key/value heads, each shared by several query heads (1: multi-query); as many as heads when left out."""
    head_width: PositiveInt | None = None
    """Width of each head; width / heads when left out."""
    value_width: PositiveInt | None = None
    """Width of each head's values (d_v); that of its queries and keys when left out."""
    output_projection: bool = True
    """Project the concatenated heads; off: they are the output, H = [H¹, …, Hʰ], so heads · d_v must be the width."""
    projections: bool = True
    """Query, key, value and output projections; off: plain self-attention of the inputs, without parameters."""
    bias: bool = True
    """Learn biases in the projections."""
    scaled: bool = True
    """Divide scores by √(head width); off, to show how the softmax then saturates."""
    strict: bool = False
    """In decoders, mask the token itself too (key < query), as one lecture writes the mask."""

    @model_validator(mode="after")
    def _fits_together(self) -> "AttentionConfig":
        if self.shape != "standard" and self.head_width:
            raise refuse("head_width", f"{self.shape} heads have a width of their own; leave head_width out")
        if self.shape == "narrow" and self.value_width:
            raise refuse("value_width", "narrow heads project a chunk of the input each; leave value_width out")
        if self.shape == "narrow" and self.kv_heads:
            raise refuse(
                "kv_heads", "narrow heads project a chunk of the input each, so keys cannot be shared; leave it out"
            )
        if not self.projections and (self.shape != "standard" or self.kv_heads or self.head_width):
            raise refuse(
                "projections",
                "without projections the input itself is split into heads: leave shape, kv_heads, head_width out",
            )
        if not self.projections and (self.value_width or not self.output_projection):
            setting = "value_width" if self.value_width else "output_projection"
            raise refuse(setting, f"without projections there is none of the values or the output; leave {setting} out")
        return self

    def width_of_head(self, width: int, heads: int) -> int:
        return self.head_width or head_width_of(width, heads, self.shape)

    def width_of_value(self, width: int, heads: int) -> int:
        return self.value_width or self.width_of_head(width, heads)

    def refuse_widths(self, width: int, heads: int, position: PositionConfig, setting: str = "attention") -> None:
        """Raises where heads do not fit the model's width, or the position encoding the heads."""
        head_width, value_width = self.width_of_head(width, heads), self.width_of_value(width, heads)
        if not self.output_projection and heads * value_width != width:
            raise refuse(
                f"{setting}.output_projection",
                f"without an output projection heads · value width must be the model's width {width}, "
                f"got {heads} · {value_width}",
            )
        if position.values_by_distance and value_width != head_width:
            raise refuse(
                f"{setting}.value_width",
                f"{position.kind} positions add vectors of the head's width {head_width} to the values, which have "
                f"{value_width}; leave value_width out",
            )
        widths = {heads * head_width, (self.kv_heads or heads) * head_width, (self.kv_heads or heads) * value_width}
        if position.in_heads and widths != {width}:
            raise refuse(
                "position.combine",
                f"qkv adds a vector of the model's width {width} to queries, keys and values, so each of them must "
                f"have that width; got {' or '.join(map(str, sorted(widths - {width})))}",
            )

    def build(
        self,
        width: int,
        heads: int,
        position: Position | None = None,
        dropout: float = 0.0,
        *,
        causal: bool = False,
        shared: nn.Module | None = None,
    ) -> "Attention":
        """Self-attention of one layer; `shared` is the result of `build_shared`."""
        return Attention(width, heads, **self.settings(), dropout=dropout, position=position)

    def build_cross(self, width: int, heads: int, dropout: float = 0.0) -> "CrossAttention":
        """Cross-attention, which is full whatever the kind."""
        return CrossAttention(width, heads, **self.settings(), dropout=dropout)

    def build_shared(self, heads: int) -> nn.Module | None:
        """A module that all layers of a stack share, if the kind has one."""
        return None

    def settings(self) -> dict[str, Any]:
        """The keyword arguments of `Attention`."""
        names = ("kv_heads", "head_width", "value_width", "output_projection", "shape", "projections", "bias", "scaled")
        return {name: getattr(self, name) for name in names}

    def refuse_causal(self, setting: str) -> None:
        """Raises where a kind cannot mask the future."""

    def refuse_position(self, kind: str) -> None:
        """Raises where a kind cannot work with a position encoding."""

    @property
    def longest(self) -> int | None:
        """The longest sequence in tokens, where a kind has such a limit."""
        return None

    @property
    def added_tokens(self) -> int:
        """Learned global tokens in front of every sequence."""
        return 0

    @property
    def layer_kinds(self) -> "tuple[AttentionConfig, ...]":
        """The kinds that alternate from layer to layer."""
        return (self,)

    def pattern(self, heads: int, length: int, causal: bool, device: torch.device | str) -> Pattern | None:
        """The mask of sequences of at most this length; None: no mask."""
        return Causal(self.strict) if causal else None

    def projection_sizes(self, width: int, heads: int) -> tuple[int, int, int]:
        """Elements of W_q, of W_k and W_v together, and of W_o."""
        if not self.projections:
            return 0, 0, 0
        head_width, value_width = self.width_of_head(width, heads), self.width_of_value(width, heads)
        into = head_width if self.shape == "narrow" else width
        of_source = into * (self.kv_heads or heads) * (head_width + value_width)
        return into * heads * head_width, of_source, heads * value_width * width if self.output_projection else 0

    def num_params(self, width: int, heads: int, cross: bool = False) -> int:
        head_width, value_width = self.width_of_head(width, heads), self.width_of_value(width, heads)
        biases = heads * head_width + (self.kv_heads or heads) * (head_width + value_width)
        biases += width if self.output_projection else 0
        projections = sum(self.projection_sizes(width, heads)) + (biases if self.bias and self.projections else 0)
        return projections if cross else projections + self.extra_params(heads, head_width)

    def extra_params(self, heads: int, head_width: int) -> int:
        """Parameters of one layer beside the projections."""
        return 0

    def shared_params(self, heads: int) -> int:
        """Parameters that all layers of a stack share."""
        return 0

    def flops(self, width: int, heads: int, batch: int, queries: int, keys: int, cross: bool = False) -> int:
        """Matmul FLOPs of one pass: projections, scores and weighted sums.

        A sparse kind counts the pairs it allows; a causal mask reduces nothing, as for every kind.
        """
        of_query, of_source, of_output = self.projection_sizes(width, heads)
        head_width, value_width = self.width_of_head(width, heads), self.width_of_value(width, heads)
        cross = cross or queries != keys
        extra = 0 if cross else batch * self.extra_flops(heads, head_width, keys)
        pairs = heads * queries * keys if cross else self.pairs(heads, keys)
        projections = queries * (of_query + of_output) + keys * of_source
        return extra + 2 * batch * (pairs * (head_width + value_width) + projections)

    def pairs(self, heads: int, length: int) -> int:
        """Query–key pairs of all heads in self-attention over one sequence."""
        return heads * length * length

    def extra_flops(self, heads: int, head_width: int, length: int) -> int:
        """Matmul FLOPs for one sequence beside projections and pairs."""
        return 0


class Attention(nn.Module):
    """Multi-head self-attention: W_o concat_h softmax(Q_h K_hᵀ/√d_k) V_h, or without W_o."""

    def __init__(
        self,
        width: int,
        heads: int,
        *,
        kv_heads: int | None = None,
        head_width: int | None = None,
        value_width: int | None = None,
        output_projection: bool = True,
        shape: HeadShape = "standard",
        projections: bool = True,
        bias: bool = True,
        scaled: bool = True,
        dropout: float = 0.0,
        position: Position | None = None,
    ) -> None:
        super().__init__()
        self.heads, self.kv_heads = heads, kv_heads or heads
        self.head_width = head_width or head_width_of(width, heads, shape)
        self.value_width = value_width or self.head_width
        if heads % self.kv_heads:
            raise ConfigError("model.attention.kv_heads", f"expected a divisor of heads = {heads}, got {kv_heads}")

        def projection(heads: int, head_width: int) -> nn.Module:
            if not projections:
                return NoHeadProjection(heads)
            if shape == "narrow":
                return NarrowHeadProjection(width, heads, bias)
            return HeadProjection(width, heads, head_width, bias)

        self.query = projection(heads, self.head_width)
        self.key = projection(self.kv_heads, self.head_width)
        self.value = projection(self.kv_heads, self.value_width)
        projected = projections and output_projection
        self.output = nn.Linear(heads * self.value_width, width, bias=bias) if projected else nn.Identity()
        self.scale = 1 / math.sqrt(self.head_width) if scaled else 1.0
        self.dropout = dropout
        # In a list, so that a position encoding shared by all layers is not registered as a sub-module of each.
        self._position = [position or Position()]
        self.recorder: Callable[[AttentionSteps], None] | None = None

    @property
    def position(self) -> Position:
        return self._position[0]

    def forward(
        self,
        x: Float[Tensor, "batch query width"],
        context: AttentionContext,
        cache: KVCache | None = None,
        cache_lengths: CacheLengths | None = None,
    ) -> Float[Tensor, "batch query width"]:
        """With a cache, `x` holds only the tokens that are not in it yet."""
        q, k, v = self.query(x), self.key(x), self.value(x)
        q = self.position.rotate(q, context.query_positions)
        k = self.position.rotate(k, context.query_positions)
        v = self.position.on_values(v, context.query_positions)
        if cache is not None and cache_lengths is not None:
            k, v = cache.append(k, v, cache_lengths)
        return self.output(join_heads(self._attend(q, k, v, context, self.position)))

    def _attend(self, q: Query, k: Key, v: Value, context: AttentionContext, position: Position) -> Output:
        bias = position.on_scores(q, self.scale, context)
        by_distance = (lambda weights: position.values(weights, context)) if position.needs_weights else None
        arguments = (q, k, v, context.pattern, bias, self.scale, self._dropout_rate, by_distance)
        if self.recorder is None:
            return attend(*arguments)
        steps = reference_attention(*arguments)
        self.recorder(steps)
        return steps.output

    @property
    def _dropout_rate(self) -> float:
        return self.dropout if self.training else 0.0

    def explain(self, q: Query, k: Key, context: AttentionContext) -> Plan:
        """Which path these tensors take, and why."""
        bias = self.position.on_scores(q, self.scale, context)
        return plan(q, k, context.pattern, bias, self.position.needs_weights, self._dropout_rate, self.value_width)


class CrossAttention(Attention):
    """softmax(Z W_q (H W_k)ᵀ/√d_k) H W_v: queries from the target Z, keys and values from the source H."""

    def project_source(self, source: Float[Tensor, "batch key width"]) -> KVCache:
        """Keys and values of the source, computed once per source."""
        return KVCache(self.key(source), self.value(source))

    def forward(  # type: ignore[override]
        self, x: Float[Tensor, "batch query width"], context: AttentionContext, source_kv: KVCache
    ) -> Float[Tensor, "batch query width"]:
        """A source row may serve several consecutive rows of `x`: the hypotheses of a beam."""
        beam = 1 if x.shape[0] == source_kv.keys.shape[0] else x.shape[0] // source_kv.keys.shape[0]
        q = beams_to_queries(self.query(x), beam)
        y = self._attend(q, source_kv.keys, source_kv.values, context, NO_POSITION)
        return self.output(join_heads(queries_to_beams(y, beam)))


def beams_to_queries(q: Query, beam: int) -> Float[Tensor, "sources heads queries head_width"]:
    """The queries of a source's hypotheses as more queries of one row."""
    return q if beam == 1 else q.unflatten(0, (-1, beam)).transpose(1, 2).flatten(2, 3)


def queries_to_beams(y: Output, beam: int) -> Float[Tensor, "targets heads time value_width"]:
    return y if beam == 1 else y.unflatten(2, (beam, -1)).transpose(1, 2).flatten(0, 1)


NO_POSITION = Position()  # positions of source and target are not comparable: cross-attention has no position encoding


def head_width_of(width: int, heads: int, shape: HeadShape) -> int:
    """Default width of a head: the model's for wide heads, else an even share of it."""
    if shape == "wide":
        return width
    if width % heads:
        raise ConfigError("model.heads", f"expected a divisor of width = {width}, got {heads}")
    return width // heads
