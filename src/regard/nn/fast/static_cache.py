"""Keys and values in tensors that never move or grow: what a captured decoding step reads and writes."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.nn.cache import KVCache

Layer = Float[Tensor, "rows kv_heads capacity head_width"]


@dataclass(frozen=True)
class RoomShape:
    """How much fits into a room."""

    rows: int
    capacity: int
    """Tokens of a row."""
    sources: int = 0
    """Sentences that rows listen to; none where a decoder stands alone."""
    source_capacity: int = 0


class Room:
    """Keys and values of every layer, and how many tokens each row holds, all of it on the device.

    Lengths are zero in rows that nobody writes: these go along, and nothing hears of them.
    """

    def __init__(self, shape: RoomShape, like: Sequence[KVCache], heard: Sequence[KVCache] = ()) -> None:
        self.shape = shape
        device = like[0].keys.device
        self.tokens = torch.zeros(shape.rows, dtype=torch.long, device=device)
        self.lengths = torch.zeros(shape.rows, dtype=torch.long, device=device)
        self.layers = _layers(like, shape.rows, shape.capacity)
        self.heard = _layers(heard, shape.sources, shape.source_capacity)
        self.heard_lengths = torch.ones(shape.sources, dtype=torch.long, device=device)
        self.listens_to = torch.zeros(shape.rows, dtype=torch.long, device=device)
        """Which sentence of the source each row listens to."""

    def fill(self, caches: Sequence[KVCache], lengths: Int[Tensor, " some"], filled: int) -> None:
        """Takes over what was written so far."""
        rows = len(lengths)
        for layer, cache in zip(self.layers, caches, strict=True):
            layer.keys[:rows, :, :filled] = cache.keys[:, :, :filled]
            layer.values[:rows, :, :filled] = cache.values[:, :, :filled]
        self.lengths.zero_()
        self.lengths[:rows] = lengths

    def hear(self, heard: Sequence[KVCache], lengths: Int[Tensor, " sentences"]) -> None:
        """Takes over what the encoder said."""
        for layer, said in zip(self.heard, heard, strict=True):
            sentences, _, time, _ = said.keys.shape
            layer.keys[:sentences, :, :time] = said.keys
            layer.values[:sentences, :, :time] = said.values
        self.heard_lengths[: len(lengths)] = lengths

    def listen(self, listens_to: Int[Tensor, " some"]) -> None:
        """Says to which sentence each row listens."""
        self.listens_to.zero_()
        self.listens_to[: len(listens_to)] = listens_to

    def take(self, other: "Room", rows: Int[Tensor, " some"], filled: int) -> None:
        """Row i becomes row `rows[i]` of another room, which may be this one; so does what it listens to."""
        lengths, listens_to = other.lengths[rows], other.listens_to[rows]
        self.fill([layer.reorder(rows) for layer in other.part(filled)], lengths, filled)
        if other is not self:
            self.hear(other.heard, other.heard_lengths)
        self.listen(listens_to)

    def part(self, filled: int) -> list[KVCache]:
        """What is filled of every layer."""
        return [KVCache(layer.keys[:, :, :filled], layer.values[:, :, :filled]) for layer in self.layers]


def _layers(like: Sequence[KVCache], rows: int, capacity: int) -> list[KVCache]:
    """Zeros, since what is not seen is multiplied by zero and must be a number."""
    shapes = [(rows, layer.keys.shape[1], capacity, layer.keys.shape[3]) for layer in like]
    made = [[layer.keys.new_zeros(shape) for _ in range(2)] for layer, shape in zip(like, shapes, strict=True)]
    return [KVCache(keys, values) for keys, values in made]
