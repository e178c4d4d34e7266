"""The corpus: an endless stream of sentences, cut into splits that share no combination of words.

All sentences of one combination belong to one split, chosen by a stable hash: 'The animal didn't cross the street
because it was very tired' goes where 'Today the animal cannot cross the street because it is too tired' goes. So no
sentence of one split occurs in another, whatever sizes and seeds are asked for.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from regard.data.street.combinations import combination
from regard.data.street.coreference import Coreference, resolve
from regard.data.street.draw import Draw
from regard.data.street.families import FAMILIES, SHARES
from regard.data.street.talk import IDIOMS
from regard.data.street.typed import as_typed
from regard.errors import ConfigError, nearest

SIZES = {"train": 60_000, "valid": 1_000, "test": 2_000}
"""How many sentences a split has unless asked otherwise."""

LECTURE_SENTENCES = (
    (
        "The animal did not cross the street because it was too tired.",
        "Das Tier überquerte die Straße nicht, weil es zu müde war.",
    ),
    (
        "The animal did not cross the street because it was too wide.",
        "Das Tier überquerte die Straße nicht, weil sie zu breit war.",
    ),
)
"""The lectures' example. Test begins with it; no other split holds its combinations."""

_SHUFFLE = b"weil"
"""Decides which combinations fall into which split, so changing it changes every split."""
_HELD_OUT = frozenset(combination(source) for source, _ in LECTURE_SENTENCES)
_LEARNT_WHOLE = frozenset(combination(source) for source, _ in IDIOMS)
_PRONOUN = re.compile(r"\bweil\b.*?\b(er|sie|es)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Example:
    """A pair of sentences, the family it belongs to, and what *it* means where that is the question."""

    source: str
    target: str
    family: str
    coreference: Coreference | None = None


def pairs(split: str, size: int | None = None, seed: int = 1) -> Iterator[tuple[str, str]]:
    """The English and German sentences of a split; a smaller size is the beginning of a larger one."""
    return ((example.source, example.target) for example in examples(split, size, seed))


def pronoun_cases(split: str, size: int | None = None, seed: int = 1) -> Iterator[Example]:
    """Those examples of the same stream that ask what *it* means."""
    return (example for example in examples(split, size, seed) if example.coreference)


def examples(split: str, size: int | None = None, seed: int = 1) -> Iterator[Example]:
    """The sentences of a split, none of them twice."""
    if split not in SIZES:
        raise ConfigError("split", f"unknown split '{split}'; {nearest(split, SIZES)}")
    size = SIZES[split] if size is None else size
    if size < 0:
        raise ConfigError("size", f"expected a number of sentences, got {size}")
    return islice(_stream(split, seed), size)


def _stream(split: str, seed: int) -> Iterator[Example]:
    seen: set[str] = set()
    if split == "test":
        for example in _lecture_examples():
            seen.add(example.source)
            yield example
    draw = Draw(seed)
    while True:
        family = draw.one(SHARES)
        source, target = as_typed(draw, FAMILIES[family][1](draw))
        if source not in seen and split_of(source) == split:
            seen.add(source)
            yield Example(source, target, family, resolve(source) if family == "coreference" else None)


def _lecture_examples() -> Iterator[Example]:
    for shorten in (False, True):
        for source, target in LECTURE_SENTENCES:
            spoken = source.replace("did not", "didn't") if shorten else source
            yield Example(spoken, target, "coreference", resolve(spoken))


def split_of(source: str) -> str:
    """The split that an English sentence belongs to: five in a hundred are for validation, ten for the test.

    Sentences of less than two such words, 'Yes, I do' or 'Dance!', are for training: nothing else shows what they mean.
    """
    said = combination(source)
    if said in _HELD_OUT:
        return "test"
    if " " not in said or said in _LEARNT_WHOLE:
        return "train"
    digest = hashlib.blake2b(said.encode(), digest_size=8, person=_SHUFFLE).digest()
    hundredth = int.from_bytes(digest, "big") % 100
    return "test" if hundredth < 10 else "valid" if hundredth < 15 else "train"


def pronoun_accuracy(sources: Iterable[str], hypotheses: Iterable[str]) -> tuple[int, int]:
    """How many translations have the right pronoun after 'weil', of how many sources that ask for one."""
    right = total = 0
    for source, hypothesis in zip(sources, hypotheses, strict=True):
        if asked := resolve(source):
            found = _PRONOUN.search(hypothesis)
            total += 1
            right += found is not None and found[1].lower() == asked.pronoun
    return right, total
