"""The layout of a batch: padded, one sequence per row; or packed, several per row."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from regard.errors import ShapeError
from regard.nn.device import to_device
from regard.nn.pattern import Padding, Pattern, Segments
from regard.nn.shapes import expect

PADDING = -1  # the segment of padding


@dataclass(frozen=True, eq=False)
class Layout:
    """Segment and position of each element of a batch of token ids."""

    segment: Int[Tensor, "batch time"]
    """Index of the sequence within its row; -1 for padding."""
    index: Int[Tensor, "batch time"]
    """Position within the sequence."""
    lengths: Int[Tensor, " sequences"]
    longest: int
    packed: bool
    whole: bool = False
    """Whether there is no padding, so that no mask is needed."""
    tree: Int[Tensor, "batch time"] | None = None
    """Dependency head of each token as an index into its row; a root points at itself."""

    @classmethod
    def padded(cls, lengths: Int[Tensor, " batch"], time: int) -> "Layout":
        """One sequence per row, padded on the right."""
        if lengths.numel() and int(lengths.max()) > time:
            raise ShapeError(f"lengths: expected at most {time} (the grid's time), got {int(lengths.max())}")
        index = torch.arange(time, device=lengths.device).expand(len(lengths), time)
        segment = torch.where(index < lengths[:, None], 0, PADDING)
        return cls(segment, index, lengths, longest=time, packed=False)

    @classmethod
    def full(cls, batch: int, time: int, device: torch.device | str = "cpu") -> "Layout":
        """No padding."""
        index = torch.arange(time, device=device).expand(batch, time)
        lengths = torch.full((batch,), time, device=device)
        return cls(torch.zeros_like(index), index, lengths, longest=time, packed=False, whole=True)

    @classmethod
    def packing(cls, lengths: Int[Tensor, " sequences"], time: int | None = None) -> "Layout":
        """All sequences packed into a single row, padded to `time` if given."""
        total = int(lengths.sum())
        time = total if time is None else time
        if total > time:
            raise ShapeError(f"lengths: expected a sum of at most {time} (the row's time), got {total}")
        ends = torch.cumsum(lengths, 0)
        starts = ends - lengths
        # segment = how many sequences ended before (repeat_interleave would start all threads)
        segment = torch.bincount(ends[:-1], minlength=total + 1).cumsum(0)[:total]
        index = torch.arange(total, device=lengths.device) - starts[segment]
        rest = segment.new_full((time - total,), PADDING)
        segment, index = torch.cat([segment, rest]), torch.cat([index, torch.zeros_like(rest)])
        longest = max(int(lengths.max()) if len(lengths) else 0, time - total)  # padding counts as a sequence too
        return cls(segment[None], index[None], lengths, longest=longest, packed=True)

    def with_tree(self, tree: Int[Tensor, "batch time"]) -> "Layout":
        """The same layout with the dependency head of each token."""
        expect("tree", tuple(self.segment.shape), tuple(tree.shape))
        return replace(self, tree=tree)

    @property
    def valid(self) -> Bool[Tensor, "batch time"]:
        """False for padding."""
        return self.segment != PADDING

    def pattern(self) -> Pattern | None:
        """Each token attends to its own sequence only."""
        if self.whole:
            return None
        if self.packed:
            return Segments(self.segment, self.segment, self.lengths, self.lengths, self.longest, self.longest)
        return Padding(keys=self.lengths, queries=self.lengths)

    def cross_pattern(self, other: "Layout") -> Pattern | None:
        """Cross-attention: each token of `other` attends to its source sequence in this layout."""
        if self.packed != other.packed:
            raise ShapeError("source and target must both be padded or both be packed")
        expect("sequences of the source", len(other.lengths), len(self.lengths))
        if self.packed:
            return Segments(other.segment, self.segment, other.lengths, self.lengths, other.longest, self.longest)
        return None if self.whole else Padding(keys=self.lengths)

    def to(self, device: torch.device | str) -> "Layout":
        tree = None if self.tree is None else to_device(self.tree, device)
        segment, index, lengths = (to_device(part, device) for part in (self.segment, self.index, self.lengths))
        return replace(self, segment=segment, index=index, lengths=lengths, tree=tree)

    @property
    def positions(self) -> Int[Tensor, "#batch time"]:
        """Position of each token in its sequence; a single row where all rows agree."""
        return self.index if self.packed else self.index[:1]


@dataclass(frozen=True, eq=False)
class Sequences:
    """Token ids of a batch, and their layout."""

    tokens: Int[Tensor, "batch time"]
    layout: Layout

    def __post_init__(self) -> None:
        expect("tokens", tuple(self.layout.segment.shape), tuple(self.tokens.shape))

    @classmethod
    def padded(cls, rows: Sequence[Sequence[int]], pad: int = 0, device: torch.device | str = "cpu") -> "Sequences":
        """One sequence per row, padded on the right."""
        lengths = torch.tensor([len(row) for row in rows], device=device)
        time = max((len(row) for row in rows), default=0)
        tokens = torch.tensor([[*row, *[pad] * (time - len(row))] for row in rows], dtype=torch.long, device=device)
        return cls(tokens.reshape(len(rows), time), Layout.padded(lengths, time))

    @classmethod
    def packed(cls, rows: Sequence[Sequence[int]], device: torch.device | str = "cpu") -> "Sequences":
        """All sequences packed into a single row."""
        lengths = torch.tensor([len(row) for row in rows], device=device)
        tokens = torch.tensor([token for row in rows for token in row], dtype=torch.long, device=device)
        return cls(tokens[None], Layout.packing(lengths))

    @classmethod
    def full(cls, tokens: Int[Tensor, "batch time"]) -> "Sequences":
        """Without padding."""
        return cls(tokens, Layout.full(*tokens.shape, device=tokens.device))

    def twice(self) -> "Sequences":
        """The batch repeated twice."""
        layout, time = self.layout, self.tokens.shape[1]
        if layout.packed:
            if not layout.lengths.is_cuda:  # reading it would wait for the device
                expect("tokens of a packed row without padding", int(layout.lengths.sum()), time)
            segment = torch.cat([layout.segment, layout.segment + len(layout.lengths)], 1)
            tree = None if layout.tree is None else torch.cat([layout.tree, layout.tree + time], 1)
            doubled = replace(
                layout, segment=segment, index=layout.index.repeat(1, 2), lengths=layout.lengths.repeat(2), tree=tree
            )
            return type(self)(self.tokens.repeat(1, 2), doubled)
        segment, index = layout.segment.repeat(2, 1), layout.index.repeat(2, 1)
        tree = None if layout.tree is None else layout.tree.repeat(2, 1)
        doubled = replace(layout, segment=segment, index=index, lengths=layout.lengths.repeat(2), tree=tree)
        return type(self)(self.tokens.repeat(2, 1), doubled)

    def to(self, device: torch.device | str) -> "Sequences":
        return type(self)(to_device(self.tokens, device), self.layout.to(device))
