"""Trains small models one after the other in the processes that torchrun has started; each tells what it holds.

    torchrun --nproc-per-node 2 parallel_trials.py trials.json OUT

`trials.json` maps names to lists of recipes; a list's second recipe goes on where the first one stopped. OUT/NAME gets
the run, and OUT/NAME/held-RANK.json the bytes that each process held at the end.
"""

import json
import os
import sys
from pathlib import Path

from regard.run import trainer, training
from regard.run.recipe import resolve_recipe
from regard.train.loop import Trainer
from regard.train.monitor import Watcher
from regard.train.parallel.state import local_bytes

HELD: dict[str, int] = {}


class Counting(Trainer):
    """A trainer that says what its process holds at the end."""

    def fit(self) -> str:
        ended = super().fit()
        HELD.update(
            weights=local_bytes(self.model.parameters()),
            moments=local_bytes(self.optimiser.tensors().values()),
            gradients=local_bytes(p.grad for p in self.model.parameters() if p.grad is not None),
        )
        return ended


class Silent(Watcher):
    def step(self, line, progress): ...

    def measured(self, line): ...

    def say(self, sentence): ...


def main() -> None:
    trials, out = json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2])
    trainer.Trainer = Counting  # type: ignore[misc]
    for name, recipes in trials.items():
        for turn, recipe in enumerate(recipes):
            training.train_run(resolve_recipe(recipe), out / name, Silent(), resume=turn > 0 or (out / name).exists())
        (out / name / f"held-{os.environ.get('RANK', '0')}.json").write_text(json.dumps(HELD))


if __name__ == "__main__":
    main()
