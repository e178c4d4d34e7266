"""Steppers whose every sequence can be enumerated, and that are as unforgiving as a static key/value cache."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product

import torch
from torch import Tensor

from regard.nn.layout import Sequences

CONTEXTS = 997
BOS, EOS = 0, 1


@dataclass
class Cache:
    """The hash of what was fed to each row, written in place; a cache that was reordered away is poisoned."""

    hashes: Tensor
    lengths: Tensor
    capacity: int
    alive: bool = True


class HashStepper:
    """Logits depend on the whole history of a row, and on its source, through a hash into a random table.

    Any mistake in reordering shows: the logits are then those of another history. Integer hashes and a table look-up
    are exact, so that a row's logits are the same bits in any batch.
    """

    def __init__(self, vocab: int = 5, seed: int = 0, spread: float = 2.0, dtype: torch.dtype = torch.float32):
        generator = torch.Generator().manual_seed(seed)
        self.table = (torch.randn(CONTEXTS, vocab, generator=generator) * spread).to(dtype)
        self.vocab = vocab
        self.batches: list[int] = []

    def start(self, source: Sequences | None, *, rows: int, capacity: int) -> Cache:
        where = self.table.device
        hashes = torch.ones(rows, dtype=torch.long, device=where)
        if source is not None:
            pairs = zip(source.tokens.tolist(), source.layout.lengths.tolist(), strict=True)
            hashes = torch.tensor([self.hashed(row[:length], 7) for row, length in pairs], device=where)
        assert len(hashes) == rows
        return Cache(hashes, torch.zeros_like(hashes), capacity)

    def step(self, tokens: Tensor, state: Cache, lengths: Tensor | None = None) -> tuple[Tensor, Cache]:
        assert state.alive, "a state was used after it had been reordered"
        rows, time = tokens.shape
        assert rows == len(state.hashes), "tokens and state have different numbers of rows"
        self.batches.append(rows)
        logits = self.table.new_full((rows, time, self.vocab), torch.nan)
        advance = torch.full_like(state.lengths, time) if lengths is None else lengths
        state.lengths += advance
        assert int(state.lengths.max()) <= state.capacity, "more tokens were fed than there was room for"
        for place in range(time):
            fed = place < advance
            state.hashes[fed] = (state.hashes[fed] * 31 + tokens[fed, place] + 1) % CONTEXTS
            logits[fed, place] = self.table[state.hashes[fed]]
        return logits, state

    def reorder(self, state: Cache, rows: Tensor) -> Cache:
        assert state.alive, "a state was reordered twice"
        new = Cache(state.hashes[rows], state.lengths[rows], state.capacity)
        state.hashes.fill_(CONTEXTS - 1)
        state.alive = False
        return new

    def hashed(self, tokens: Sequence[int], start: int = 1) -> int:
        for token in tokens:
            start = (start * 31 + token + 1) % CONTEXTS
        return start

    def logprobs(self, given: Sequence[int], tokens: Sequence[int], source: Sequence[int] | None = None) -> list[float]:
        """The log-probability of each token after what is given, without any state."""
        start = 1 if source is None else self.hashed(source, 7)
        contexts = [self.hashed([*given, *tokens[:place]], start) for place in range(len(tokens))]
        return [self.likelihoods(context)[token] for context, token in zip(contexts, tokens, strict=True)]

    @cache  # noqa: B019
    def likelihoods(self, context: int) -> list[float]:
        return self.table[context].float().log_softmax(-1).tolist()


class FlatStepper(HashStepper):
    """All tokens equally likely everywhere: nothing but the rule for ties decides."""

    def __init__(self, vocab: int = 5):
        super().__init__(vocab)
        self.table.zero_()


def finished_sequences(vocab: int, longest: int, banned: Sequence[int] = (BOS,), eos: int = EOS) -> Iterator[list[int]]:
    """Every sequence of at most `longest` tokens that ends with its end token."""
    inner = [token for token in range(vocab) if token != eos and token not in banned]
    for length in range(longest):
        for tokens in product(inner, repeat=length):
            yield [*tokens, eos]


def divisor(length: int, alpha: float, formula: str) -> float:
    return (length if formula == "power" else (5 + length) / 6) ** alpha


def slow_beam(
    stepper: HashStepper,
    given: Sequence[int],
    *,
    source: Sequence[int] | None = None,
    size: int,
    n_best: int,
    alpha: float,
    formula: str,
    longest: int,
    min_length: int = 0,
) -> list[tuple[list[int], float, bool]]:
    """Beam search in plain lists, written to be obvious; it never stops early."""
    beam: list[tuple[list[int], float]] = [([], 0.0)]
    done: list[tuple[list[int], float, bool]] = []
    for length in range(1, longest + 1):
        candidates = []
        for tokens, total in beam:
            for token in range(stepper.vocab):
                if token == BOS or (token == EOS and length - 1 < min_length):
                    continue
                candidates.append(([*tokens, token], total + stepper.logprobs(given, [*tokens, token], source)[-1]))
        candidates.sort(key=lambda candidate: -candidate[1])
        kept = candidates[: size - len(done)]
        done += [(tokens, total / divisor(length, alpha, formula), True) for tokens, total in kept if tokens[-1] == EOS]
        beam = [(tokens, total) for tokens, total in kept if tokens[-1] != EOS]
    done += [(tokens, total / divisor(longest, alpha, formula), False) for tokens, total in beam]
    done.sort(key=lambda found: (not found[2], -found[1]))
    return done[:n_best]


def close(left: float, right: float) -> bool:
    return math.isclose(left, right, rel_tol=1e-5, abs_tol=1e-5)
