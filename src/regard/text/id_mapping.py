"""An imported vocabulary under our ids: our special tokens come first, all others keep their order.

The tokenizer itself keeps its *foreign* ids; models, stores and searches use ours. The mapping follows from few values,
which are stored beside `tokenizer.json`.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from pathlib import Path

from regard.config.values import is_list, is_table
from regard.errors import DataError
from regard.text.special_tokens import BOS, CLS, EOS, MASK, PAD, SEP, SPECIAL_TOKENS, UNK

NONE = -1
"""The foreign id of a special token that the imported vocabulary does not have."""
LARGEST_VOCABULARY = 2**24
LARGEST_FILE = 4096  # bytes
PREFERRED = (EOS, PAD, UNK, MASK, SEP, CLS, BOS)
"""Where several of our special tokens are one foreign token, it maps to the first of these."""


@dataclass(frozen=True)
class IdMapping:
    """From foreign ids to ours and back, and what else an imported vocabulary needs."""

    special: tuple[int, ...]
    """Foreign id of each of our special tokens."""
    size: int
    """Rows of the imported embedding, with or without a token."""
    first: tuple[int, ...] = ()
    """Our ids of the special tokens that stand before every text."""
    tidy: bool = False
    """Whether decoding removes the space before punctuation (clean_up_tokenization_spaces)."""
    split_special: bool = False
    """Whether a special token spelt in a text is text."""
    marian: bool = False
    """Whether texts are tokenised as by the class MarianTokenizer (`text/marian.py`)."""

    @property
    def problem(self) -> str | None:
        if len(self.special) != len(SPECIAL_TOKENS) or not 0 < self.size <= LARGEST_VOCABULARY:
            return f"expected {len(SPECIAL_TOKENS)} special tokens and a size up to {LARGEST_VOCABULARY:,}"
        if not all(NONE <= foreign_id < self.size for foreign_id in self.special):
            return f"expected the special tokens' ids below {self.size:,}, got {list(self.special)}"
        return None if set(self.first) <= set(range(len(SPECIAL_TOKENS))) else f"first: got {list(self.first)}"

    @cached_property
    def foreign_ids(self) -> tuple[int, ...]:
        special = set(self.special)
        return (*self.special, *(foreign_id for foreign_id in range(self.size) if foreign_id not in special))

    @cached_property
    def our_ids(self) -> tuple[int, ...]:
        ids = {
            foreign_id: our_id for our_id, foreign_id in enumerate(self.foreign_ids) if our_id >= len(SPECIAL_TOKENS)
        }
        for our_id in reversed(PREFERRED):
            ids[self.special[our_id]] = our_id
        return tuple(ids[foreign_id] for foreign_id in range(self.size))

    @property
    def same(self) -> tuple[tuple[int, int], ...]:
        """Pairs of our ids that are one foreign token: the first has no row of its own in the imported embedding."""
        pairs = ((our_id, self.our_ids[foreign]) for our_id, foreign in enumerate(self.special) if foreign != NONE)
        return tuple((our_id, preferred) for our_id, preferred in pairs if our_id != preferred)

    @property
    def never(self) -> tuple[int, ...]:
        """Our ids that the imported model never generates: tokens it does not have, and duplicates (`same`)."""
        duplicates = {our_id for our_id, _ in self.same}
        return tuple(our_id for our_id, foreign in enumerate(self.special) if foreign == NONE or our_id in duplicates)

    @property
    def signature(self) -> str:
        """All fields as text, spelt as in the identities of stored vocabularies."""
        return repr(self).replace(type(self).__name__, "Numbering", 1)

    def from_foreign(self, ids: Sequence[int]) -> list[int]:
        try:
            return [self.our_ids[foreign_id] for foreign_id in ids]
        except IndexError:
            wrong = next(foreign_id for foreign_id in ids if foreign_id >= self.size)
            raise DataError(
                "text", f"holds the special token {wrong}, but the model has only {self.size:,} rows; take it out"
            ) from None

    def to_foreign(self, ids: Sequence[int]) -> list[int]:
        """Foreign ids; tokens that the imported vocabulary does not have are left out."""
        return [self.foreign_ids[our_id] for our_id in ids if self.foreign_ids[our_id] != NONE]

    def save(self, tokenizer: Path) -> None:
        """Writes `tokenizer.numbers.json` beside `tokenizer.json`."""
        mapping_file(tokenizer).write_text(json.dumps(asdict(self)) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, tokenizer: Path) -> "IdMapping | None":
        """The mapping beside `tokenizer.json`; None where the vocabulary is not imported."""
        file = mapping_file(tokenizer)
        if not file.is_file():
            return None
        if file.stat().st_size > LARGEST_FILE:
            raise DataError(file, f"more than {LARGEST_FILE:,} bytes; is this the right file?")
        try:
            mapping = _from_json(json.loads(file.read_text(encoding="utf-8")))
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise DataError(file, f"not the id mapping of a vocabulary: {error}") from None
        if problem := mapping.problem:
            raise DataError(file, f"not the id mapping of a vocabulary: {problem}")
        return mapping


def mapping_file(tokenizer: Path) -> Path:
    return tokenizer.with_name(f"{tokenizer.stem}.numbers.json")


def _from_json(tree: object) -> IdMapping:
    if not is_table(tree):
        raise TypeError("expected an object")
    if unknown := tree.keys() - {field.name for field in fields(IdMapping)}:
        raise ValueError(f"unknown key {min(unknown)!r}")
    special, (size,), first = _integers(tree["special"]), _integers([tree["size"]]), _integers(tree["first"])
    flags = {key: value for key, value in tree.items() if isinstance(value, bool)}
    if len(flags) + 3 != len(tree):
        raise TypeError("expected integers")
    return IdMapping(special, size, first, **flags)


def _integers(values: object) -> tuple[int, ...]:
    integers = tuple(value for value in values if type(value) is int) if is_list(values) else ()
    if not is_list(values) or len(integers) != len(values):
        raise TypeError("expected integers")
    return integers
