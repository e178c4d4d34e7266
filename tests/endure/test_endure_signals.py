"""SIGTERM, Ctrl-C, Ctrl-C twice: saved and gone in time; at once, and still without damage."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from endured import differences, tiny_recipe, train

from regard.tasks import Translation
from regard.train.checkpoint import load

TRIALS = Path(__file__).with_name("signal_trials.py")


def trials(folder: Path, number: int) -> dict:
    done = subprocess.run([sys.executable, str(TRIALS), str(folder), str(number)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_one_signal_saves_and_leaves_and_a_second_interrupt_leaves_at_once(tmp_path: Path):
    assert trials(tmp_path, 3)["problems"] == []


@pytest.mark.slow
def test_sixty_signals_at_random_moments(tmp_path: Path):
    assert trials(tmp_path, 60)["problems"] == []


@pytest.mark.parametrize(("number", "at"), [(signal.SIGTERM, 2), (signal.SIGINT, 4)])  # the first is tried beforehand
def test_a_validation_does_not_keep_who_asks_to_stop_and_is_made_up_for(tmp_path: Path, monkeypatch, number, at):
    recipe = tiny_recipe(8, tokens_per_batch=64, valid_every=4)
    train(recipe, tmp_path / "whole")
    original, calls = Translation.measure, []

    def measure(self: Translation, model: object, inputs: object) -> dict[str, float]:
        calls.append(1)
        if len(calls) == at:
            signal.raise_signal(number)
        return original(self, model, inputs)

    with monkeypatch.context() as patch:
        patch.setattr(Translation, "measure", measure)
        train(recipe, tmp_path / "run")
    assert len(calls) == at, "it went on measuring"
    state = load(tmp_path / "run" / "checkpoints" / "last").state
    assert (state["spent"]["steps"], state["due"]) == (4, True)
    train(recipe, tmp_path / "run", resume=True)
    assert differences(tmp_path / "run", tmp_path / "whole") == []


@pytest.fixture
def heeds_interrupts() -> Iterator[None]:
    """Python's own answer to Ctrl-C, which a process that was started in the background ignores."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("heeds_interrupts")
def test_a_signal_before_the_first_step_ends_the_process_as_it_ends_any_other(tmp_path: Path, monkeypatch):
    def interrupted(*_: object) -> None:
        signal.raise_signal(signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr("regard.tasks.prepare.train_tokenizers", interrupted)
        with pytest.raises(KeyboardInterrupt):
            train(tiny_recipe(2), tmp_path / "run")
    train(tiny_recipe(2), tmp_path / "run", resume=True)
