"""Attention: each query asks all keys, and receives their values weighed by how well they answer.

The lectures' recipe, the 'fuzzy hash table', in four steps:

    1. project   q = W_q x,  k = W_k x,  v = W_v x
    2. score     e_ij = q_i·k_j / √d_k
    3. softmax   α_ij = exp(e_ij) / Σ_j exp(e_ij)      over the keys j that i may see
    4. weigh     y_i = Σ_j α_ij v_j

`attend_step_by_step` is steps 2 to 4 as written: slow, obvious, every intermediate result kept. `attend` computes the
same by the fastest way that fits (`plan.py` chooses, `kernels.py` computes). `Attention` adds projections and heads.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from pydantic import PositiveInt, model_validator
from torch import Tensor, nn

from regard.config import Config, refuse
from regard.errors import ConfigError
from regard.nn.attention.heads import HeadMap, HeadShape, NarrowHeadMap, NoHeadMap, join_heads
from regard.nn.cache import CacheLengths, KVCache
from regard.nn.context import AttentionContext
from regard.nn.fast import attention as kernels
from regard.nn.fast.block_sparse import blocked
from regard.nn.fast.plan import Plan, plan
from regard.nn.pattern import Causal, Pattern
from regard.nn.position import Bias, Position

Query = Float[Tensor, "batch heads query head_width"]
Key = Float[Tensor, "batch kv_heads key head_width"]
Pairs = Float[Tensor, "batch heads query key"]


@dataclass(frozen=True, eq=False)
class Steps:
    """Everything between the projections and the output, one field a step."""

    scores: Pairs
    """q_i·k_j"""
    scaled: Pairs
    """divided by √d_k, with the bias of the positions if there is one"""
    masked: Pairs
    """−∞ where the query may not look"""
    weights: Pairs
    """after the softmax: rows sum to one, or are zero where nothing may be seen"""
    output: Query
    """values weighed by the weights"""


def attend_step_by_step(
    query: Query,
    key: Key,
    value: Key,
    pattern: Pattern | None = None,
    bias: Bias | None = None,
    scale: float | None = None,
    dropout: float = 0.0,
    values_by_distance: Callable[[Pairs], Query | None] | None = None,
) -> Steps:
    """The reference: softmax(QKᵀ/√d_k + bias) V, restricted to the pairs that the pattern allows."""
    batch, heads, queries, head_width = query.shape
    key, value = _for_each_query_head(key, heads), _for_each_query_head(value, heads)
    scores = query @ key.transpose(-2, -1)
    scaled = scores * (1 / math.sqrt(head_width) if scale is None else scale)
    masked = scaled
    if bias is not None:
        masked = scaled = scaled + bias.dense(batch, queries, key.shape[2])
    if pattern is not None:
        masked = scaled.masked_fill(~pattern.dense(batch, heads, queries, key.shape[2], query.device), -torch.inf)
    weights = _softmax(masked, may_mask_all_keys=pattern is not None and pattern.may_mask_all_keys)
    dropped = F.dropout(weights, dropout)
    output = dropped @ value
    extra = values_by_distance(dropped) if values_by_distance else None
    return Steps(scores, scaled, masked, weights, output if extra is None else output + extra)


def _softmax(scores: Pairs, may_mask_all_keys: bool) -> Pairs:
    """Softmax over the keys; a query that may see none gets zero weights instead of 0/0."""
    if not may_mask_all_keys:
        return scores.softmax(-1)
    blind = (scores == -torch.inf).all(-1, keepdim=True)
    return scores.masked_fill(blind, 0.0).softmax(-1).masked_fill(blind, 0.0)


def _for_each_query_head(x: Key, heads: int) -> Query:
    """Keys or values of grouped heads, repeated for each query head that shares them."""
    return x if x.shape[1] == heads else x.repeat_interleave(heads // x.shape[1], dim=1)


def self_attention(x: Float[Tensor, "batch time width"]) -> Float[Tensor, "batch time width"]:
    """y_i = Σ_j softmax_j(x_i·x_j) x_j: attention in its plainest form, without any parameter."""
    return attend_step_by_step(x[:, None], x[:, None], x[:, None], scale=1.0).output[:, 0]


def attend(
    query: Query,
    key: Key,
    value: Key,
    pattern: Pattern | None = None,
    bias: Bias | None = None,
    scale: float | None = None,
    dropout: float = 0.0,
    values_by_distance: Callable[[Pairs], Query | None] | None = None,
) -> Query:
    """The same as the reference's output, by the fastest way that fits."""
    chosen = plan(query, key, pattern, bias, values_by_distance is not None, dropout)
    if chosen.path == "reference":
        return attend_step_by_step(query, key, value, pattern, bias, scale, dropout, values_by_distance).output
    scale = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    return KERNELS[chosen.path](query, key, value, pattern, bias, scale, dropout)


KERNELS = {
    "sdpa": kernels.sdpa,
    "spans": kernels.spans,
    "variable-length": kernels.variable_length,
    "flex": kernels.flex,
    "blocked": blocked,
}


class AttentionBase(Config):
    """What all kinds of attention have in common."""

    shape: HeadShape = "standard"
    """How heads share the width: `standard` d × d/h each, `narrow` d/h × d/h on a chunk each, `wide` d × d each."""
    kv_heads: PositiveInt | None = None
    """Key/value heads, each shared by several query heads (1: multi-query); as many as heads when left out."""
    head_width: PositiveInt | None = None
    """Numbers per head; width / heads when left out."""
    maps: bool = True
    """Query, key, value and output maps; off: plain attention of the inputs to themselves, without parameters."""
    bias: bool = True
    """Learn biases in the maps."""
    scaled: bool = True
    """Divide scores by √(head width); off, to show how the softmax then saturates."""
    strict: bool = False
    """In decoders, hide the token itself too (key < query), as one lecture writes the mask."""

    @model_validator(mode="after")
    def _goes_together(self) -> "AttentionBase":
        if self.shape != "standard" and self.head_width:
            raise refuse("head_width", f"{self.shape} heads have a width of their own; leave head_width out")
        if self.shape == "narrow" and self.kv_heads:
            raise refuse(
                "kv_heads", "narrow heads map a chunk of the input each, so keys cannot be shared; leave it out"
            )
        if not self.maps and (self.shape != "standard" or self.kv_heads or self.head_width):
            raise refuse(
                "maps", "without maps the input itself is cut into heads: leave shape, kv_heads, head_width out"
            )
        return self

    def width_of_head(self, width: int, heads: int) -> int:
        """Numbers per head in a model of this width."""
        return self.head_width or head_width_of(width, heads, self.shape)

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
        """Self-attention for a model of this width; `shared` is what `build_shared` gave."""
        return Attention(width, heads, **self.settings(), dropout=dropout, position=position)

    def build_cross(self, width: int, heads: int, dropout: float = 0.0) -> "Attention":
        """Attention to another sequence, which is full whatever the kind."""
        return Attention(width, heads, **self.settings(), dropout=dropout)

    def build_shared(self, heads: int) -> nn.Module | None:
        """What all layers of a stack use together, made once; None for most kinds."""
        return None

    def settings(self) -> dict[str, Any]:
        """What all kinds of attention are told when they are built."""
        names = ("kv_heads", "head_width", "shape", "maps", "bias", "scaled")
        return {name: getattr(self, name) for name in names}

    def refuse_causal(self, setting: str) -> None:
        """Refuses to be the attention of a decoder, where a kind cannot hide the future."""

    def refuse_position(self, kind: str) -> None:
        """Refuses position kinds that a kind of attention cannot work with."""

    @property
    def longest(self) -> int | None:
        """Most tokens of a sequence, where a kind has such a limit."""
        return None

    @property
    def added_tokens(self) -> int:
        """Learned tokens that it wants in front of every sequence."""
        return 0

    @property
    def turns(self) -> "tuple[AttentionBase, ...]":
        """The kinds that the layers of a stack take in turn: itself alone, for most kinds."""
        return (self,)

    def pattern(self, heads: int, length: int, causal: bool, device: torch.device | str) -> Pattern | None:
        """Which pairs a sequence of at most this length may attend; None for all."""
        return Causal(self.strict) if causal else None

    def map_sizes(self, width: int, heads: int) -> tuple[int, int, int]:
        """Numbers in the matrices of queries, of keys and values together, and of the output."""
        if not self.maps:
            return 0, 0, 0
        head_width = self.width_of_head(width, heads)
        into = head_width if self.shape == "narrow" else width
        kv_heads = self.kv_heads or heads
        return into * heads * head_width, 2 * into * kv_heads * head_width, heads * head_width * width

    def num_params(self, width: int, heads: int, cross: bool = False) -> int:
        """Learned numbers of self-attention, or of cross-attention, which is full whatever the kind."""
        head_width = self.width_of_head(width, heads)
        biases = (heads + 2 * (self.kv_heads or heads)) * head_width + width
        maps = sum(self.map_sizes(width, heads)) + (biases if self.bias and self.maps else 0)
        return maps if cross else maps + self.own_params(heads, head_width)

    def own_params(self, heads: int, head_width: int) -> int:
        """Learned numbers of one layer beside the maps."""
        return 0

    def shared_params(self, heads: int) -> int:
        """Learned numbers that all layers of a stack share."""
        return 0

    def flops(self, width: int, heads: int, batch: int, queries: int, keys: int, cross: bool = False) -> int:
        """Matrix-product FLOPs of one pass: the maps, and the scores and sums over pairs of queries and keys.

        A sparse kind counts the pairs that it lets be seen. Pairs that only the future hides count for every kind.
        """
        of_query, of_source, of_output = self.map_sizes(width, heads)
        head_width = self.width_of_head(width, heads)
        cross = cross or queries != keys
        own = 0 if cross else batch * self.own_flops(heads, head_width, keys)
        pairs = heads * queries * keys if cross else self.pairs(heads, keys)
        return own + 4 * batch * pairs * head_width + 2 * batch * (queries * (of_query + of_output) + keys * of_source)

    def pairs(self, heads: int, length: int) -> int:
        """Pairs of queries and keys in all heads that a sequence computes with itself."""
        return heads * length * length

    def own_flops(self, heads: int, head_width: int, length: int) -> int:
        """Matrix-product FLOPs for one sequence beside the maps and the pairs."""
        return 0


class Attention(nn.Module):
    """Several heads of attention: from a sequence to itself, or (given a source) from one sequence to another."""

    def __init__(
        self,
        width: int,
        heads: int,
        *,
        kv_heads: int | None = None,
        head_width: int | None = None,
        shape: HeadShape = "standard",
        maps: bool = True,
        bias: bool = True,
        scaled: bool = True,
        dropout: float = 0.0,
        position: Position | None = None,
    ) -> None:
        super().__init__()
        self.heads, self.kv_heads = heads, kv_heads or heads
        self.head_width = head_width or head_width_of(width, heads, shape)
        if heads % self.kv_heads:
            raise ConfigError("model.attention.kv_heads", f"expected a divisor of heads = {heads}, got {kv_heads}")
        self.query = self._map(width, heads, shape, maps, bias)
        self.key = self._map(width, self.kv_heads, shape, maps, bias)
        self.value = self._map(width, self.kv_heads, shape, maps, bias)
        self.output = nn.Linear(heads * self.head_width, width, bias=bias) if maps else nn.Identity()
        self.scale = 1 / math.sqrt(self.head_width) if scaled else 1.0
        self.dropout = dropout
        # A position shared by all layers belongs to the stack: it is used here, not owned.
        self._position = [position or Position()]
        self.recorder: Callable[[Steps], None] | None = None

    def _map(self, width: int, heads: int, shape: HeadShape, maps: bool, bias: bool) -> nn.Module:
        if not maps:
            return NoHeadMap(heads)
        return NarrowHeadMap(width, heads, bias) if shape == "narrow" else HeadMap(width, heads, self.head_width, bias)

    @property
    def position(self) -> Position:
        """The position kind that acts inside this attention."""
        return self._position[0]

    def forward(
        self,
        x: Float[Tensor, "batch query width"],
        context: AttentionContext,
        cache: KVCache | None = None,
        cache_lengths: CacheLengths | None = None,
    ) -> Float[Tensor, "batch query width"]:
        """Self-attention; with a cache, `x` holds the newest tokens only."""
        query, key, value = self.query(x), self.key(x), self.value(x)
        query, key = (
            self.position.rotate(query, context.query_positions),
            self.position.rotate(key, context.query_positions),
        )
        if cache is not None and cache_lengths is not None:
            key, value = cache.append(key, value, cache_lengths)
        return self.output(join_heads(self._attend(query, key, value, context, self.position)))

    def across(
        self, x: Float[Tensor, "batch query width"], source: KVCache, context: AttentionContext
    ) -> Float[Tensor, "batch query width"]:
        """Cross-attention: queries from `x`, keys and values from a source, softmax(ZQ(HK)ᵀ)HV.

        Where the source has fewer rows, each of them serves as many neighbouring rows of `x`: those of a beam.
        """
        rows = 1 if x.shape[0] == source.keys.shape[0] else x.shape[0] // source.keys.shape[0]
        source_kv = self._attend(gathered(self.query(x), rows), source.keys, source.values, context, NOWHERE)
        return self.output(join_heads(scattered(source_kv, rows)))

    def project_source(self, source: Float[Tensor, "batch key width"]) -> KVCache:
        """Keys and values of a source, computed once however many tokens are then written."""
        return KVCache(self.key(source), self.value(source))

    def explain(self, query: Query, key: Key, context: AttentionContext) -> Plan:
        """Which path these tensors take, and why."""
        bias = self.position.on_scores(query, self.scale, context)
        return plan(query, key, context.pattern, bias, self.position.needs_weights, self._dropout)

    @property
    def _dropout(self) -> float:
        return self.dropout if self.training else 0.0

    def _attend(self, query: Query, key: Key, value: Key, context: AttentionContext, position: Position) -> Query:
        bias = position.on_scores(query, self.scale, context)
        by_distance = (lambda weights: position.values(weights, context)) if position.needs_weights else None
        arguments = (query, key, value, context.pattern, bias, self.scale, self._dropout, by_distance)
        if self.recorder is None:
            return attend(*arguments)
        steps = attend_step_by_step(*arguments)
        self.recorder(steps)
        return steps.output


def gathered(query: Query, rows: int) -> Float[Tensor, "sources heads queries head_width"]:
    """The queries of so many neighbouring rows in one row, behind one another."""
    return query if rows == 1 else query.unflatten(0, (-1, rows)).transpose(1, 2).flatten(2, 3)


def scattered(answer: Query, rows: int) -> Float[Tensor, "targets heads time head_width"]:
    """The reverse: each row's answers in a row of its own again."""
    return answer if rows == 1 else answer.unflatten(2, (rows, -1)).transpose(1, 2).flatten(0, 1)


NOWHERE = Position()  # source and target have no common order, so cross-attention knows no positions


def head_width_of(width: int, heads: int, shape: HeadShape) -> int:
    """Numbers per head where nothing else is said: the whole width for wide heads, an even share otherwise."""
    if shape == "wide":
        return width
    if width % heads:
        raise ConfigError("model.heads", f"expected a divisor of width = {width}, got {heads}")
    return width // heads


@contextmanager
def record_attention(model: nn.Module) -> Iterator[dict[str, list[Steps]]]:
    """Lays open what every attention of a model does while the context lasts, by the module's name.

    Works on any model, however it was trained: the recorded passes are computed by the reference.
    """
    seen: dict[str, list[Steps]] = {}
    parts = {name: part for name, part in model.named_modules() if hasattr(part, "recorder")}
    for name, part in parts.items():
        vars(part)["recorder"] = seen.setdefault(name, []).append
    try:
        yield seen
    finally:
        for part in parts.values():
            vars(part)["recorder"] = None
