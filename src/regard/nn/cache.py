"""Room for the keys and values of tokens already written, so that each step computes only what is new."""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.errors import ShapeError

Keys = Float[Tensor, "batch kv_heads time head_width"]
AllKeys = Float[Tensor, "batch kv_heads filled head_width"]


@dataclass(frozen=True, eq=False)
class Clock:
    """How many tokens each row holds; shared by all layers of a decoder."""

    lengths: Int[Tensor, " batch"]
    filled: int
    """The longest row's length."""
    even: bool
    """Whether all rows have that length, which spares a mask."""
    capacity: int

    @classmethod
    def start(cls, rows: int, capacity: int, device: torch.device | str) -> "Clock":
        """Nothing written yet."""
        return cls(torch.zeros(rows, dtype=torch.long, device=device), 0, True, capacity)

    def advance(self, time: int, lengths: Int[Tensor, " batch"] | None = None) -> "Clock":
        """After `time` more tokens in each row, or only `lengths[b]` of them in row b."""
        if lengths is None:
            return replace(self, lengths=self.lengths + time, filled=self.filled + time)
        total = self.lengths + lengths
        return replace(self, lengths=total, filled=int(total.max()), even=bool((total == total[0]).all()))

    def places(self, time: int) -> Int[Tensor, "#batch time"]:
        """Where the next `time` tokens of each row stand; one row for all where they agree."""
        new = torch.arange(time, device=self.lengths.device)
        return new[None] + self.filled if self.even else new[None] + self.lengths[:, None]

    def reorder(self, rows: Int[Tensor, " rows"]) -> "Clock":
        """The clock of the chosen rows."""
        return replace(self, lengths=self.lengths[rows])


SMALLEST = 16
"""Tokens that a cache has room for at first; it doubles when that is full, as untouched memory is slow to take."""


class KeyValues:
    """Keys and values of one layer, with room for more."""

    def __init__(self, keys: Keys, values: Keys) -> None:
        self.keys, self.values = keys, values

    @classmethod
    def room(cls, rows: int, kv_heads: int, capacity: int, head_width: int, like: Tensor) -> "KeyValues":
        """Room for the first tokens of each row; what lies in it means nothing until it is written."""
        shape = (rows, kv_heads, min(capacity, SMALLEST), head_width)
        return cls(like.new_empty(shape), like.new_empty(shape))

    def append(self, keys: Keys, values: Keys, clock: Clock) -> tuple[AllKeys, AllKeys]:
        """Writes new keys and values at each row's end; gives all there are so far."""
        time, end = keys.shape[2], clock.filled + keys.shape[2]
        if end > clock.capacity:
            raise ShapeError(f"the cache has room for {clock.capacity} tokens, got {end}; ask for more capacity")
        if end > self.keys.shape[2]:
            self.keys, self.values = (_widened(room, end, clock) for room in (self.keys, self.values))
        if clock.even:
            self.keys[:, :, clock.filled : end] = keys
            self.values[:, :, clock.filled : end] = values
        else:
            at = clock.places(time)[:, None, :, None].expand(-1, keys.shape[1], -1, keys.shape[3])
            for room, new in ((self.keys, keys), (self.values, values)):
                room[:, :, clock.filled : end] = 0  # a weight of zero times whatever lies there must be zero
                room.scatter_(2, at, new.to(room.dtype))  # autocast may have made it less exact than the room is
        return self.keys[:, :, :end], self.values[:, :, :end]

    def reorder(self, rows: Int[Tensor, " rows"], filled: int | None = None) -> "KeyValues":
        """The chosen rows, copied; of a cache only what is filled, and no more room than it has."""
        if filled is None:
            return KeyValues(self.keys[rows], self.values[rows])
        return KeyValues(_copied(self.keys, rows, filled), _copied(self.values, rows, filled))


def _copied(room: Keys, rows: Int[Tensor, " rows"], filled: int) -> Tensor:
    if filled == room.shape[2]:
        return room[rows]
    new = room.new_empty(len(rows), *room.shape[1:])
    torch.index_select(room[:, :, :filled], 0, rows, out=new[:, :, :filled])
    return new


def _widened(room: Keys, needed: int, clock: Clock) -> Tensor:
    """At least twice the room, with what is filled copied into it."""
    size = min(clock.capacity, max(needed, 2 * room.shape[2]))
    new = room.new_empty(*room.shape[:2], size, room.shape[3])
    new[:, :, : clock.filled] = room[:, :, : clock.filled]
    return new
