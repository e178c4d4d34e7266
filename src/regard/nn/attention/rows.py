"""Packed batches unpacked to one sequence per row, for kinds of attention that change the number of keys."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.nn.fast.varlen import unpacking
from regard.nn.pattern import And, Padding, Pattern, Segments

Grid = Float[Tensor, "batch time width"]
Unpacked = Float[Tensor, "rows longest width"]


@dataclass(frozen=True, eq=False)
class Rows:
    """How to unpack a batch to one sequence per row and to pack it again; a padded batch stays as it is."""

    lengths: Int[Tensor, " rows"] | None
    """Tokens of each row; None: no padding."""
    source: Int[Tensor, "rows longest"] | None = None
    """For each position of the unpacked rows its index in the packed row."""
    target: Int[Tensor, " time"] | None = None
    """For each token of the packed row its index in the unpacked rows."""

    @classmethod
    def of(cls, pattern: Pattern | None) -> "Rows":
        """From the part of the pattern that separates the sequences of a batch."""
        layout = _layout(pattern)
        if isinstance(layout, Segments):
            return cls(
                layout.query_lengths, *unpacking(layout.query_segment[0], layout.query_lengths, layout.longest_query)
            )
        return cls(None if layout is None else layout.keys)

    def unpack(self, x: Grid) -> Unpacked:
        return x if self.source is None else x[0, self.source]

    def pack(self, x: Unpacked) -> Grid:
        return x if self.target is None else x.flatten(0, 1)[None, self.target]

    def valid(self, time: int) -> Bool[Tensor, "rows time"] | None:
        """False for padding; None: no padding."""
        if self.lengths is None:
            return None
        return torch.arange(time, device=self.lengths.device) < self.lengths[:, None]


def _layout(pattern: Pattern | None) -> Padding | Segments | None:
    if isinstance(pattern, And):
        return _layout(pattern.one) or _layout(pattern.other)
    return pattern if isinstance(pattern, Padding | Segments) else None
