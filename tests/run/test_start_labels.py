"""A run that starts from another takes over what means the same: labels and tokens are compared by name."""

import json
from pathlib import Path

import pytest
import torch
from small_runs import classification, write_recipe
from test_training import Quiet

from regard import api
from regard.errors import ConfigError
from regard.models import EncoderConfig
from regard.nn.head import PooledHeadConfig, TokenHeadConfig
from regard.run.initial_weights import StartConfig, class_parameters
from regard.tasks import Vocabularies

LABELS = ["a", "b", "c"]
HEADS = [None, PooledHeadConfig(hidden=6), TokenHeadConfig()]


def model(labels: list[str], head=None) -> torch.nn.Module:
    return EncoderConfig(width=8, depth=1, heads=1, head=head).build(7, len(labels))


def rows(built: torch.nn.Module, labels: list[str]) -> dict[str, list[list[float]]]:
    return {
        label: [value[row].tolist() for value in class_parameters(built).values()] for row, label in enumerate(labels)
    }


def taken(known: list[str], labels: list[str], head=None, **settings) -> tuple[torch.nn.Module, torch.nn.Module, str]:
    trained, built = model(known, head), model(labels, head)
    start = StartConfig(run="runs/x", **settings)
    return trained, built, start.load(built, trained, Vocabularies({}, labels), Vocabularies({}, known))


@pytest.mark.parametrize("head", HEADS, ids=["mean", "hidden", "token"])
def test_labels_in_another_order_take_their_rows_along(head):
    trained, built, said = taken(["c", "a", "b"], LABELS, head)
    assert rows(built, LABELS) == rows(trained, ["c", "a", "b"])
    assert "matched by label, 3 of 3" in said
    assert "new" not in said


def test_the_same_labels_are_taken_over_as_they_are():
    trained, built, said = taken(LABELS, LABELS)
    assert rows(built, LABELS) == rows(trained, LABELS)
    assert "label" not in said


def test_only_labels_of_the_same_name_are_taken_over():
    trained, built, said = taken(["b", "x", "c"], LABELS)
    assert rows(built, LABELS)["b"] == rows(trained, ["b", "x", "c"])["b"]
    assert rows(built, LABELS)["a"] != rows(trained, ["b", "x", "c"])["x"]
    assert "matched by label, 2 of 3; new labels: a" in said
    trained, built, said = taken(["c", "b"], LABELS)  # of another size
    assert rows(built, LABELS)["c"] == rows(trained, ["c", "b"])["c"]
    assert "new labels: a" in said


@pytest.mark.parametrize("head", HEADS, ids=["mean", "hidden", "token"])
def test_an_output_layer_of_other_labels_is_new(head):
    trained, built, said = taken(["x", "y", "z"], LABELS, head)
    assert all(rows(built, LABELS)[own] != rows(trained, LABELS)[own] for own in LABELS)
    assert "none of its labels is one here (x, y, z), so the output layer is new" in said
    with pytest.raises(ConfigError, match=r"start\.freeze: head.* is not in runs/x"):
        taken(["x", "y", "z"], LABELS, head, freeze=("head",))


def test_new_rows_of_a_frozen_output_layer_are_refused():
    with pytest.raises(ConfigError, match=r"start\.freeze: runs/x has no label 'a'"):
        taken(["b", "c", "d"], LABELS, freeze=("head",))


def test_a_vocabulary_of_other_tokens_is_refused(tmp_path: Path):
    from regard.text.tokenizer import Tokenizer, WordConfig

    one, other = (Tokenizer.train([text], WordConfig()) for text in ("good bad", "fine poor"))
    with pytest.raises(ConfigError, match=r"tokenizer: runs/x has other tokens for text"):
        StartConfig(run="runs/x").load(
            model(LABELS), model(LABELS), Vocabularies({"text": one}), Vocabularies({"text": other})
        )


def test_a_classifier_with_its_labels_turned_round_keeps_its_accuracy(tmp_path: Path):
    """The start has its labels in another order, as one that was imported may have them."""
    tree = classification(tmp_path, steps=40)
    first = api.train(write_recipe(tmp_path, tree), out=tmp_path / "first", watcher=Quiet())
    labels = tmp_path / "first" / "labels.json"
    turned = [*first.task.vocabularies.labels][::-1]
    labels.write_text(json.dumps(turned))
    strip_fingerprints(tmp_path / "first")  # so that the folder is as an import leaves it: the meaning is turned round
    watcher = Quiet()
    tree = {key: value for key, value in tree.items() if key != "tokenizer"}
    tree["model"], tree["train"]["steps"] = {"from": str(tmp_path / "first")}, 1
    tree["train"]["schedule"] = {"kind": "constant", "lr": 1e-9}
    second = api.train(write_recipe(tmp_path, tree), out=tmp_path / "second", watcher=watcher)
    assert any("matched by label, 2 of 2" in said for said in watcher.said)
    text = "a good film number 3"
    one, two = api.load(tmp_path / "first").classify([text])[0], second.classify([text])[0]
    assert one is not None
    assert two is not None
    assert {name: pytest.approx(value, abs=1e-3) for name, value in one.items()} == two


def strip_fingerprints(run: Path) -> None:
    from regard.files.manifest import write_manifest
    from regard.files.run_folder import MANIFEST_FILE

    for step in (run / "checkpoints").glob("step-*"):
        state = json.loads((step / "state.json").read_text())
        state["state"].pop("fingerprint")
        (step / "state.json").write_text(json.dumps(state))
        (step / MANIFEST_FILE).unlink()
        write_manifest(step)
