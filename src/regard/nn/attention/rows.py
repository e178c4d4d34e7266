"""The sequences of a batch one a row, for the kinds of attention that change the number of keys."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.nn.fast.varlen import unpacking
from regard.nn.pattern import And, Padding, Pattern, Segments

Grid = Float[Tensor, "batch time width"]
Spread = Float[Tensor, "rows longest width"]


@dataclass(frozen=True, eq=False)
class Rows:
    """How a batch is laid out one sequence a row, and back; a batch that lies so already stays as it is."""

    lengths: Int[Tensor, " rows"] | None
    """Tokens of each row; None where all are as long as the grid."""
    places: Int[Tensor, "rows longest"] | None = None
    """For each cell of the rows its place in a packed row."""
    cells: Int[Tensor, " time"] | None = None
    """For each place of a packed row its cell."""

    @classmethod
    def of(cls, pattern: Pattern | None) -> "Rows":
        """As the pattern that keeps the sequences of a batch apart says."""
        own = _apart(pattern)
        if isinstance(own, Segments):
            return cls(own.query_lengths, *unpacking(own.query_segment[0], own.query_lengths, own.longest_query))
        return cls(None if own is None else own.keys)

    def spread(self, x: Grid) -> Spread:
        """One sequence a row."""
        return x if self.places is None else x[0, self.places]

    def collect(self, x: Spread) -> Grid:
        """As the batch lay before."""
        return x if self.cells is None else x.flatten(0, 1)[None, self.cells]

    def valid(self, time: int) -> Bool[Tensor, "rows time"] | None:
        """True where a token stands; None where one stands everywhere."""
        if self.lengths is None:
            return None
        return torch.arange(time, device=self.lengths.device) < self.lengths[:, None]


def _apart(pattern: Pattern | None) -> Padding | Segments | None:
    if isinstance(pattern, And):
        return _apart(pattern.one) or _apart(pattern.other)
    return pattern if isinstance(pattern, Padding | Segments) else None
