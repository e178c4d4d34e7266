"""What measurements share: how thorough they are, their seed, and one trained translator for all that look at one."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TypeVar

import torch

from regard.errors import ConfigError
from regard.run import Run
from regard.run.demo import demo_recipe
from regard.run.recipe import Recipe
from regard.run.training import train_run
from regard.tasks import Translation
from regard.train.monitor import Quiet as Quiet

Choice = TypeVar("Choice")
QUICK = ("train.steps=8", "model.width=32", "model.depth=2", "data.train.street=valid", "tokenizer.size=1000")


@dataclass(frozen=True)
class Setup:
    """How to measure. Quick measurements take seconds, run every line, and prove nothing."""

    work: Path
    """A folder for what is trained on the way."""
    quick: bool = False
    seed: int = 1
    run: Path | None = None
    """A trained translator of the embedded corpus; one is trained when left out."""
    say: Callable[[str], None] = field(default=lambda sentence: None)
    """Told what takes its time."""

    def pick(self, thorough: Choice, quick: Choice) -> Choice:
        """One of two settings, by how thorough the measurement is."""
        return quick if self.quick else thorough

    def seeded(self, extra: int = 0) -> torch.Generator:
        """A generator of its own for a measurement, so that no other measurement changes its numbers."""
        torch.manual_seed(1000 * self.seed + extra)
        return torch.Generator().manual_seed(1000 * self.seed + extra)

    @cached_property
    def translator(self) -> Run:
        """A Transformer that translates the embedded corpus: the run that was given, or one trained now, once."""
        if self.run is not None:
            run = Run.open(self.run, "cpu")
            if not isinstance(run.task, Translation):
                raise ConfigError("--run", f"{self.run} is a run of {run.recipe.task.kind}, expected translation")
            return run
        settings = self.pick(("train.steps=1600",), QUICK)
        return self.trained("translator", demo_recipe([f"seed={self.seed}", "train.device=cpu", *settings]))

    def trained(self, name: str, recipe: Recipe) -> Run:
        """What a recipe gives, trained into the working folder."""
        self.say(f"training {name}")
        train_run(recipe, self.work / name, Quiet())
        return Run.open(self.work / name, "cpu")
