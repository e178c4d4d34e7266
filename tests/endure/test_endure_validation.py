"""A failure costs nothing that came before it: not in a validation, not in a step, not at the end of a run."""

import signal
from pathlib import Path

import pytest
import torch
from endured import course, differences, tiny_recipe, train

from regard.errors import RunError
from regard.files.run_folder import BEST, link_checkpoint, linked_step
from regard.run import trainer
from regard.run.trained import Run
from regard.tasks.generation import TextGenerator
from regard.train import checkpoint
from regard.train.checkpoint import load
from regard.train.log import read_metrics
from regard.train.loop import Trainer


class Killed(BaseException):
    """Stands for a kill at an exact place."""


def failing(at: int, error: type[BaseException]):
    """`measure` as training calls it, which fails in validation number `at`."""
    original, calls = trainer.measure, []

    def measure(*arguments: object) -> dict[str, float]:
        calls.append(1)
        if len(calls) == at:
            raise error("in the validation")
        return original(*arguments)

    return measure


@pytest.mark.parametrize("error", [Killed, RuntimeError])
@pytest.mark.parametrize("at", [1, 2])
def test_a_failure_in_a_validation_costs_no_step(tmp_path: Path, monkeypatch, error: type[BaseException], at: int):
    recipe = tiny_recipe(6, save_every=100, valid_every=3)
    train(recipe, tmp_path / "whole")
    with monkeypatch.context() as patch:
        patch.setattr(trainer, "measure", failing(at, error))
        with pytest.raises(error, match="in the validation"):
            train(recipe, tmp_path / "run")
    state = load(tmp_path / "run" / "checkpoints" / "last").state
    assert (state["spent"]["steps"], state["due"]) == (3 * at, True)
    train(recipe, tmp_path / "run", resume=True)
    assert differences(tmp_path / "run", tmp_path / "whole") == []


def test_a_validation_that_was_written_is_not_made_again(tmp_path: Path, monkeypatch):
    recipe = tiny_recipe(6, save_every=100, valid_every=3)
    train(recipe, tmp_path / "whole")

    def killed(self: Trainer) -> None:
        if self.spent.steps == 3:
            raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "_prune", killed)  # after the line of the validation and its mark
        with pytest.raises(Killed):
            train(recipe, tmp_path / "run")
    with monkeypatch.context() as patch:
        calls = []
        original = trainer.measure
        patch.setattr(trainer, "measure", lambda *given: calls.append(1) or original(*given))
        train(recipe, tmp_path / "run", resume=True)
        assert len(calls) == 1  # that of step 6
    assert differences(tmp_path / "run", tmp_path / "whole") == []


def test_the_checkpoint_of_a_validation_is_written_once(tmp_path: Path, monkeypatch):
    original, written = checkpoint.save, []

    def save(folder: Path, step: int, *given: object) -> Path:
        written.append(step)
        return original(folder, step, *given)

    monkeypatch.setattr("regard.train.loop.checkpoint.save", save)
    train(tiny_recipe(6, save_every=2, valid_every=3), tmp_path / "run")
    assert written == [2, 3, 4, 6]


def test_a_step_that_fails_costs_none_of_those_before(tmp_path: Path, monkeypatch):
    recipe = tiny_recipe(6, save_every=100)
    train(recipe, tmp_path / "whole")
    original = Trainer._next_inputs

    def fails(self: Trainer) -> list:
        if self.spent.steps == 4:
            raise RuntimeError("the network drive is gone")
        return original(self)

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "_next_inputs", fails)
        with pytest.raises(RuntimeError, match="drive is gone"):
            train(recipe, tmp_path / "run")
    assert load(tmp_path / "run" / "checkpoints" / "last").step == 4
    train(recipe, tmp_path / "run", resume=True)
    assert differences(tmp_path / "run", tmp_path / "whole") == []


def test_weights_that_are_no_numbers_are_not_saved(tmp_path: Path, monkeypatch):
    original = Trainer._next_inputs

    def poisoned(self: Trainer) -> list:
        if self.spent.steps == 4:
            self.model.target_embedding.table.weight.data[3] = torch.nan
            raise RuntimeError("and then it fails")
        return original(self)

    monkeypatch.setattr(Trainer, "_next_inputs", poisoned)
    with pytest.raises(RuntimeError, match="and then it fails"):
        train(tiny_recipe(6, save_every=3), tmp_path / "run")
    assert load(tmp_path / "run" / "checkpoints" / "last").step == 3


def test_another_metric_on_resuming_is_not_compared_with_the_old_best(tmp_path: Path):
    train(tiny_recipe(2), tmp_path / "run")
    train(tiny_recipe(4, best="chrf"), tmp_path / "run", resume=True)
    lines = [line for line in read_metrics(tmp_path / "run" / "metrics.jsonl") if line.get("split") == "valid"]
    assert load(tmp_path / "run" / "checkpoints" / "best").step in (2, 4)
    assert "chrf" in lines[-1]
    assert course(tmp_path / "run")


def test_a_request_to_stop_is_answered_while_texts_are_generated(tmp_path: Path, monkeypatch):
    recipe = tiny_recipe(4, best="bleu", valid_every=2)
    train(recipe, tmp_path / "whole")
    original, calls = TextGenerator._translate, []

    def translate(self: TextGenerator, batch: list, config: object) -> list:
        calls.append(1)
        if len(calls) == 2:  # the first is tried beforehand
            signal.raise_signal(signal.SIGTERM)
        return original(self, batch, config)

    with monkeypatch.context() as patch:
        patch.setattr(TextGenerator, "_translate", translate)
        train(recipe, tmp_path / "run")
    assert len(calls) == 2
    state = load(tmp_path / "run" / "checkpoints" / "last").state
    assert (state["spent"]["steps"], state["due"]) == (2, True)
    train(recipe, tmp_path / "run", resume=True)
    assert differences(tmp_path / "run", tmp_path / "whole") == []


def test_a_broken_best_checkpoint_is_named_before_the_first_step_and_chosen_anew(tmp_path: Path):
    train(tiny_recipe(6, save_every=2), tmp_path / "run")
    folder = tmp_path / "run" / "checkpoints"
    link_checkpoint(folder, BEST, 4)
    (folder / "step-4" / "model.safetensors").write_bytes(b"")
    watching = train(tiny_recipe(8, save_every=2), tmp_path / "run", resume=True)
    assert any(
        "step-4/model.safetensors: has 0 bytes" in said and "chosen anew, from step 6" in said for said in watching.said
    )
    assert linked_step(folder, BEST) in (6, 8)
    Run.open(tmp_path / "run", "cpu")


@pytest.mark.parametrize("target", ["best", "..", "step-99x"])
def test_a_best_that_points_to_no_checkpoint_is_named_and_chosen_anew(target: str, tmp_path: Path):
    train(tiny_recipe(4, save_every=2), tmp_path / "run")
    folder = tmp_path / "run" / "checkpoints"
    (folder / BEST).unlink()
    (folder / BEST).symlink_to(target)
    watching = train(tiny_recipe(6, save_every=2), tmp_path / "run", resume=True)
    assert any("best: points to no checkpoint" in said for said in watching.said)
    assert linked_step(folder, BEST) in (4, 6)
    Run.open(tmp_path / "run", "cpu")


def test_a_broken_checkpoint_is_left_out_of_the_average(tmp_path: Path):
    train(tiny_recipe(6, save_every=2, keep=3), tmp_path / "run")
    folder = tmp_path / "run" / "checkpoints"
    link_checkpoint(folder, BEST, 6)
    (folder / "step-4" / "model.safetensors").unlink()
    watching = train(tiny_recipe(6, save_every=2, keep=3, average=3), tmp_path / "run", resume=True)
    assert any(said.startswith("mean of 2 checkpoints") for said in watching.said)


def test_changed_data_is_refused_before_the_words_of_the_run_change(tmp_path: Path):
    recipe = tiny_recipe(4)
    train(recipe, tmp_path / "run")
    before = (tmp_path / "run" / "training_words.safetensors").read_bytes()
    changed = recipe.but(data=recipe.data.but(train=recipe.data.train.but(limit=7)))
    with pytest.raises(RunError, match="data-changed"):
        train(changed, tmp_path / "run", resume=True)
    assert (tmp_path / "run" / "training_words.safetensors").read_bytes() == before
