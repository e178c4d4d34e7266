"""Which examples make batch number s of epoch e: a pure function of (lengths, seed, e, s).

An epoch is planned as a whole, in about a second for a million examples, and the plan of the latest epoch is kept.
Resuming therefore needs no replay, and every process plans the same global batches and takes its own part of each.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import Protocol

import numpy as np
from jaxtyping import Int, Int64

from regard.errors import ConfigError, DataError

BUDGET = "train.tokens_per_batch"
FEWEST_POOLS = 4  # with fewer, a small corpus would make nearly the same batches in each epoch


@dataclass(frozen=True, eq=False)
class Epoch:
    """The batches of an epoch: batch s is `order[bounds[s] : bounds[s + 1]]`."""

    order: Int64[np.ndarray, " examples"]
    bounds: Int64[np.ndarray, " bounds"]

    def __len__(self) -> int:
        return len(self.bounds) - 1

    def __getitem__(self, step: int) -> Int64[np.ndarray, " rows"]:
        return self.order[self.bounds[step] : self.bounds[step + 1]]


class Plan(Protocol):
    """Plans whole examples into batches."""

    def num_batches(self, epoch: int) -> int:
        """How many batches an epoch has; it may differ a little from epoch to epoch."""
        ...

    def examples(self, epoch: int, step: int) -> Int64[np.ndarray, " rows"]:
        """The numbers of the examples in a batch."""
        ...


class _EpochPlan(ABC):
    """Keeps the plan of the latest epoch."""

    def __init__(
        self, lengths: Mapping[str, Int[np.ndarray, " examples"]], *, tokens_per_batch: int, seed: int
    ) -> None:
        self.lengths = np.stack([np.asarray(of_field, np.int64) for of_field in lengths.values()], axis=1)
        self.tokens_per_batch = tokens_per_batch
        self.seed = seed
        # two are kept, as whoever looks ahead is in both
        self._planned = lru_cache(maxsize=2)(self._plan_epoch)
        require_examples(self.lengths)
        require_fits(self.lengths, tokens_per_batch)

    def _plan_epoch(self, epoch: int) -> Epoch:
        return self._plan(np.random.default_rng([self.seed, epoch]))

    def num_batches(self, epoch: int) -> int:
        return len(self.epoch(epoch))

    def examples(self, epoch: int, step: int) -> Int64[np.ndarray, " rows"]:
        return self.epoch(epoch)[step]

    def epoch(self, epoch: int) -> Epoch:
        return self._planned(epoch)

    @abstractmethod
    def _plan(self, random: np.random.Generator) -> Epoch: ...


def require_examples(lengths: Int64[np.ndarray, "examples fields"]) -> None:
    """Refuses to plan batches of nothing."""
    if not len(lengths):
        raise DataError("data", "no examples are left to make batches of")


def require_fits(lengths: Int64[np.ndarray, "examples fields"], tokens_per_batch: int) -> None:
    """Refuses an example that is larger than a whole batch may be."""
    longest = lengths.max(axis=1)
    example = int(longest.argmax())
    if longest[example] > tokens_per_batch:
        raise ConfigError(
            BUDGET,
            f"example {example + 1:,} alone has {longest[example]:,} tokens, but a batch may have {tokens_per_batch:,};"
            " raise tokens_per_batch, or limit the length of examples",
        )


class BucketedPlan(_EpochPlan):
    """Examples of similar length share a batch, so that little is padded.

    The examples are shuffled and dealt into pools, each pool is sorted by length and cut into batches, and the batches
    are shuffled. A batch costs its rows times the longest sequence in it: of the source or of the target, whichever is
    longer, as is the custom for translation. So no padded array of a batch exceeds the budget.
    """

    def __init__(
        self,
        lengths: Mapping[str, Int[np.ndarray, " examples"]],
        *,
        tokens_per_batch: int,
        seed: int = 0,
        pool: int = 50,
    ) -> None:
        super().__init__(lengths, tokens_per_batch=tokens_per_batch, seed=seed)
        self._sizes = np.maximum(self.lengths.max(axis=1), 1)
        pool_size = int(pool * tokens_per_batch / self._sizes.mean())
        self._pool = max(1, min(pool_size, -(-len(self._sizes) // FEWEST_POOLS)))

    def _plan(self, random: np.random.Generator) -> Epoch:
        order = random.permutation(len(self._sizes))
        order = order[np.argsort(self._sort_keys(order), kind="stable")]
        bounds = np.array([0, *self._cuts(self._sizes[order])], np.int64)
        return _shuffled(Epoch(order, bounds), random)

    def _sort_keys(self, order: Int64[np.ndarray, " examples"]) -> Int64[np.ndarray, " examples"]:
        """Pool first, then the longer field, then the sum of the fields, in one number."""
        sums = self.lengths.sum(axis=1)
        by_length = self._sizes * (sums.max() + 1) + sums
        pools = np.arange(len(order)) // self._pool
        return pools * (by_length.max() + 1) + by_length[order]

    def _cuts(self, sizes: Int64[np.ndarray, " examples"]) -> Iterator[int]:
        """Where each batch ends: as many rows as the budget holds, never across two pools."""
        counts = np.arange(1, self._pool + 1)
        start = 0
        while start < len(sizes):
            capacity = min(self.tokens_per_batch // int(sizes[start]), self._pool - start % self._pool)
            rows = sizes[start : start + capacity]
            start += int(np.searchsorted(rows * counts[: len(rows)], self.tokens_per_batch, side="right"))
            yield start


class PackedPlan(_EpochPlan):
    """Examples stand one after another in a single row: nothing is padded, and rows are as full as can be.

    The examples are shuffled and put into batches by first fit, several batches being open at a time. The tokens of
    every field alone stay within the budget.
    """

    def __init__(
        self,
        lengths: Mapping[str, Int[np.ndarray, " examples"]],
        *,
        tokens_per_batch: int,
        seed: int = 0,
        window: int = 8,
    ) -> None:
        super().__init__(lengths, tokens_per_batch=tokens_per_batch, seed=seed)
        self._window = window

    def _plan(self, random: np.random.Generator) -> Epoch:
        order = random.permutation(len(self.lengths))
        batches = first_fit(self.lengths[order], self.tokens_per_batch, self._window)
        bounds = np.cumsum([0, *map(len, batches)], dtype=np.int64)
        packed = np.fromiter(chain.from_iterable(batches), np.int64, len(order))
        return _shuffled(Epoch(order[packed], bounds), random)


LANE = 32  # bits for each field in the numbers below


def first_fit(lengths: Int64[np.ndarray, "examples fields"], budget: int, window: int) -> list[list[int]]:
    """Puts each example into the first open batch with room; when none has room, a new one takes the oldest's place.

    What a batch has left of each field is kept in one whole number, a lane of bits for each field, with a guard bit on
    top of each lane: a subtraction that clears a guard does not fit. A million examples take about a second.
    """
    lanes = [LANE * field for field in range(lengths.shape[1])]
    guards = sum(1 << (lane + LANE - 1) for lane in lanes)
    empty = guards + sum(budget << lane for lane in lanes)
    needs: list[int] = [0] * len(lengths)
    for lane, of_field in zip(lanes, lengths.T.tolist(), strict=True):
        needs = [need + (length << lane) for need, length in zip(needs, of_field, strict=True)]
    closed: list[list[int]] = []
    opened: list[list[int]] = []
    left: list[int] = []
    for example, need in enumerate(needs):
        for batch, capacity in enumerate(left):
            if (rest := capacity - need) & guards == guards:
                left[batch] = rest
                opened[batch].append(example)
                break
        else:
            if len(opened) == window:
                closed.append(opened.pop(0))
                left.pop(0)
            left.append(empty - need)
            opened.append([example])
    return closed + opened


def _shuffled(epoch: Epoch, random: np.random.Generator) -> Epoch:
    """The same batches in random order."""
    sequence = random.permutation(len(epoch))
    sizes = np.diff(epoch.bounds)[sequence]
    bounds = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    moves = np.repeat(epoch.bounds[:-1][sequence] - bounds[:-1], sizes)
    return Epoch(epoch.order[np.arange(len(epoch.order)) + moves], bounds)


def shard(tokens: Int[np.ndarray, " rows"], rank: int, world: int) -> slice:
    """The rows of a batch that one of `world` processes takes: contiguous, about equal in tokens.

    The parts of all processes together are the batch. Each has at least one row while there are enough rows.
    """
    ends = np.cumsum(tokens)
    total = int(ends[-1]) if len(ends) else 0
    shares = total * np.arange(1, world) / world
    middles = ends - np.asarray(tokens) / 2
    cuts = np.searchsorted(middles, shares)
    if len(tokens) >= world:
        cuts = np.clip(cuts, np.arange(1, world), len(tokens) - np.arange(world - 1, 0, -1))
        cuts = _strictly_rising(cuts)
    bounds = [0, *cuts.tolist(), len(tokens)]
    return slice(bounds[rank], bounds[rank + 1])


def _strictly_rising(cuts: Int[np.ndarray, " cuts"]) -> Int[np.ndarray, " cuts"]:
    """Moves equal cuts apart; there is room, as each lies at least as far from both ends as its number asks."""
    numbers = np.arange(len(cuts))
    return np.maximum.accumulate(cuts - numbers) + numbers
