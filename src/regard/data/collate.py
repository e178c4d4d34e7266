"""Sequences of unequal length in two arrays, and the two grids a model takes them in: padded or packed."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Self

import numpy as np
from jaxtyping import Int, Int64, Integer

from regard.text.special_tokens import PAD


@dataclass(frozen=True, eq=False)
class Ragged:
    """Sequences one after another in `tokens`; how many tokens each has in `lengths`."""

    tokens: Integer[np.ndarray, " tokens"]
    lengths: Int64[np.ndarray, " sequences"]

    @classmethod
    def of(cls, rows: Sequence[Sequence[int]], dtype: type[np.integer] = np.int64) -> Self:
        lengths = np.fromiter(map(len, rows), np.int64, len(rows))
        return cls(np.fromiter(chain.from_iterable(rows), dtype, int(lengths.sum())), lengths)

    def rows(self) -> list[list[int]]:
        return [part.tolist() for part in np.split(self.tokens, np.cumsum(self.lengths)[:-1])] if len(self) else []

    def select(self, rows: Int[np.ndarray, " rows"]) -> "Ragged":
        """Some of the sequences."""
        return take(self.tokens, (np.cumsum(self.lengths) - self.lengths)[rows], self.lengths[rows])

    def shorten(self, longest: int) -> "Ragged":
        """The beginnings of the sequences, of so many tokens at most."""
        starts = np.cumsum(self.lengths) - self.lengths
        return take(self.tokens, starts, np.minimum(self.lengths, longest))

    def surround(self, first: int | None, last: int | None) -> "Ragged":
        """A token before each sequence and one after it, unless None."""
        tokens, lengths = self.tokens, self.lengths
        if last is not None:
            tokens, lengths = np.insert(tokens, np.cumsum(lengths), last), lengths + 1
        if first is not None:
            tokens, lengths = np.insert(tokens, np.cumsum(lengths) - lengths, first), lengths + 1
        return Ragged(tokens, lengths)

    def __len__(self) -> int:
        return len(self.lengths)


@dataclass(frozen=True, eq=False)
class Padded:
    """One sequence a row, filled with `<pad>` on the right up to the longest."""

    tokens: Int64[np.ndarray, "rows time"]
    lengths: Int64[np.ndarray, " rows"]


@dataclass(frozen=True, eq=False)
class Packed:
    """All sequences one after another in a single row, without padding."""

    tokens: Int64[np.ndarray, "1 time"]
    lengths: Int64[np.ndarray, " sequences"]


def pad(ragged: Ragged) -> Padded:
    """A row for each sequence."""
    longest = int(ragged.lengths.max(initial=0))
    tokens = np.full((len(ragged), longest), PAD, np.int64)
    tokens[np.arange(longest) < ragged.lengths[:, None]] = ragged.tokens
    return Padded(tokens, ragged.lengths)


def pack(ragged: Ragged) -> Packed:
    """One row for all sequences."""
    return Packed(ragged.tokens.astype(np.int64)[None], ragged.lengths)


def take(
    tokens: Integer[np.ndarray, " tokens"], starts: Int[np.ndarray, " rows"], lengths: Int[np.ndarray, " rows"]
) -> Ragged:
    """Stretches of a long array, each with its own start and length, copied in one go."""
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    indices = np.arange(total) + np.repeat(starts - (ends - lengths), lengths)
    return Ragged(tokens[indices], lengths.astype(np.int64))
