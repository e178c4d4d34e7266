"""How numbers of a run develop: smoothed losses, speeds, and a small picture of the last validations."""

import time
from collections.abc import Callable, Mapping, Sequence
from math import isfinite
from typing import Any

from regard.metrics.registry import METRICS

LEVELS, ASCII_LEVELS = "▁▂▃▄▅▆▇█", "_.-:=+*#"
SHOWN = 8
"""Validations in a trend."""
SCORES = 3
"""Most scores in a line; metrics.jsonl has all of them."""
SMOOTHED_STEPS = 50
"""About so many steps count in a smoothed loss."""
SECONDS_OF_SPEED = 5.0


class SmoothedLoss:
    """An exponential moving average of the losses of steps, corrected for its beginning."""

    def __init__(self, steps: int = SMOOTHED_STEPS) -> None:
        self.decay = 1 - 1 / steps
        self._sum = self._weight = 0.0

    def add(self, loss: float) -> float:
        """The average with one loss more; one that is no number is passed over."""
        if isfinite(loss):
            self._sum = self.decay * self._sum + (1 - self.decay) * loss
            self._weight = self.decay * self._weight + (1 - self.decay)
        return self.value

    @property
    def value(self) -> float:
        """The average so far."""
        return self._sum / self._weight if self._weight else float("nan")


class Speed:
    """Tokens per second of the last few seconds of training; pauses for validations are left out."""

    def __init__(self, time_source: Callable[[], float] = time.monotonic) -> None:
        self._time_source = time_source
        self._since: tuple[float, int] | None = None
        self._speed: float | None = None

    def add(self, tokens: int) -> float | None:
        """The speed, once it is known, when so many tokens have been seen altogether."""
        now = self._time_source()
        if self._since is None:
            self._since = now, tokens
        took = now - self._since[0]
        if took >= SECONDS_OF_SPEED or (self._speed is None and took > 0):
            speed = (tokens - self._since[1]) / took
            if took >= SECONDS_OF_SPEED:
                self._since, self._speed = (now, tokens), speed
            return speed
        return self._speed

    def pause(self) -> None:
        """Time until the next step does not count."""
        self._since = None


def sparkline(values: Sequence[float], unicode: bool = True) -> str:
    """The last values as a row of bars from the lowest to the highest; empty for fewer than two."""
    shown = [value for value in values if isfinite(value)][-SHOWN:]
    if len(shown) < 2:
        return ""
    low, high = min(shown), max(shown)
    levels = LEVELS if unicode else ASCII_LEVELS
    scale = (len(levels) - 1) / (high - low) if high > low else 0.0
    return "".join(levels[round((value - low) * scale)] for value in shown)


def verdict(values: Sequence[float], metric: str, unicode: bool = True) -> str:
    """How the last value stands beside those before it: best so far, or better or worse than the one before."""
    if len(values) < 2 or not isfinite(values[-1]):
        return ""
    better, (*before, last) = METRICS[metric].better, values
    finite = [value for value in before if isfinite(value)]
    up, down = ("↑", "↓") if unicode else ("^", "v")
    arrow = "" if not finite or last == finite[-1] else up if last > finite[-1] else down
    if all(better(last, value) for value in finite):
        return f"{arrow} best so far".lstrip()
    if last == finite[-1]:
        return "as before"
    return f"{arrow} {'better' if better(last, finite[-1]) else 'worse'}"


def shown_scores(line: Mapping[str, Any], metric: str, most: int = SCORES) -> str:
    """The scores of a line: the loss, the one that chooses the best checkpoint, then others."""
    names = sorted((name for name in line if name in METRICS), key=lambda name: (name != "loss", name != metric))
    return ", ".join(shown_value(name, line[name]) for name in names[:most])


def shown_value(name: str, value: float) -> str:
    """A score with its name, as people read it: loss 1.813, accuracy 84.1%, BLEU 23.4."""
    metric = METRICS[name]
    text = f"{value:.1%}" if metric.percent else f"{value:.{metric.digits}f}"
    return f"{metric.label} {text}"
