"""Masking: which tokens a masked language model has to guess, and what it sees in their place (Devlin 2019).

    1. choose    15 % of the tokens of each sequence, single ones or whole words
    2. hide      of the chosen, 80 % become <mask>, 10 % a random token, and 10 % stay: no token can be trusted blindly

Everything drawn is a pure function of (seed, epoch, sequence), however sequences share batches: a resumed run hides
what an undisturbed one would have hidden, any number of processes hides the same, and each epoch hides anew.
"""

import re
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float, Int64
from pydantic import Field, model_validator

from regard.config import Config, refuse
from regard.data.collate import Packed, Padded
from regard.data.counter_random import keys, numbers
from regard.text.special_tokens import MASK, SPECIAL_TOKENS
from regard.text.tokenizer import Tokenizer

FIRST = len(SPECIAL_TOKENS)
"""Ids from here on stand for text; special tokens are never hidden, nor put in the place of others."""

Row = Int64[np.ndarray, " tokens"]
Positions = Int64[np.ndarray, " chosen"]
Uniforms = Float[np.ndarray, " tokens"]


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
        words = WordEdges.of(tokenizer) if self.whole_words else None
        return Masking(tokenizer.vocab_size, self.share, self.masked, self.random, words)


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
    positions: Positions
    """Where the chosen tokens stand, counted through the grid row by row."""
    answers: Positions
    """What stood there."""


@dataclass(frozen=True, eq=False)
class Masking:
    """Chooses tokens and hides them; `words` where whole words are to be chosen."""

    vocab: int
    share: float = 0.15
    masked: float = 0.8
    random: float = 0.1
    words: WordEdges | None = None

    def mask(
        self, field: Padded | Packed, examples: Int64[np.ndarray, " sequences"], seed: int = 0, epoch: int = 0
    ) -> Masked:
        """Some tokens of each sequence hidden; `examples` are the sequences' numbers, from which the draws follow."""
        tokens = field.tokens.copy()
        flat = tokens.reshape(-1)
        owner, inside, positions = _flat_positions(field)
        text, key = flat[positions], keys(examples, seed=seed, epoch=epoch)[owner]
        chosen = self._choose(text, owner, numbers(key, 3 * inside))
        answers, key, inside = text[chosen], key[chosen], inside[chosen]
        flat[positions[chosen]] = self._hide(answers, numbers(key, 3 * inside + 1), numbers(key, 3 * inside + 2))
        return Masked(replace(field, tokens=tokens), positions[chosen], answers)

    def _choose(self, text: Row, owner: Row, uniforms: Uniforms) -> Positions:
        """The places that are to be guessed, in order, of all sequences: `owner` says which one a token is of."""
        able = np.flatnonzero(text >= FIRST)
        owner, uniforms = owner[able], uniforms[able]
        counts = np.maximum(1, np.rint(self.share * np.bincount(owner)).astype(np.int64))
        if self.words is None:
            return able[_first(owner, uniforms, counts)]
        starts = np.flatnonzero(np.diff(self.words.numbers(text)[able], prepend=-1) | np.diff(owner, prepend=-1))
        sizes = np.diff(starts, append=len(able))
        words = _fitting(owner[starts], uniforms[starts], sizes, counts)
        lone = np.flatnonzero(~np.isin(owner, owner[starts[words]]))  # every word is larger than the share
        single = lone[_first(owner[lone], uniforms[lone], counts)]
        chosen = np.repeat(np.isin(np.arange(len(starts)), words), sizes)
        chosen[single] = True
        return able[chosen]

    def _hide(self, tokens: Positions, uniforms: Uniforms, others: Uniforms) -> Positions:
        """What is seen in the place of chosen tokens."""
        random = FIRST + (others * (self.vocab - FIRST)).astype(np.int64)
        swapped = np.where(uniforms < self.masked + self.random, random, tokens)
        return np.where(uniforms < self.masked, MASK, swapped)


def _flat_positions(field: Padded | Packed) -> tuple[Row, Row, Row]:
    """Of every token, sequence by sequence: its sequence, where it stands there, and where in the flat grid."""
    lengths = field.lengths
    owner, before = np.repeat(np.arange(len(lengths)), lengths), np.cumsum(lengths) - lengths
    inside = np.arange(len(owner)) - before[owner]
    starts = before if isinstance(field, Packed) else np.arange(len(lengths)) * field.tokens.shape[1]
    return owner, inside, starts[owner] + inside


def _first(owner: Row, uniforms: Uniforms, counts: Row) -> Positions:
    """Of each owner's things, in the order of their draws, so many as it counts; in the order they have here."""
    order = np.lexsort((uniforms, owner))
    rank = np.arange(len(order)) - np.searchsorted(owner, owner)  # owners stand in order, also after sorting
    return np.sort(order[rank < counts[owner]])


def _fitting(owner: Row, uniforms: Uniforms, sizes: Row, counts: Row) -> list[int]:
    """Of each owner's words, in the order of their draws, those that still fit into its count."""
    order, left, words = np.lexsort((uniforms, owner)).tolist(), counts.tolist(), list[int]()
    owners, size = owner.tolist(), sizes.tolist()
    for word in order:
        if size[word] <= left[owners[word]]:
            left[owners[word]] -= size[word]
            words.append(word)
    return words
