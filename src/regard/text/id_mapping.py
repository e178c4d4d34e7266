"""A vocabulary from elsewhere under our numbers: our special tokens come first, all others keep their order.

The tokenizer itself stays as it is, with its own ids (*theirs*); models, stores and searches know ours. What leads from
the one to the other is said by few numbers, which lie beside `tokenizer.json`.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any

from regard.errors import DataError
from regard.text.special_tokens import BOS, CLS, EOS, MASK, PAD, SEP, SPECIAL_TOKENS, UNK

NONE = -1
"""Stands where their vocabulary has no such token."""
LARGEST_VOCABULARY = 2**24
LARGEST_FILE = 4096  # bytes
PREFERRED = (EOS, PAD, UNK, MASK, SEP, CLS, BOS)
"""Where several of ours are one of theirs, the first of these is what is read and written."""


@dataclass(frozen=True)
class Numbering:
    """How ids of a vocabulary from elsewhere become ours, and what else its texts need."""

    special: tuple[int, ...]
    """Their id of each of our special tokens."""
    size: int
    """Rows of their table: tokens, and places without one."""
    first: tuple[int, ...] = ()
    """Our special tokens that stand before every text."""
    tidy: bool = False
    """Whether the space before punctuation is taken away from what is decoded."""
    split_special: bool = False
    """Whether a special token spelt in a text is text."""
    marian: bool = False
    """Whether texts are tokenised as by the class MarianTokenizer (`text/marian.py`)."""

    @property
    def problem(self) -> str | None:
        """What cannot be, if anything."""
        if len(self.special) != len(SPECIAL_TOKENS) or not 0 < self.size <= LARGEST_VOCABULARY:
            return f"expected {len(SPECIAL_TOKENS)} special tokens and a size up to {LARGEST_VOCABULARY:,}"
        if not all(NONE <= number < self.size for number in self.special):
            return f"expected the special tokens' ids below {self.size:,}, got {list(self.special)}"
        return None if set(self.first) <= set(range(len(SPECIAL_TOKENS))) else f"first: got {list(self.first)}"

    @cached_property
    def theirs(self) -> tuple[int, ...]:
        """Their id of each of ours."""
        named = set(self.special)
        return (*self.special, *(number for number in range(self.size) if number not in named))

    @cached_property
    def ours(self) -> tuple[int, ...]:
        """Our id of each of theirs."""
        found = {number: own for own, number in enumerate(self.theirs) if own >= len(SPECIAL_TOKENS)}
        for own in reversed(PREFERRED):
            found[self.special[own]] = own
        return tuple(found[number] for number in range(self.size))

    @property
    def same(self) -> tuple[tuple[int, int], ...]:
        """Pairs of our tokens that are one of theirs: the first has no row of its own there."""
        pairs = ((own, self.ours[number]) for own, number in enumerate(self.special) if number != NONE)
        return tuple((own, other) for own, other in pairs if own != other)

    @property
    def never(self) -> tuple[int, ...]:
        """Our tokens that their model does not write: those it does not have, and second names of one it has."""
        seconds = {own for own, _ in self.same}
        return tuple(own for own, number in enumerate(self.special) if number == NONE or own in seconds)

    def to_ours(self, ids: Sequence[int]) -> list[int]:
        """Their ids as ours."""
        try:
            return [self.ours[number] for number in ids]
        except IndexError:
            wrong = next(number for number in ids if number >= self.size)
            raise DataError(
                "text", f"holds the special token {wrong}, but the model has only {self.size:,} rows; take it out"
            ) from None

    def to_theirs(self, ids: Sequence[int]) -> list[int]:
        """Our ids as theirs; what their vocabulary does not have is left out."""
        return [self.theirs[own] for own in ids if self.theirs[own] != NONE]

    def save(self, tokenizer: Path) -> None:
        """Writes the numbers beside a tokenizer's file."""
        beside(tokenizer).write_text(json.dumps(asdict(self)) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, tokenizer: Path) -> "Numbering | None":
        """The numbers beside a tokenizer's file; None where the vocabulary is our own."""
        file = beside(tokenizer)
        if not file.is_file():
            return None
        if file.stat().st_size > LARGEST_FILE:
            raise DataError(file, f"more than {LARGEST_FILE:,} bytes; is this the right file?")
        try:
            numbering = _of_tree(json.loads(file.read_text(encoding="utf-8")))
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise DataError(file, f"not the numbers of a vocabulary: {error}") from None
        if problem := numbering.problem:
            raise DataError(file, f"not the numbers of a vocabulary: {problem}")
        return numbering


def beside(tokenizer: Path) -> Path:
    """Where the numbers of a tokenizer's file lie: `tokenizer.numbers.json`."""
    return tokenizer.with_name(f"{tokenizer.stem}.numbers.json")


def _of_tree(tree: dict[str, Any]) -> Numbering:
    if unknown := tree.keys() - {one.name for one in fields(Numbering)}:
        raise ValueError(f"unknown key {min(unknown)!r}")
    numbers = [*tree["special"], tree["size"], *tree["first"]]
    flags = {key: value for key, value in tree.items() if key not in ("special", "size", "first")}
    if not all(type(number) is int for number in numbers) or not all(type(flag) is bool for flag in flags.values()):
        raise TypeError("expected whole numbers")
    return Numbering(tuple(tree["special"]), tree["size"], tuple(tree["first"]), **flags)
