"""The end of a run: trivial baselines in the units of the validation, what was reached, and commands to go on."""

import math
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_runs import classification, language_model, translation, write_recipe
from typer.testing import CliRunner

from regard import api
from regard.cli import app
from regard.metrics.baseline import Baseline, most_frequent, unigram_loss
from regard.run.conclusion import best_validation, conclusion, next_commands, read_baselines, sample_input
from regard.run.recipe import resolve_recipe
from regard.train.log import read_metrics
from regard.train.monitor import Quiet


class Heard(Quiet):
    def __init__(self) -> None:
        self.said: list[str] = []

    def say(self, sentence: str) -> None:
        self.said.append(sentence)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs")


def test_the_most_frequent_class_and_its_frequencies():
    scores = most_frequent(np.array([8, 0]), np.array([3, 1]))
    assert scores["accuracy"] == 0.75
    assert scores["loss"] == pytest.approx(-(3 * math.log(8.5 / 9) + math.log(0.5 / 9)) / 4)


def test_unigram_loss_is_the_entropy_where_both_texts_are_alike():
    counts = np.array([600_000, 300_000, 100_000])
    shares = counts / counts.sum()
    assert unigram_loss(counts, counts) == pytest.approx(-(shares * np.log(shares)).sum(), abs=1e-4)


@pytest.mark.parametrize(
    ("scores", "metric", "beaten"),
    [({"loss": 0.5, "accuracy": 0.5}, "accuracy", False), ({"loss": 0.9, "accuracy": 0.8}, "accuracy", True),
     ({"loss": 0.5, "accuracy": 0.5}, "loss", True), ({"bleu": 3.0}, "bleu", None)],
)  # fmt: skip
def test_a_baseline_is_beaten_by_the_score_that_counts(scores: dict[str, float], metric: str, beaten: bool | None):
    assert Baseline("always 'a'", {"loss": 0.7, "accuracy": 0.6}).beaten_by(scores, metric) is beaten


@pytest.fixture(autouse=True)
def no_picture(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("regard.run.conclusion.curves", lambda *_: None)


def trained(where: Path, tree: dict[str, Any]) -> Any:
    return api.train(write_recipe(where, tree), out=where / "run", watcher=Quiet())


def test_a_classifier_beside_its_most_frequent_class(tmp_path: Path):
    run = trained(tmp_path, classification(tmp_path, 40))
    lines = read_metrics(run.folder / "metrics.jsonl")
    (baseline,) = read_baselines(run.folder)
    assert baseline.answer == "always 'negative'"
    assert 0.3 <= baseline.scores["accuracy"] <= 0.7
    assert baseline.scores["loss"] == pytest.approx(math.log(2), abs=0.1)
    said = conclusion(run)
    best = best_validation(lines, "accuracy")
    assert best is not None
    assert said[0].startswith(f"best: step {best['step']}, validation loss {best['loss']:.3f}, accuracy ")
    assert said[1].startswith("trivial baseline, always 'negative': loss 0.69")


def test_a_language_model_beside_the_frequencies_of_characters(tmp_path: Path):
    tree = language_model(tmp_path, 3)
    tree["data"]["valid"] = tree["data"]["train"]
    run = trained(tmp_path, tree)
    (baseline,) = read_baselines(run.folder)
    text = (tmp_path / "text.txt").read_text()
    counts = np.array([text.count(character) for character in sorted(set(text))])
    entropy = -(counts / counts.sum() * np.log(counts / counts.sum())).sum()
    assert baseline.scores["loss"] == pytest.approx(entropy, abs=0.05)


def test_a_translator_beside_frequencies_and_copies(folder: Path):
    run = trained(folder, translation(4, best="bleu"))
    frequencies, copies = read_baselines(run.folder)
    assert 3 < frequencies.scores["loss"] < math.log(400) + 1
    assert copies.answer == "copying the source"
    assert copies.scores["bleu"] < 10
    said = conclusion(run)
    assert said[-1].startswith("note: the model is not better than the trivial baseline")
    commands = next_commands(run)
    assert [shlex.split(command.rpartition("| ")[2])[1] for command in commands] == [
        "evaluate", "translate", "look", "serve",
    ]  # fmt: skip
    assert all(len(command) - len(str(run.folder)) < 80 for command in commands)


def test_baselines_that_cannot_be_read_are_none(tmp_path: Path):
    assert read_baselines(tmp_path) == []
    for text in ("[1]", "{", '{"a": 1}'):
        (tmp_path / "baseline.json").write_text(text)
        assert read_baselines(tmp_path) == []


def test_samples_are_short_and_quoted(tmp_path: Path):
    rows = [f"{'very ' * 30}long\tx", "it's a dog's life\ty", "short\tx"]
    (tmp_path / "a.tsv").write_text("\n".join(rows) + "\n")
    source = {"file": str(tmp_path / "a.tsv"), "text": 0, "label": 1}
    recipe = resolve_recipe(
        {"task": "classification", "data": {"train": source, "valid": source}, "model": {"kind": "encoder"}}
    )
    assert shlex.split(sample_input(recipe)) == ["it's a dog's life"]


def test_small_data_is_said_while_training(tmp_path: Path):
    heard = Heard()
    tree = translation(4)
    tree["data"]["train"]["limit"] = 100
    api.train(resolve_recipe(tree), out=tmp_path / "run", watcher=heard)
    assert any(sentence.startswith("note: only 100 pairs to train on") for sentence in heard.said)
    assert any(sentence.startswith("note: only 40 pairs to validate on") for sentence in heard.said)


def test_on_the_command_line_quiet_says_nothing_and_normal_all(tmp_path: Path):
    recipe = write_recipe(tmp_path, translation(2))
    quiet = CliRunner().invoke(app, ["train", str(recipe), "--out", str(tmp_path / "a"), "--quiet"])
    assert (quiet.exit_code, quiet.output) == (0, "")
    told = CliRunner().invoke(app, ["train", str(recipe), "--out", str(tmp_path / "b")])
    assert told.stdout == ""
    for part in ("training finished; the run is in", "best: step 2", "trivial baseline, each token", "go on with:",
                 f"  regard serve {tmp_path / 'b'}"):  # fmt: skip
        assert part in told.stderr
    assert "as set" not in told.stderr
    verbose = CliRunner().invoke(app, ["-v", "train", str(recipe), "--out", str(tmp_path / "c")])
    assert "data type of matrix products: float32, as set" in verbose.stderr
