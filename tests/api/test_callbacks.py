"""Callbacks see every step and validation; an error in one ends the run cleanly, with its checkpoint."""

from pathlib import Path

import pytest

import regard
from regard.files.run_folder import CHECKPOINTS_FOLDER, list_checkpoints

FILMS = [(f"a {word} film, number {n}", word) for n in range(20) for word in ("good", "bad")]
TRAIN = {"train.steps": 6, "train.valid_every": 3, "train.save_every": 3}
SMALL = {**TRAIN, "model.width": 16, "model.depth": 1, "model.heads": 2}


def steps_of(folder: Path) -> list[int]:
    return sorted(step for step, _ in list_checkpoints(folder / CHECKPOINTS_FOLDER))


def test_callbacks_see_every_step_and_validation(tmp_path: Path):
    steps, validations = [], []
    regard.train(
        FILMS, task="classification", out=tmp_path / "run", quiet=True, on_step=steps.append,
        on_validation=validations.append, **SMALL,
    )  # fmt: skip
    assert [line["step"] for line in steps] == [1, 2, 3, 4, 5, 6]
    assert steps[2]["progress"] == 0.5
    assert all(line["lr"] > 0 for line in steps)
    assert [line["step"] for line in validations] == [3, 6]
    assert "accuracy" in validations[0]


@pytest.mark.parametrize(("callback", "stopped"), [("on_step", 4), ("on_validation", 3)])
def test_an_error_in_a_callback_saves_the_run_and_is_raised(tmp_path: Path, callback: str, stopped: int):
    calls = []

    def fails(line):
        calls.append(line["step"])
        if line["step"] == stopped:
            raise ValueError("enough")

    with pytest.raises(ValueError, match="enough"):
        regard.train(FILMS, task="classification", out=tmp_path / "run", quiet=True, **{callback: fails}, **SMALL)
    assert calls[-1] == stopped == steps_of(tmp_path / "run")[-1]
    assert regard.load(tmp_path / "run", checkpoint="last").step == stopped
    undisturbed = regard.train(FILMS, task="classification", out=tmp_path / "whole", quiet=True, **SMALL)
    resumed = regard.train(FILMS, task="classification", out=tmp_path / "run", quiet=True, resume=True, **SMALL)
    losses = [[line["loss"] for line in run.metrics if line.get("split") == "valid"] for run in (undisturbed, resumed)]
    assert losses[0] == losses[1]
