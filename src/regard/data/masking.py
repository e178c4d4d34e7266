"""Masking: which tokens a masked language model has to guess, and what it sees in their place (Devlin 2019).

    1. choose    15 % of the tokens of each sequence, single ones or whole words
    2. hide      of the chosen, 80 % become <mask>, 10 % a random token, and 10 % stay: no token can be trusted blindly

Everything drawn is a pure function of (seed, epoch, sequence), however sequences share batches: a resumed run hides
what an undisturbed one would have hidden, any number of processes hides the same, and each epoch hides anew.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Int64
from pydantic import Field, model_validator

from regard.config import Config, refuse
from regard.data.collate import Packed, Padded
from regard.data.special import MASK, SPECIAL_TOKENS
from regard.data.tokenizer import Tokenizer

FIRST = len(SPECIAL_TOKENS)
"""Ids from here on stand for text; special tokens are never hidden, nor put in the place of others."""

Row = Int64[np.ndarray, " tokens"]
Places = Int64[np.ndarray, " chosen"]


class MaskingConfig(Config):
    """What a masked language model has to guess, and what it sees instead."""

    share: float = Field(0.15, gt=0, lt=1)
    """Share of a sequence's tokens that are to be guessed; at least one is."""
    masked: float = Field(0.8, ge=0, le=1)
    """Share of these that is hidden by `<mask>`."""
    random: float = Field(0.1, ge=0, le=1)
    """Share of these that is replaced by a random token; the rest stays as it is."""
    whole_words: bool = False
    """Choose all tokens of a word or none of them; where every word is larger than the share, single tokens."""

    @model_validator(mode="after")
    def _shares_fit(self) -> "MaskingConfig":
        if self.masked + self.random > 1 + 1e-9:
            raise refuse("random", f"masked and random are shares of one whole, got {self.masked} and {self.random}")
        return self

    def build(self, tokenizer: Tokenizer) -> "Masking":
        """The masking of texts in a vocabulary."""
        words = WordEdges.of(tokenizer) if self.whole_words else None
        return Masking(tokenizer.vocab_size, share=self.share, masked=self.masked, random=self.random, words=words)


@dataclass(frozen=True, eq=False)
class WordEdges:
    """Which tokens may go on inside a word: letters, digits and parts of characters join, all else stands alone."""

    joins_before: Bool[np.ndarray, " vocab"]
    joins_after: Bool[np.ndarray, " vocab"]

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> "WordEdges":
        """Read from the tokens' spelling; in a vocabulary of words, each token is a word."""
        shown = tokenizer.tokens(range(tokenizer.vocab_size))
        if type(tokenizer.core.model).__name__ == "WordLevel":
            alone = np.zeros(len(shown), np.bool_)
            return cls(alone, alone)
        text = np.arange(len(shown)) >= FIRST
        before = [bool(re.match(r"\w|<0x[0-9A-F]{2}>", token)) for token in shown]
        after = [bool(re.search(r"(\w|<0x[0-9A-F]{2}>)$", token)) for token in shown]
        return cls(np.array(before) & text, np.array(after) & text)

    def numbers(self, row: Row) -> Row:
        """For each token of a sequence the number of its word."""
        goes_on = self.joins_before[row[1:]] & self.joins_after[row[:-1]]
        return np.cumsum(np.concatenate([[0], ~goes_on]))


@dataclass(frozen=True, eq=False)
class Masked:
    """Sequences with some tokens hidden, and what stood there."""

    field: Padded | Packed
    """What the model sees."""
    places: Places
    """Where the chosen tokens stand, counted through the grid row by row."""
    answers: Places
    """What stood there."""


class Masking:
    """Chooses tokens and hides them; `words` where whole words are to be chosen."""

    def __init__(
        self,
        vocab: int,
        *,
        share: float = 0.15,
        masked: float = 0.8,
        random: float = 0.1,
        words: WordEdges | None = None,
    ) -> None:
        self.vocab, self.share, self.masked, self.random, self.words = vocab, share, masked, random, words

    def mask(
        self, field: Padded | Packed, examples: Int64[np.ndarray, " sequences"], seed: int = 0, epoch: int = 0
    ) -> Masked:
        """Some tokens of each sequence hidden; `examples` are the sequences' numbers, from which the draws follow."""
        tokens = field.tokens.copy()
        flat, places, answers = tokens.reshape(-1), [], []
        for start, stop, example in zip(*_bounds(field), examples.tolist(), strict=True):
            random = np.random.default_rng([seed, epoch, example])
            row = flat[start:stop]
            chosen = self.choose(row, random)
            places.append(start + chosen)
            answers.append(row[chosen])
            row[chosen] = self.hide(row[chosen], random)
        return Masked(replace(field, tokens=tokens), _joined(places), _joined(answers))

    def choose(self, row: Row, random: np.random.Generator) -> Places:
        """The places of a sequence that are to be guessed, in order."""
        able = np.flatnonzero(row >= FIRST)
        if not len(able):
            return able
        count = max(1, round(self.share * len(able)))
        chosen = [] if self.words is None else list(self._words(row, able, count, random))
        if not chosen:
            return np.sort(random.permutation(able)[:count])
        return np.sort(np.concatenate(chosen))

    def _words(self, row: Row, able: Places, count: int, random: np.random.Generator) -> Iterator[Places]:
        """Words in random order while they fit into the count."""
        assert self.words is not None
        numbers = self.words.numbers(row)[able]
        starts = np.flatnonzero(np.diff(numbers, prepend=-1))
        sizes = np.diff(starts, append=len(able)).tolist()
        for word in random.permutation(len(starts)).tolist():
            if sizes[word] <= count:
                count -= sizes[word]
                yield able[starts[word] : starts[word] + sizes[word]]
            if not count:
                return

    def hide(self, tokens: Places, random: np.random.Generator) -> Places:
        """What is seen in the place of chosen tokens."""
        draws, others = random.random(len(tokens)), random.integers(FIRST, self.vocab, len(tokens))
        swapped = np.where(draws < self.masked + self.random, others, tokens)
        return np.where(draws < self.masked, MASK, swapped)


def _bounds(field: Padded | Packed) -> tuple[list[int], list[int]]:
    """Where each sequence begins and ends in the flat grid."""
    if isinstance(field, Packed):
        starts = np.cumsum(field.lengths) - field.lengths
    else:
        starts = np.arange(len(field.lengths)) * field.tokens.shape[1]
    return starts.tolist(), (starts + field.lengths).tolist()


def _joined(parts: list[Places]) -> Places:
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)
