"""Random numbers by the counter alone (SplitMix64): no state, any order, all at once.

What is drawn for an example follows from (seed, epoch, example): resumed runs and any number of processes draw alike.
"""

import numpy as np
from jaxtyping import Float, Int, UInt64


def keys(examples: Int[np.ndarray, " examples"], *, seed: int, epoch: int) -> UInt64[np.ndarray, " examples"]:
    """What the numbers of each example are counted from."""
    with np.errstate(over="ignore"):
        return mixed(mixed(np.uint64(seed) + mixed(np.uint64(epoch))) + np.asarray(examples, np.uint64))


def numbers(keys: UInt64[np.ndarray, "*any"], counts: Int[np.ndarray, "*other"]) -> Float[np.ndarray, "*both"]:
    """Numbers from 0 to below 1, each from a key and a count."""
    with np.errstate(over="ignore"):
        drawn = mixed(keys + np.asarray(counts, np.uint64))
    return (drawn >> np.uint64(11)).astype(np.float64) * 2.0**-53


def uniforms(
    examples: Int[np.ndarray, " examples"], count: int, *, seed: int, epoch: int
) -> Float[np.ndarray, "examples count"]:
    """So many numbers for each example."""
    return numbers(keys(examples, seed=seed, epoch=epoch)[:, None], np.arange(1, count + 1)[None])


def mixed(x: np.ndarray | np.uint64) -> np.ndarray:
    """SplitMix64's step: numbers one apart come out unlike."""
    x = np.asarray(x, np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
