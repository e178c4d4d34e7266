"""Wall time on a machine that others use too: the fastest of several repeats, and how time grows with a size."""

import time
from collections.abc import Callable, Sequence

import numpy as np


def fastest(work: Callable[[], object], repeats: int = 5, warm: int = 1) -> float:
    """Seconds of the fastest repeat: whatever else the machine does can only add to it."""
    for _ in range(warm):
        work()
    seconds = []
    for _ in range(repeats):
        began = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - began)
    return min(seconds)


def exponent(sizes: Sequence[float], values: Sequence[float]) -> float:
    """The slope of a straight line through logarithms: 1 where a value grows with its size, 2 with its square."""
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])


def slope(sizes: Sequence[float], values: Sequence[float]) -> float:
    """The slope of a straight line: how much a value grows for one more."""
    return float(np.polyfit(sizes, values, 1)[0])
