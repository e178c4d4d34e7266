"""The first translation comes soon: nothing is loaded that only trainers, readers of tables or scores need."""

import subprocess
import sys
from pathlib import Path

from small_runs import translation

from regard.run.recipe import resolve_recipe
from regard.run.training import train_run
from regard.train.monitor import Watcher

NEEDLESS = ["pyarrow", "sacrebleu", "rouge_score", "matplotlib", "regard.train.loop", "regard.run.training"]
PROGRAM = """
import sys
from regard.cli import app
try:
    app()
finally:
    print([name for name in {needless} if name in sys.modules], 'torch' in sys.modules, file=sys.stderr)
"""


class Quiet(Watcher):
    def step(self, line, progress): ...

    def measured(self, line): ...

    def say(self, sentence): ...


def test_nothing_needless_is_loaded(tmp_path: Path):
    train_run(resolve_recipe(translation(steps=1)), tmp_path / "run", Quiet())
    program = PROGRAM.format(needless=NEEDLESS)
    words = [sys.executable, "-c", program, "translate", str(tmp_path / "run"), "--engine", "torch", "--device", "cpu"]
    done = subprocess.run(words, input="The dog sleeps.\n", capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 1
    assert done.stderr.splitlines()[-1] == "[] True"
