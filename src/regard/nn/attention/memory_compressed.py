"""Memory-compressed attention: keys and values shortened by a strided convolution (Liu 2018).

Each span of `stride` tokens becomes one compressed key and value, a slot. An encoder's queries attend to all slots. In
a decoder a query attends to the slots whose whole span lies before it, and to the uncompressed tokens of its own block
up to itself, so that it is causal and every query keeps a key:

    tokens       0 1 2 | 3 4 5 | 6 7 8 …        stride 3, block 6, query 7
    attends to   slot 0, slot 1, tokens 6 and 7
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn
from typing_extensions import override

from regard.errors import ConfigError
from regard.nn.attention.heads import join_heads
from regard.nn.attention.module import Attention
from regard.nn.attention.rows import Rows
from regard.nn.cache import CacheLengths, KVCache
from regard.nn.context import AttentionContext
from regard.nn.pattern import Padding, Pattern

QUERIES_AT_ONCE = 1024
"""Queries of a decoder that share one set of uncompressed keys: few enough that these cost little beside the slots."""

Query = Float[Tensor, "rows heads query head_width"]
Key = Float[Tensor, "rows kv_heads key head_width"]
Value = Float[Tensor, "rows kv_heads key value_width"]
Output = Float[Tensor, "rows heads query value_width"]


class Compression(nn.Module):
    """A convolution over time, one per head, whose kernel is its stride; initialised to the mean."""

    def __init__(self, heads: int, head_width: int, stride: int, bias: bool = True) -> None:
        super().__init__()
        self.stride = stride
        mean = torch.eye(head_width).repeat(stride, 1) / stride
        self.weight = nn.Parameter(mean.expand(heads, -1, -1).clone())
        self.bias = nn.Parameter(torch.zeros(heads, 1, head_width)) if bias else None

    def forward(self, x: Key) -> Float[Tensor, "rows kv_heads slot head_width"]:
        """One vector per span; the last span is padded with zeros."""
        x = F.pad(x, (0, 0, 0, -x.shape[2] % self.stride))
        y = x.unflatten(2, (-1, self.stride)).flatten(3) @ self.weight
        return y if self.bias is None else y + self.bias


@dataclass(frozen=True, eq=False)
class Compressed(Pattern):
    """In a decoder: slots whose span is over, and the tokens of the query's block. Keys are the slots, then tokens."""

    stride: int
    block: int
    slots: int
    queries: Int[Tensor, "#batch query"]
    first: int = 0
    """Position of the first token among the keys."""
    single_use = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "per_batch", len(self.queries) > 1)

    @override
    def allowed(self, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        position = self.queries[batch if self.per_batch else torch.zeros_like(batch), query]
        token = key - self.slots + self.first
        over = (key + 1) * self.stride <= position
        near = (token // self.block == position // self.block) & (token <= position)
        return torch.where(key < self.slots, over, near)


class MemoryCompressed(Attention):
    """Attention to compressed keys and values, and in decoders to the nearest uncompressed ones."""

    def __init__(
        self, width: int, heads: int, *, stride: int = 4, block: int = 64, causal: bool = False, **settings: object
    ) -> None:
        super().__init__(width, heads, **settings)  # type: ignore[arg-type]
        if block % stride:
            raise ConfigError("model.attention.block", f"expected a multiple of stride = {stride}, got {block}")
        self.stride, self.block, self.causal = stride, block, causal
        self.compress_keys = Compression(self.kv_heads, self.head_width, stride)
        self.compress_values = Compression(self.kv_heads, self.value_width, stride)

    @override
    def forward(
        self,
        x: Float[Tensor, "batch query width"],
        context: AttentionContext,
        cache: KVCache | None = None,
        cache_lengths: CacheLengths | None = None,
    ) -> Float[Tensor, "batch query width"]:
        """With a cache, which holds uncompressed keys and values, `x` holds only the tokens that are not in it yet."""
        rows = Rows.of(context.pattern)
        x = rows.unpack(x)
        query, key, value = self.query(x), self.key(x), self.value(x)
        positions = torch.arange(x.shape[1], device=x.device)[None] if cache is None else context.query_positions
        query = self.position.rotate(query, positions)
        if cache is not None and cache_lengths is not None:
            key, value = cache.append(key, value, cache_lengths)
        if cache_lengths is not None and cache_lengths.longest:
            y = self._attend_to_past(query, key, value, self._slots(key, value), positions, 0)
        else:  # a whole prompt, which may be long
            y = (
                self._attend_in_chunks(query, key, value, positions)
                if self.causal
                else self._attend_to_all(query, key, value, rows)
            )
        return rows.pack(self.output(join_heads(y)))

    def _attend_to_all(self, query: Query, key: Key, value: Value, rows: Rows) -> Output:
        """An encoder: all queries attend to all slots."""
        valid = rows.valid(key.shape[2])
        if valid is not None:
            key, value = (part.masked_fill(~valid[:, None, :, None], 0.0) for part in (key, value))
        slots = self._slots(key, value)
        # a row without tokens keeps one slot of zeros, so that every query has a key
        filled = None if rows.lengths is None else (-(-rows.lengths // self.stride)).clamp(min=1)
        pattern = None if filled is None else Padding(keys=filled)
        positions = torch.arange(query.shape[2], device=query.device)[None]
        context = AttentionContext(pattern, positions, slots.positions, length=query.shape[2])
        return self._attend(query, slots.keys, slots.values, context, self.position)

    def _attend_in_chunks(self, query: Query, key: Key, value: Value, positions: Int[Tensor, "1 query"]) -> Output:
        """A decoder, a chunk of queries at a time, which shares its uncompressed keys."""
        slots, time = self._slots(key, value), query.shape[2]
        at_once = max(1, QUERIES_AT_ONCE // self.block) * self.block
        outputs = []
        for first in range(0, time, at_once):
            end = min(first + at_once, time)
            tokens = key[:, :, :end], value[:, :, :end]
            past = slots.until(end // self.stride)
            outputs.append(self._attend_to_past(query[:, :, first:end], *tokens, past, positions[:, first:end], first))
        return torch.cat(outputs, dim=2)

    def _attend_to_past(
        self, query: Query, key: Key, value: Value, slots: "Slots", positions: Int[Tensor, "#batch query"], first: int
    ) -> Output:
        """Queries attend to the slots before them, and to tokens from `first` on."""
        tokens = torch.arange(first, key.shape[2], device=key.device)[None]
        keys = torch.cat([slots.keys, self.position.rotate(key[:, :, first:], tokens)], dim=2)
        values = torch.cat([slots.values, value[:, :, first:]], dim=2)
        pattern = Compressed(self.stride, self.block, slots.keys.shape[2], positions, first)
        context = AttentionContext(pattern, positions, torch.cat([slots.positions, tokens], dim=1), length=key.shape[2])
        return self._attend(query, keys, values, context, self.position)

    def _slots(self, key: Key, value: Value) -> "Slots":
        key, value = self.compress_keys(key), self.compress_values(value)
        positions = torch.arange(key.shape[2], device=key.device)[None] * self.stride
        return Slots(self.position.rotate(key, positions), value, positions)


@dataclass(frozen=True, eq=False)
class Slots:
    """Compressed keys and values; a slot's position is that of its span's first token."""

    keys: Key
    values: Value
    positions: Int[Tensor, "1 slot"]

    def until(self, slot: int) -> "Slots":
        return Slots(self.keys[:, :, :slot], self.values[:, :, :slot], self.positions[:, :slot])
