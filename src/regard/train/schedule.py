"""Learning-rate schedules: Noam, cosine, linear, constant, each a pure function of where training stands.

    rate(step, progress)    step       the step about to be taken, counted from 1
                            progress   how much of the budget is used, from 0 to 1

Warm-up counts steps, or is a share of the budget. Decay follows progress: it ends with the budget, whether that is in
steps, epochs, minutes, FLOPs or tokens; with a budget in steps and progress = step / steps it is the usual formula.
"""

import math
from dataclasses import dataclass
from typing import Annotated, Literal, Protocol

from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt, model_validator

from regard.config import Family, refuse

Share = Annotated[float, Field(ge=0, le=1)]
Warmup = NonNegativeInt | Annotated[float, Field(gt=0, lt=1)]
"""Steps, or a share of the budget."""
FEWEST_STEPS = 20
"""A warm-up that is a share has at least so many steps, however soon time passes: the first one may compile a model."""


class Schedule(Protocol):
    """A learning rate for every step."""

    def rate(self, step: int, progress: float) -> float:
        """The learning rate of a step, counted from 1, when this share of the budget is used."""
        ...


class ScheduleConfig(Family):
    """What all schedules share."""

    lr: PositiveFloat = 1e-3
    """The highest learning rate."""
    warmup: Warmup = 0
    """Steps of a straight rise to it, or a share of the budget such as 0.1."""

    def build(self, width: int) -> Schedule:
        """The schedule for a model of this width."""
        raise TypeError(f"{type(self).__name__} must build its schedule")


class NoamConfig(ScheduleConfig):
    """lr · min(step/warmup, √(warmup/step)): up in a line, down as an inverse square root (Vaswani 2017)."""

    kind: Literal["noam"] = "noam"
    warmup: PositiveInt = 4000  # type: ignore[assignment]  # it counts steps whatever the budget is
    """Steps of a straight rise; the longer it is, the slower the fall."""
    by_width: bool = False
    """Multiply by (width · warmup)^−½: with lr = 1 the paper's width^−½ · min(step^−½, step · warmup^−1.5)."""

    @model_validator(mode="after")
    def _lr_is_a_factor(self) -> "NoamConfig":
        if self.by_width and self.lr < 0.01:
            raise refuse("lr", f"is a factor on the paper's formula when by_width is on, about 1; got {self.lr:g}")
        return self

    def build(self, width: int) -> "Noam":
        """The schedule for a model of this width."""
        return Noam(self.lr * ((width * self.warmup) ** -0.5 if self.by_width else 1.0), self.warmup)


@dataclass(frozen=True)
class Noam:
    """lr · min(step/warmup, √(warmup/step))."""

    lr: float
    warmup: int = 4000

    def rate(self, step: int, progress: float = 0.0) -> float:
        """The same whatever the budget is."""
        return self.lr * min(step / self.warmup, math.sqrt(self.warmup / step))


class CosineConfig(ScheduleConfig):
    """After warm-up half a cosine wave down to the floor."""

    kind: Literal["cosine"] = "cosine"
    floor: Share = 0.1
    """Share of lr that is left at the end."""

    def build(self, width: int) -> "Cosine":
        """The schedule, the same for all widths."""
        return Cosine(self.lr, self.warmup, self.floor)


@dataclass(frozen=True)
class Cosine:
    """lr · (floor + (1 − floor)·(1 + cos πd)/2) after warm-up, d the share of the decay that is over."""

    lr: float
    warmup: float = 0
    floor: float = 0.1

    def rate(self, step: int, progress: float) -> float:
        """Up in a line, down in a wave."""
        wave = (1 + math.cos(math.pi * decayed(step, progress, self.warmup))) / 2
        return self.lr * risen(step, progress, self.warmup) * (self.floor + (1 - self.floor) * wave)


class LinearConfig(ScheduleConfig):
    """After warm-up a straight line down to the floor."""

    kind: Literal["linear"] = "linear"
    floor: Share = 0.0
    """Share of lr that is left at the end."""

    def build(self, width: int) -> "Linear":
        """The schedule, the same for all widths."""
        return Linear(self.lr, self.warmup, self.floor)


@dataclass(frozen=True)
class Linear:
    """lr · (1 − (1 − floor)·d) after warm-up, d the share of the decay that is over."""

    lr: float
    warmup: float = 0
    floor: float = 0.0

    def rate(self, step: int, progress: float) -> float:
        """Up in a line, down in a line."""
        left = 1 - decayed(step, progress, self.warmup)
        return self.lr * risen(step, progress, self.warmup) * (self.floor + (1 - self.floor) * left)


class ConstantConfig(ScheduleConfig):
    """After warm-up always the same."""

    kind: Literal["constant"] = "constant"

    def build(self, width: int) -> "Constant":
        """The schedule, the same for all widths."""
        return Constant(self.lr, self.warmup)


@dataclass(frozen=True)
class Constant:
    """lr after warm-up."""

    lr: float
    warmup: float = 0

    def rate(self, step: int, progress: float = 0.0) -> float:
        """Up in a line, then level."""
        return self.lr * risen(step, progress, self.warmup)


def risen(step: int, progress: float, warmup: float) -> float:
    """The share of the warm-up that is over once this step is taken."""
    if not warmup:
        return 1.0
    if warmup >= 1:
        return min(1.0, step / warmup)
    begun = progress * step / (step - 1) if step > 1 else 0.0  # as steps cost about the same
    return min(1.0, max(begun / warmup, 1 / FEWEST_STEPS), step / FEWEST_STEPS)


def decayed(step: int, progress: float, warmup: float) -> float:
    """The share of the decay that is over: 0 until the end of the warm-up, 1 at the end of the budget.

    A warm-up of w steps used up the part w/step of the progress so far, p·w/s, as steps cost about the same; what is
    left of the budget goes from there to 1: d = (p − p·w/s) / (1 − p·w/s). It never falls while step and progress rise.
    """
    spent = min(max(progress, 0.0), 1.0)
    if 0 < warmup < 1:
        return max(0.0, (spent - warmup) / (1 - warmup))
    if step <= warmup:
        return 0.0
    before = spent * warmup / step
    return (spent - before) / (1 - before)
