"""Drawing at random, the same on every machine and in every version of Python."""

import random
from collections.abc import Sequence
from typing import TypeVar

Item = TypeVar("Item")


class Draw:
    """A seeded source of choices. Only `random()` is promised never to change, so all rests on it."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed).random

    def one(self, items: Sequence[Item]) -> Item:
        """One of the items, each equally often."""
        return items[int(self._random() * len(items))]

    def two(self, items: Sequence[Item]) -> tuple[Item, Item]:
        """Two different ones, in random order."""
        first = int(self._random() * len(items))
        step = 1 + int(self._random() * (len(items) - 1))
        return items[first], items[(first + step) % len(items)]

    def chance(self, probability: float) -> bool:
        """True this often."""
        return self._random() < probability

    def between(self, low: int, high: int) -> int:
        """A whole number from `low` to `high`, both included."""
        return low + int(self._random() * (high - low + 1))
