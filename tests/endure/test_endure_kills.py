"""kill −9 at any moment: no run is lost, and what it becomes is to the bit what an undisturbed one is."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from endured import differences, tiny_recipe, train

from regard.files import run_folder
from regard.train.log import read_metrics
from regard.train.loop import Trainer

TRIALS = Path(__file__).with_name("kill_trials.py")


def trials(folder: Path, kills: int) -> dict:
    done = subprocess.run([sys.executable, str(TRIALS), str(folder), str(kills)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_killed_at_random_moments_a_run_ends_as_if_it_had_not_been(tmp_path: Path):
    found = trials(tmp_path, kills=5)
    assert found["problems"] == []
    assert found["kills"] >= 5


@pytest.mark.slow
def test_killed_a_hundred_times_thirty_of_them_while_saving(tmp_path: Path):
    found = trials(tmp_path, kills=100)
    assert found["problems"] == []
    assert found["kills"] >= 100
    assert found["saving"] >= 30


class Killed(BaseException):
    """Stands for a kill at an exact place."""


def test_killed_between_a_checkpoint_and_its_name_best_still_points_to_it(tmp_path: Path, monkeypatch):
    train(tiny_recipe(), tmp_path / "whole")

    def killed(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr("regard.train.saving.link_checkpoint", killed)
        with pytest.raises(Killed):
            train(tiny_recipe(), tmp_path / "run")
    assert run_folder.linked_step(tmp_path / "run" / "checkpoints", "best") is None
    train(tiny_recipe(), tmp_path / "run", resume=True)
    assert differences(tmp_path / "run", tmp_path / "whole") == []


def test_killed_before_the_mean_of_checkpoints_it_is_made_when_the_run_goes_on(tmp_path: Path, monkeypatch):
    recipe = tiny_recipe(average=2, keep=3)
    train(recipe, tmp_path / "whole")

    def killed(self: Trainer) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "_average", killed)
        with pytest.raises(Killed):
            train(recipe, tmp_path / "run")
    for _ in range(2):  # and once more where it is there already
        train(recipe, tmp_path / "run", resume=True)
        assert differences(tmp_path / "run", tmp_path / "whole") == []


def test_killed_after_patience_has_ended_it_makes_no_further_step(tmp_path: Path):
    recipe = tiny_recipe(100, patience=1, schedule={"kind": "constant", "lr": 1e-12})
    train(recipe, tmp_path / "run")
    last = read_metrics(tmp_path / "run" / "metrics.jsonl")[-1]["step"]
    assert last < 100
    train(recipe, tmp_path / "run", resume=True)
    steps = [line["step"] for line in read_metrics(tmp_path / "run" / "metrics.jsonl")]
    assert max(steps) == last


def test_a_run_without_a_checkpoint_says_that_it_begins_anew(tmp_path: Path):
    said = train(tiny_recipe(2), tmp_path / "run", resume=True).said
    assert f"{tmp_path / 'run'}: no checkpoint yet, so training starts from the beginning" in said
