"""Batches in few shapes: what is prepared for a shape, such as a CUDA graph of a training step, then serves many.

Padding that is added here changes no result: added targets are ignored, added tokens are sequences of their own, and
what a batch counts for (tokens, targets, FLOPs) stays as it was.
"""

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar, cast

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.nn.layout import Layout, Sequences
from regard.nn.loss import IGNORED
from regard.tasks.base import Inputs

T = TypeVar("T")
Key = tuple[object, ...]

ALIGNED = 64
"""Tokens and sequences of packed rows are rounded up to a multiple of this."""
SHARE = 16
"""Rows and lengths of padded batches are rounded up by at most this part."""


def tensors(value: object) -> Iterator[Tensor]:
    """All tensors of a batch, in a fixed order."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, tuple):
        for part in cast(tuple[object, ...], value):
            yield from tensors(part)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            yield from tensors(getattr(value, field.name))


def shape_key(value: object) -> Key:
    """What must be equal for one CUDA graph to serve: shapes, data types and flags, but not what a batch counts for."""
    if isinstance(value, Tensor):
        return (tuple(value.shape), value.dtype)
    if isinstance(value, tuple):
        return tuple(shape_key(part) for part in cast(tuple[object, ...], value))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        is_batch = isinstance(value, Inputs)
        values = (getattr(value, field.name) for field in dataclasses.fields(value))
        return (type(value), *(shape_key(part) for part in values if not (is_batch and isinstance(part, int | float))))
    return (value,)


def with_tensors(value: T, replacements: Iterator[Tensor]) -> T:
    """The same value with other tensors, in the order of `tensors`."""
    if isinstance(value, Tensor):
        return cast(T, next(replacements))
    if isinstance(value, tuple):
        return cast(T, tuple(with_tensors(part, replacements) for part in cast(tuple[object, ...], value)))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in dataclasses.fields(value)]
        return dataclasses.replace(value, **{n: with_tensors(getattr(value, n), replacements) for n in names})
    return value


class RoundedShapes:
    """Padded batches: rows and lengths are rounded up, so that a corpus has some dozens of shapes."""

    def fit(self, inputs: Inputs) -> Inputs | None:
        """The batch in its shape; None where targets are counted from the start of the batch, not by row and time."""
        if type(inputs) is not Inputs:
            return None
        return _grow_batch(inputs, rounded(_rows(inputs)), rounded)


class OneShape:
    """Batches that have one shape but for an epoch's last: it is padded with rows."""

    def __init__(self, first: Inputs) -> None:
        self.rows = _rows(first)

    def fit(self, inputs: Inputs) -> Inputs | None:
        """The batch with as many rows as the first one."""
        return _grow_batch(inputs, self.rows, lambda time: time) if type(inputs) is Inputs else None


class PackedShape:
    """Packed rows, padded to one size: that of the largest of some batches."""

    def __init__(self, largest: Iterable[Inputs]) -> None:
        batches = [_sequences(inputs) for inputs in largest]
        self.longest = max(part.layout.longest for parts in batches for part in parts)
        self.times = [aligned(max(part.tokens.shape[1] for part in column)) for column in zip(*batches, strict=True)]
        most = max(len(part.layout.lengths) for parts in batches for part in parts)
        self.count = aligned(most + -(-max(self.times) // self.longest))
        """Sequences: those of a batch, and others that fill the row up."""

    def fit(self, inputs: Inputs) -> Inputs | None:
        """The batch padded to this size; None where it is larger."""
        parts = _sequences(inputs)
        fits = (
            part.tokens.shape[1] <= time
            and part.layout.longest <= self.longest
            and len(part.layout.lengths) + -(-time // self.longest) <= self.count
            for part, time in zip(parts, self.times, strict=True)
        )
        if type(inputs) is not Inputs or inputs.targets.dim() != 2 or not all(fits):
            return None
        filled = iter([self._fill(part, time) for part, time in zip(parts, self.times, strict=True)])
        arguments = tuple(next(filled) if isinstance(part, Sequences) else part for part in inputs.arguments)
        targets = F.pad(inputs.targets, (0, self.times[-1] - inputs.targets.shape[1]), value=IGNORED)
        return dataclasses.replace(inputs, arguments=arguments, targets=targets)

    def _fill(self, part: Sequences, time: int) -> Sequences:
        """More sequences, none longer than the data's longest, until the row is full; then empty ones."""
        rest, lengths = time - part.tokens.shape[1], part.layout.lengths
        filling = torch.full((-(-rest // self.longest),), self.longest)
        if rest:
            filling[-1] = rest - self.longest * (len(filling) - 1)
        lengths = F.pad(torch.cat([lengths, filling]), (0, self.count - len(lengths) - len(filling)))
        layout = dataclasses.replace(Layout.packing(lengths), longest=self.longest)
        if part.layout.tree is not None:
            roots = torch.arange(part.tokens.shape[1], time)[None]  # each added token is its own root
            layout = layout.with_tree(torch.cat([part.layout.tree, roots], 1))
        return Sequences(F.pad(part.tokens, (0, rest)), layout)


Shapes = RoundedShapes | OneShape | PackedShape


def rounded(count: int) -> int:
    """The count rounded up by at most an eighth where it is small, and a sixteenth from 32 on."""
    step = max(2, 1 << max(0, (count // SHARE).bit_length() - 1))
    return -(-count // step) * step


def aligned(count: int) -> int:
    return -(-count // ALIGNED) * ALIGNED


def _sequences(inputs: Inputs) -> list[Sequences]:
    return [part for part in inputs.arguments if isinstance(part, Sequences)]


def _rows(inputs: Inputs) -> int:
    first = inputs.arguments[0]
    return len(first.tokens if isinstance(first, Sequences) else cast(Tensor, first))


def _grow_batch(inputs: Inputs, rows: int, grow: Callable[[int], int]) -> Inputs:
    """A padded batch with more rows, and longer ones."""
    arguments = tuple(
        _grow_rows(part, rows, grow(part.tokens.shape[1]))
        if isinstance(part, Sequences)
        else F.pad(part, (0, 0) * (part.dim() - 1) + (0, rows - len(part)))
        if isinstance(part, Tensor)
        else part
        for part in inputs.arguments
    )
    targets = inputs.targets
    longer = (0, grow(targets.shape[1]) - targets.shape[1]) if targets.dim() == 2 else ()
    targets = F.pad(targets, (*longer, 0, rows - len(targets)), value=IGNORED)
    return dataclasses.replace(inputs, arguments=arguments, targets=targets)


def _grow_rows(part: Sequences, rows: int, time: int) -> Sequences:
    """Added rows have one token, so that attention has a key; without any padding, they need no mask."""
    more, longer = rows - len(part.tokens), time - part.tokens.shape[1]
    if part.layout.whole and not longer:
        layout = Layout.full(rows, time)
    else:
        layout = Layout.padded(F.pad(part.layout.lengths, (0, more), value=1), time)
    if part.layout.tree is not None:
        tree = torch.arange(time).repeat(rows, 1)
        tree[: len(part.tokens), : part.tokens.shape[1]] = part.layout.tree
        layout = layout.with_tree(tree)
    return Sequences(F.pad(part.tokens, (0, longer, 0, more)), layout)
