"""Power laws: L = E + Σ_j A_j·x_j^−α_j, fitted to losses by least squares in log space, with bootstrap intervals.

With one x this is the law of loss against parameters, tokens or compute (Kaplan 2020); with parameters and tokens
together it is that of Hoffmann 2022, from which a run not yet made can be forecast.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product

import numpy as np
from numpy.typing import NDArray

from regard.errors import DataError

Array = NDArray[np.float64]
FLOORS = (0.05, 0.5, 0.9)
"""Where fitting starts: E as shares of the lowest loss."""
EXPONENTS = (0.1, 0.3, 0.8)
"""Where fitting starts: α."""
STEPS = 200


@dataclass(frozen=True)
class PowerLaw:
    """A fitted law, and others that fit resampled losses as well as it fits these."""

    floor: float
    """E: the loss that is left however large x grows."""
    factors: tuple[float, ...]
    """A_j."""
    exponents: tuple[float, ...]
    """α_j."""
    residuals: tuple[float, ...]
    """log(measured) − log(fitted)."""
    resampled: tuple["PowerLaw", ...] = field(default=(), repr=False)

    def __call__(self, *x: float) -> float:
        """The loss at x."""
        return self.floor + sum(a * at**-e for a, at, e in zip(self.factors, x, self.exponents, strict=True))

    def exponent_interval(self, number: int = 0, level: float = 0.95) -> tuple[float, float]:
        """Where an exponent lies in `level` of all resamples."""
        return _interval([law.exponents[number] for law in self.resampled], level)

    def forecast_interval(self, *x: float, level: float = 0.95, seed: int = 1) -> tuple[float, float]:
        """Where a new loss at x is expected: the law is uncertain, and a run scatters around it."""
        random = np.random.default_rng(seed)
        return _interval([law(*x) * float(np.exp(_noise(self, 1, random)[0])) for law in self.resampled], level)


def fit(x: Sequence[Sequence[float]], losses: Sequence[float], *, samples: int = 200, seed: int = 1) -> PowerLaw:
    """The law of losses at points x; intervals by resampling with noise of the residuals' size."""
    points, measured = np.asarray(x, dtype=np.float64), np.asarray(losses, dtype=np.float64)
    _refuse_few(points, measured)
    centre = np.log(points).mean(0)
    z = np.log(points) - centre
    best = min((_descend(start, z, np.log(measured)) for start in _starts(z, measured)), key=lambda fitted: fitted[1])[
        0
    ]
    law = _law(best, centre, z, measured)
    random, fitted = np.random.default_rng(seed), np.log(measured) - np.asarray(law.residuals)
    resampled = []
    for _ in range(samples):
        drawn = fitted + _noise(law, len(fitted), random)
        theta, _ = _descend(best, z, drawn)
        resampled.append(_law(theta, centre, z, np.exp(drawn)))
    return PowerLaw(law.floor, law.factors, law.exponents, law.residuals, tuple(resampled))


def _refuse_few(points: Array, measured: Array) -> None:
    needed = 2 + 2 * points.shape[1]  # one more than the fitted parameters, or there are no residuals
    if len(points) < needed or any(len(np.unique(column)) < 3 for column in points.T):
        raise DataError("scaling", f"a law needs at least {needed} runs and 3 different sizes, got {len(points)} runs")
    if not (np.isfinite(measured).all() and (measured > 0).all() and (points > 0).all()):
        raise DataError("scaling", "a law needs losses and sizes that are finite and above zero")


def _starts(z: Array, measured: Array) -> list[Array]:
    """Parameters (log E, log A_j …, α_j …) on a grid of floors and exponents, the rest of the loss shared out."""
    number = z.shape[1]
    starts = []
    for share, exponents in product(FLOORS, product(EXPONENTS, repeat=number)):
        rest = np.log(np.exp(np.log(measured).mean()) - share * measured.min()) - np.log(number)
        starts.append(np.array([np.log(share * measured.min()), *[rest] * number, *exponents]))
    return starts


def _terms(theta: Array, z: Array) -> Array:
    """E and each A_j·x_j^−α_j at every point: [points, 1 + j]."""
    number = z.shape[1]
    logs = np.column_stack([np.full(len(z), theta[0]), theta[1 : 1 + number] - theta[1 + number :] * z])
    return np.exp(np.clip(logs, -50, 50))


def _descend(theta: Array, z: Array, logs: Array) -> tuple[Array, float]:
    """Levenberg–Marquardt on the squared error in log space; returns the parameters and their error."""
    damping = 1e-2
    terms = _terms(theta, z)
    error = np.log(terms.sum(1)) - logs
    for _ in range(STEPS):
        shares = terms / terms.sum(1, keepdims=True)
        jacobian = np.column_stack([shares, -shares[:, 1:] * z])
        square, gradient = jacobian.T @ jacobian, jacobian.T @ error
        step = np.linalg.lstsq(square + damping * np.diag(np.diag(square)), -gradient, rcond=None)[0]
        ahead = _terms(theta + step, z)
        error_ahead = np.log(ahead.sum(1)) - logs
        if error_ahead @ error_ahead < error @ error:
            theta, terms, error, damping = theta + step, ahead, error_ahead, max(1e-12, damping / 3)
            if np.abs(step).max() < 1e-10:
                break
        elif damping > 1e10:
            break
        else:
            damping *= 4
    return theta, float(error @ error)


def _law(theta: Array, centre: Array, z: Array, measured: Array) -> PowerLaw:
    number = z.shape[1]
    exponents = theta[1 + number :]
    factors = np.exp(np.clip(theta[1 : 1 + number] + exponents * centre, -700, 700))
    residuals = np.log(measured) - np.log(_terms(theta, z).sum(1))
    floor = float(np.exp(max(theta[0], -50.0)))
    return PowerLaw(floor, tuple(map(float, factors)), tuple(map(float, exponents)), tuple(map(float, residuals)))


def _noise(law: PowerLaw, count: int, random: np.random.Generator) -> Array:
    """What other runs at the same places might have had instead of these residuals.

    Few residuals say little about how large noise is, so its size is drawn as well: intervals are as wide as Student's.
    """
    free = len(law.residuals) - 1 - 2 * len(law.exponents)
    size = np.sqrt(np.square(law.residuals).sum() / random.chisquare(free))
    return random.normal(0.0, size, count)


def _interval(values: Sequence[float], level: float) -> tuple[float, float]:
    low, high = np.quantile(values, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def front(compute: Sequence[float], losses: Sequence[float]) -> list[int]:
    """The compute-optimal runs, cheapest first: no run that costs as much or less has a lower loss."""
    order = sorted(range(len(losses)), key=lambda number: (compute[number], losses[number]))
    best, chosen = np.inf, []
    for number in order:
        if losses[number] < best:
            best = losses[number]
            chosen.append(number)
    return chosen
