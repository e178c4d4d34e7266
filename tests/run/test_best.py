"""The best checkpoint holds the weights that were measured, whenever the measurement was made."""

from pathlib import Path

import pytest
from small_runs import classification, language_model, write_recipe

from regard import api
from regard.files.run_folder import BEST, LAST, linked_step
from regard.run import trainer
from regard.run.conclusion import conclusion
from regard.run.trained import Run
from regard.train.monitor import Quiet


@pytest.mark.parametrize(
    ("losses", "best"), [([3, 1, 2, 2, 2, 2], 2), ([3, 2, 2, 2, 2, 1], 6), ([1, 2, 3, 4, 5, 6], 1)]
)
def test_a_best_model_between_two_checkpoints_is_kept(
    losses: list[float], best: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    coming = iter(losses)
    monkeypatch.setattr(trainer, "measure", lambda *_: {"loss": float(next(coming))})
    tree = language_model(tmp_path, steps=6)
    tree["train"] |= {"save_every": 4, "valid_every": 1}
    api.train(write_recipe(tmp_path, tree), out=tmp_path / "run", watcher=Quiet())
    folder = tmp_path / "run" / "checkpoints"
    assert linked_step(folder, BEST) == best
    assert linked_step(folder, LAST) == 6


@pytest.mark.parametrize(("losses", "best"), [([3, 2, 1], 3), ([1, 2, 3], 1), ([2, 1, 3], 2)])
def test_of_equal_scores_the_lower_loss_is_the_best(
    losses: list[float], best: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    coming = iter(losses)
    monkeypatch.setattr(trainer, "measure", lambda *_: {"loss": float(next(coming)), "accuracy": 1.0})
    tree = classification(tmp_path, steps=3)
    tree["train"] |= {"save_every": 1, "best": "accuracy"}
    api.train(write_recipe(tmp_path, tree), out=tmp_path / "run", watcher=Quiet())
    assert linked_step(tmp_path / "run" / "checkpoints", BEST) == best
    shown = conclusion(Run.open(tmp_path / "run", "cpu"))
    assert shown[0].startswith(f"best: step {best},")
