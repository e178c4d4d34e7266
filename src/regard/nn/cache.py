"""Cached keys and values of the tokens decoded so far, so that each step computes only the new token's."""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.errors import ShapeError

Keys = Float[Tensor, "batch kv_heads time head_width"]
AllKeys = Float[Tensor, "batch kv_heads total head_width"]
Values = Float[Tensor, "batch kv_heads time value_width"]
AllValues = Float[Tensor, "batch kv_heads total value_width"]

INITIAL_CAPACITY = 16
"""Tokens that a cache is allocated for at first; it doubles when full, as touching fresh memory is slow."""


@dataclass(frozen=True, eq=False)
class CacheLengths:
    """How many tokens each row of the cache holds; shared by all layers of a decoder."""

    lengths: Int[Tensor, " batch"]
    longest: int
    uniform: bool
    """Whether all rows have the same length, so that no mask is needed."""
    capacity: int

    @classmethod
    def empty(cls, rows: int, capacity: int, device: torch.device | str) -> "CacheLengths":
        return cls(torch.zeros(rows, dtype=torch.long, device=device), 0, True, capacity)

    def advance(self, time: int, lengths: Int[Tensor, " batch"] | None = None) -> "CacheLengths":
        """After `time` more tokens in each row, or only `lengths[b]` of them in row b."""
        if lengths is None:
            return replace(self, lengths=self.lengths + time, longest=self.longest + time)
        total = self.lengths + lengths
        return replace(self, lengths=total, longest=int(total.max()), uniform=bool((total == total[0]).all()))

    def next_positions(self, time: int) -> Int[Tensor, "#batch time"]:
        """Positions of the next `time` tokens of each row; a single row where all rows agree."""
        new = torch.arange(time, device=self.lengths.device)
        return new[None] + self.longest if self.uniform else new[None] + self.lengths[:, None]

    def reorder(self, rows: Int[Tensor, " rows"]) -> "CacheLengths":
        return replace(self, lengths=self.lengths[rows])


class KVCache:
    """Keys and values of one layer, in buffers that grow."""

    def __init__(self, keys: Keys, values: Values) -> None:
        self.keys, self.values = keys, values

    @classmethod
    def allocate(
        cls, rows: int, kv_heads: int, capacity: int, head_width: int, like: Tensor, value_width: int | None = None
    ) -> "KVCache":
        """Uninitialised buffers for the first tokens of each row."""
        shape = (rows, kv_heads, min(capacity, INITIAL_CAPACITY))
        return cls(like.new_empty(*shape, head_width), like.new_empty(*shape, value_width or head_width))

    def append(self, keys: Keys, values: Values, cache_lengths: CacheLengths) -> tuple[AllKeys, AllValues]:
        """Stores new keys and values at each row's end; returns all of them."""
        time, start = keys.shape[2], cache_lengths.longest
        end = start + time
        if end > cache_lengths.capacity:
            raise ShapeError(
                f"the cache has room for {cache_lengths.capacity} tokens, got {end}; ask for more capacity"
            )
        if end > self.keys.shape[2]:
            self.keys, self.values = (_grown(buffer, end, cache_lengths) for buffer in (self.keys, self.values))
        if cache_lengths.uniform:
            self.keys[:, :, start:end] = keys
            self.values[:, :, start:end] = values
        else:
            positions = cache_lengths.next_positions(time)[:, None, :, None]
            for buffer, new in ((self.keys, keys), (self.values, values)):
                index = positions.expand(-1, new.shape[1], -1, new.shape[3])
                buffer[:, :, start:end] = 0  # masked values are multiplied by 0, and 0·NaN is NaN
                buffer.scatter_(2, index, new.to(buffer.dtype))  # under autocast, new may have fewer bits
        return self.keys[:, :, :end], self.values[:, :, :end]

    def reorder(self, rows: Int[Tensor, " rows"], filled: int | None = None) -> "KVCache":
        """The chosen rows, copied; only the first `filled` tokens of them, if given."""
        if filled is None:
            return KVCache(self.keys[rows], self.values[rows])
        return KVCache(_copied(self.keys, rows, filled), _copied(self.values, rows, filled))


def _copied(buffer: Keys, rows: Int[Tensor, " rows"], filled: int) -> Tensor:
    if filled == buffer.shape[2]:
        return buffer[rows]
    new = buffer.new_empty(len(rows), *buffer.shape[1:])
    torch.index_select(buffer[:, :, :filled], 0, rows, out=new[:, :, :filled])
    return new


def _grown(buffer: Keys, needed: int, cache_lengths: CacheLengths) -> Tensor:
    size = min(cache_lengths.capacity, max(needed, 2 * buffer.shape[2]))
    new = buffer.new_empty(*buffer.shape[:2], size, buffer.shape[3])
    new[:, :, : cache_lengths.longest] = buffer[:, :, : cache_lengths.longest]
    return new
