"""What measurements share: thoroughness, seeds, one trained translator, and timing."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch

from regard.errors import ConfigError
from regard.run import Run
from regard.run.demo import demo_recipe
from regard.run.recipe import Recipe
from regard.run.training import train_run
from regard.tasks import Translation
from regard.train.monitor import Quiet

Choice = TypeVar("Choice")
QUICK = ("train.steps=8", "model.width=32", "model.depth=2", "data.train.street=valid", "tokenizer.size=1000")


@dataclass(frozen=True)
class Setup:
    """How to measure. Quick measurements take seconds and run every line, but prove nothing."""

    work: Path
    """Folder of the runs that are trained for a measurement."""
    quick: bool = False
    seed: int = 1
    run: Path | None = None
    """A trained translator of the embedded corpus; if None, one is trained."""
    say: Callable[[str], None] = field(default=lambda sentence: None)
    """Called with a sentence before something that takes long."""

    def pick(self, thorough: Choice, quick: Choice) -> Choice:
        """One of two settings, by how thorough the measurement is."""
        return quick if self.quick else thorough

    def seeded(self, extra: int = 0) -> torch.Generator:
        """Seeds torch and returns a seeded generator, so that a measurement does not depend on those before it."""
        torch.manual_seed(1000 * self.seed + extra)
        return torch.Generator().manual_seed(1000 * self.seed + extra)

    @cached_property
    def translator(self) -> Run:
        """A Transformer that translates the embedded corpus: `run`, or one that is trained at the first use."""
        if self.run is not None:
            run = Run.open(self.run, "cpu")
            if not isinstance(run.task, Translation):
                raise ConfigError("--run", f"{self.run} is a run of {run.recipe.task.kind}, expected translation")
            return run
        settings = self.pick(("train.steps=1600",), QUICK)
        return self.trained("translator", demo_recipe([f"seed={self.seed}", "train.device=cpu", *settings]))

    def trained(self, name: str, recipe: Recipe) -> Run:
        """Trains a recipe into the working folder."""
        self.say(f"training {name}")
        train_run(recipe, self.work / name, Quiet())
        return Run.open(self.work / name, "cpu")


def fastest(function: Callable[[], object], repeats: int = 5, warmup: int = 1) -> float:
    """Seconds of the fastest repeat: other load on the machine can only add to it."""
    for _ in range(warmup):
        function()
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def exponent(sizes: Sequence[float], values: Sequence[float]) -> float:
    """The exponent of a power law fitted to the values: 1 is linear growth, 2 quadratic."""
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])


def growth_rate(sizes: Sequence[float], values: Sequence[float]) -> float:
    """The growth per unit of size, by a least-squares line."""
    return float(np.polyfit(sizes, values, 1)[0])
