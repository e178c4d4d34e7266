"""Subword regularisation: the same text cut differently in each epoch, so that a model sees words from the inside.

The `tokenizers` library can do both kinds, but its random numbers cannot be seeded. Here each cut is a pure function of
the text and a key, so a resumed run sees what an undisturbed one would have seen, in any order, in any process.
"""

import json
import math
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import shake_256
from itertools import pairwise
from typing import Protocol

import numpy as np
from jaxtyping import Float
from tokenizers import Tokenizer as Core

from regard.errors import ConfigError

LARGEST_MEMORY = 200_000  # words or states remembered; forgetting them changes speed, never a result


class Sampler(Protocol):
    """Draws one way of cutting a text."""

    settings: dict[str, float]

    def sample(self, text: str, key: str) -> list[int]:
        """The ids of the cut that the key draws."""
        ...


@dataclass(slots=True)
class _State:
    """A word half-merged, its possible merges as (rank, place, new token), best first, and where each leads."""

    tokens: tuple[int, ...]
    merges: list[tuple[int, int, int]]
    following: list["_State | None"]


class BpeDropout:
    """BPE with merges left out at random (Provilkov et al. 2020).

    At each step every possible merge is dropped with probability `dropout`, and the earliest-learnt of the others is
    made; when all are dropped, the word is done. The first one not dropped is the k-th with probability
    (1 - dropout)·dropout^k, so each step needs one random number. Words meet the same states again and again, so
    states are remembered: a step is then a look-up.
    """

    def __init__(self, core: Core, dropout: float = 0.1) -> None:
        if not 0 < dropout < 1:
            raise ConfigError("dropout", f"expected a number between 0 and 1, got {dropout}")
        model = json.loads(core.to_str())["model"]
        ids: dict[str, int] = model["vocab"]
        self.settings = {"dropout": dropout}
        self._core = core
        self._log_dropout = math.log(dropout)
        self._ids = {token: i for token, i in ids.items() if len(token) == 1}
        self._merges = {
            (ids[left], ids[right]): (rank, ids[left + right]) for rank, (left, right) in enumerate(model["merges"])
        }
        self._words: dict[str, _State] = {}
        self._states: dict[tuple[int, ...], _State] = {}

    def sample(self, text: str, key: str) -> list[int]:
        words = cut_words(self._core, text)
        skips = np.log(uniform(key, sum(map(len, words)))) / self._log_dropout
        dropped = iter(np.minimum(skips, 1e9).astype(np.int64).tolist())
        return [token for word in words for token in self._walk(self._words.get(word) or self._begin(word), dropped)]

    def _walk(self, state: _State, dropped: Iterator[int]) -> tuple[int, ...]:
        while (skipped := next(dropped)) < len(state.following):
            state = state.following[skipped] or self._merge(state, skipped)
        return state.tokens

    def _begin(self, word: str) -> _State:
        if len(self._states) >= LARGEST_MEMORY:
            self._words.clear()
            self._states.clear()
        state = self._words[word] = self._state(tuple(self._ids[character] for character in word))
        return state

    def _merge(self, state: _State, which: int) -> _State:
        _, position, merged = state.merges[which]
        following = self._state((*state.tokens[:position], merged, *state.tokens[position + 2 :]))
        state.following[which] = following
        return following

    def _state(self, tokens: tuple[int, ...]) -> _State:
        if (cached := self._states.get(tokens)) is not None:
            return cached
        pairs = ((position, self._merges.get(pair)) for position, pair in enumerate(pairwise(tokens)))
        merges = sorted((merge[0], position, merge[1]) for position, merge in pairs if merge)
        state = self._states[tokens] = _State(tokens, merges, [None] * len(merges))
        return state


Choices = tuple[list[float], list[tuple[int, int]]]
"""Ways to end a piece at a place: running sums of their probabilities, and (start, id) of each."""


class UnigramSampling:
    """Cuts drawn from the unigram model, each with probability proportional to P(cut)^alpha (Kudo 2018).

    Forward, the weights of all cuts up to each place are summed; backward, pieces are drawn from the end. What the
    forward pass finds about a word is remembered.
    """

    def __init__(self, core: Core, alpha: float = 0.2) -> None:
        if not alpha > 0:
            raise ConfigError("alpha", f"expected a positive number, got {alpha}")
        pieces = json.loads(core.to_str())["model"]["vocab"]
        specials = core.get_added_tokens_decoder()
        self.settings = {"alpha": alpha}
        self._core = core
        self._weights = {piece: (i, alpha * score) for i, (piece, score) in enumerate(pieces) if i not in specials}
        self._longest = max(map(len, self._weights))
        self._lattices: dict[str, list[Choices]] = {}

    def sample(self, text: str, key: str) -> list[int]:
        words = cut_words(self._core, text)
        uniforms = iter(uniform(key, sum(map(len, words))).tolist())
        return [token for word in words for token in self._walk(self._lattice(word), uniforms)]

    def _walk(self, lattice: list[Choices], uniforms: Iterator[float]) -> list[int]:
        tokens: list[int] = []
        end = len(lattice) - 1
        while end:
            sums, pieces = lattice[end]
            end, token = pieces[min(bisect_right(sums, next(uniforms)), len(pieces) - 1)]
            tokens.append(token)
        return tokens[::-1]

    def _lattice(self, word: str) -> list[Choices]:
        """For each place of a word, the pieces that can end there and how likely each is."""
        if (cached := self._lattices.get(word)) is not None:
            return cached
        totals, lattice = [0.0], list[Choices]([([], [])])
        for end in range(1, len(word) + 1):
            pieces, weights = list[tuple[int, int]](), list[float]()
            for start in range(max(0, end - self._longest), end):
                if piece := self._weights.get(word[start:end]):
                    pieces.append((start, piece[0]))
                    weights.append(totals[start] + piece[1])
            total = _log_sum(weights)
            totals.append(total)
            lattice.append((np.cumsum([math.exp(weight - total) for weight in weights]).tolist(), pieces))
        if len(self._lattices) >= LARGEST_MEMORY:
            self._lattices.clear()
        self._lattices[word] = lattice
        return lattice


def _log_sum(weights: list[float]) -> float:
    largest = max(weights)
    return largest + math.log(sum(math.exp(weight - largest) for weight in weights))


def cut_words(core: Core, text: str) -> list[str]:
    """The words that a tokenizer's model sees, after normalising."""
    if core.normalizer is not None:
        text = core.normalizer.normalize_str(text)
    return [word for word, _ in core.pre_tokenizer.pre_tokenize_str(text)]


def uniform(key: str, count: int) -> Float[np.ndarray, " count"]:
    """Random numbers between 0 and 1, both excluded, that depend on the key alone."""
    digest = shake_256(key.encode()).digest(4 * count)
    return (np.frombuffer(digest, dtype="<u4") + 0.5) / 2.0**32
