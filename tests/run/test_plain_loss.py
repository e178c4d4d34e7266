"""The loss of training is in the unit of the validation's, whatever it is that training minimises."""

from pathlib import Path
from typing import Any

import pytest
from small_runs import TINY_MODEL, classification, language_model, translation, write_recipe

from regard import api
from regard.data import plan
from regard.run import conclusion
from regard.train.curves import draw
from regard.train.log import read_metrics
from regard.train.monitor import Quiet

EXPERTS = {"kind": "experts", "experts": 2, "chosen": 1, "hidden": 16}
SMOOTHED = {"kind": "translation", "smoothing": 0.3}
REWARD = {"samples": 2, "max_length": 4}
SUMMARISATION = {"kind": "summarisation", "input_tokens": 40}
NEXT_TO_NONE = 1e-9
"""Dropout for consistency, which is refused without any, that leaves losses as they are."""
DECODER = {"kind": "decoder", **TINY_MODEL}
CASES: dict[str, tuple[str, Any, dict[str, Any]]] = {
    "nothing added": ("translation", {"kind": "translation", "smoothing": 0.0}, {}),
    "smoothing": ("translation", SMOOTHED, {}),
    "smoothing, packed": ("translation", SMOOTHED, {"data": {"batching": "packed"}}),
    "smoothing, in parts": ("translation", SMOOTHED, {"train": {"accumulate": 3}}),
    "consistency": ("translation", {**SMOOTHED, "consistency": 2.0}, {}),
    "reward": ("translation", {**SMOOTHED, "reward": REWARD}, {}),
    "reward alone": ("translation", {"kind": "translation", "reward": {**REWARD, "likelihood": 0.0}}, {}),
    "experts": ("translation", SMOOTHED, {"model": {"feedforward": EXPERTS}}),
    "labels smoothed": ("classification", {"kind": "classification", "smoothing": 0.2}, {}),
    "adversarial": ("classification", {"kind": "classification", "adversarial": 0.5}, {}),
    "labels consistent": ("classification", {"kind": "classification", "consistency": 1.0}, {}),
    "summaries": ("translation", SUMMARISATION, {}),
    "inputs predicted too": ("translation", {**SUMMARISATION, "predict_input": True}, {"model": DECODER}),
    "and consistent": ("translation", {**SUMMARISATION, "predict_input": True, "consistency": 1}, {"model": DECODER}),
}


def recipe(folder: Path, kind: str, task: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """One step on all training data, which changes next to nothing, and a validation on the same data."""
    tree = translation() if kind == "translation" else classification(folder)
    source = {"street": "train", "limit": 30} if kind == "translation" else tree["data"]["train"]
    model = {**tree["model"], **changes.get("model", {}), "dropout": NEXT_TO_NONE}
    train = {
        **tree["train"], "steps": 1, "save_every": 1, "log_every": 1, "tokens_per_batch": 100_000,
        "schedule": {"kind": "constant", "lr": 1e-12}, **changes.get("train", {}),
    }  # fmt: skip
    data = {"train": source, "valid": source, **changes.get("data", {})}
    return {**tree, "task": task, "data": data, "model": model, "train": train}


@pytest.fixture(autouse=True)
def one_batch(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(conclusion, "curves", lambda *_: None)
    monkeypatch.setattr(plan, "FEWEST_POOLS", 1)  # all examples in one batch


@pytest.mark.parametrize("case", CASES)
def test_the_loss_of_training_is_that_of_a_validation_on_the_same_examples(case: str, tmp_path: Path):
    tree = recipe(tmp_path, *CASES[case])
    if "reward" in tree["task"]:
        before = {**tree, "task": "translation"}
        api.train(write_recipe(tmp_path, before), out=tmp_path / "before", watcher=Quiet())
        tree["start"] = {"run": str(tmp_path / "before")}
    api.train(write_recipe(tmp_path, tree), out=tmp_path / "run", watcher=Quiet())
    train, valid = (line for line in read_metrics(tmp_path / "run" / "metrics.jsonl") if "split" in line)
    assert (train["split"], valid["split"]) == ("train", "valid")
    assert train["loss"] == pytest.approx(valid["loss"], rel=2e-4)
    assert ("objective" in train) == (case != "nothing added")
    assert "objective" not in valid


def test_a_plain_objective_is_logged_once(tmp_path: Path):
    tree = language_model(tmp_path, steps=2)
    api.train(write_recipe(tmp_path, tree), out=tmp_path / "run", watcher=Quiet())
    assert not any("objective" in line for line in read_metrics(tmp_path / "run" / "metrics.jsonl"))


def test_the_picture_has_one_unit_in_each_panel():
    lines: list[dict[str, Any]] = [
        {"step": step, "split": "train", "loss": 2.0, "objective": 3.0, "lr": 0.1} for step in (1, 2)
    ]
    lines.append({"step": 2, "split": "valid", "loss": 2.1, "lr": 0.1})
    panels = {axes.get_ylabel(): axes for axes in draw(lines).axes if axes.get_ylabel()}
    assert list(panels) == ["loss (nats)", "learning rate", "objective"]
    labels = {line.get_label() for line in panels["loss (nats)"].get_lines()}
    assert labels == {"training", "validation", "best: loss 2.100 at step 2"}
    assert [list(line.get_ydata()) for line in panels["objective"].get_lines()] == [[3.0, 3.0]]
