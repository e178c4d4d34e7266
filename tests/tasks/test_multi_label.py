"""Several labels a text: binary cross-entropy, thresholds, scores; trained, resumed, classified, served, exported."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fastapi.testclient import TestClient
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from regard import api
from regard.cli import app
from regard.data.columns import as_labels
from regard.data.guess.columns import GuessOptions
from regard.data.guess.task import guess_data
from regard.errors import ConfigError, DataError
from regard.export.onnx.engine import OnnxModel
from regard.metrics.multi_label import average_precision, best_threshold, f1, label_sums, mean_average_precision
from regard.models import EncoderConfig
from regard.nn.layout import Sequences
from regard.run.recipe import resolve_recipe
from regard.tasks import MultiLabelConfig, Vocabularies
from regard.tasks.base import Inputs
from regard.text.tokenizer import Tokenizer, WordConfig
from regard.web import make_app

LABELS = ["animal", "food", "place"]
WORDS = {"animal": "the dog runs", "food": "we eat bread", "place": "in the old town"}
BERT = {
    "norm_place": "after", "position": {"kind": "learned", "length": 64}, "norm": {"kind": "layer", "epsilon": 1e-12},
    "feedforward": {"kind": "plain", "activation": "gelu"}, "embedding": {"scale": False, "norm": True},
    "head": {"kind": "pooled", "pooling": "first", "hidden": 32},
}  # fmt: skip


def rows() -> list[tuple[str, list[str]]]:
    chosen = [[label for label, bit in zip(LABELS, f"{number:03b}", strict=True) if bit == "1"] for number in range(8)]
    return [
        (" ".join(["so", *(WORDS[label] for label in labels), str(n)]), labels) for n in range(20) for labels in chosen
    ]


def recipe(folder: Path, source: dict[str, Any], steps: int = 60, **task: Any) -> Any:
    tree = {
        "defaults": "fixed",
        "task": {"kind": "multi_label_classification", **task},
        "data": {"folder": str(folder), "train": source, "valid": source, "test": source},
        "tokenizer": "word",
        "model": {"kind": "encoder", "width": 32, "depth": 1, "heads": 2, "dropout": 0.0, **BERT},
        "train": {"steps": steps, "tokens_per_batch": 512, "save_every": 30, "precision": "float32", "device": "cpu",
                  "schedule": {"kind": "constant", "lr": 3e-3}},
    }  # fmt: skip
    return resolve_recipe(tree)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Lists in .jsonl, a sign between in .tsv, and a trained run."""
    folder = tmp_path_factory.mktemp("labels")
    lines = [json.dumps({"text": text, "topics": labels}) for text, labels in rows()]
    (folder / "data.jsonl").write_text("\n".join(lines) + "\n")
    cells = [f"{text}\t{'|'.join(labels)}" for text, labels in rows()]
    (folder / "data.tsv").write_text("\n".join(["text\ttopics", *cells]) + "\n")
    source = {"file": "data.jsonl", "text": "text", "labels": "topics"}
    api.train(recipe(folder, source, threshold="tuned"), out=folder / "run")
    return folder


def test_the_loss_is_binary_cross_entropy_in_value_and_gradient():
    words = Tokenizer.train(["so the dog runs"] * 3, WordConfig(size=50))
    torch.manual_seed(0)
    model = EncoderConfig(width=16, depth=1, heads=2).build(words.vocab_size, 3).eval()
    targets = torch.tensor([[1.0, 0.0, 1.0], [0.0, 0.0, 0.0]])
    sequences = Sequences.padded([words.encode("so the dog"), words.encode("runs")])
    parameters = list(model.parameters())
    for smoothing in (0.0, 0.2):
        task = MultiLabelConfig(smoothing=smoothing).task(Vocabularies({"text": words}, LABELS))
        losses = task.losses(model, Inputs((sequences,), targets, 6, 4, 0.0))
        logits = model(sequences)
        smoothed = targets * (1 - smoothing) + smoothing / 2
        probabilities = 1 / (1 + torch.exp(-logits))
        expected = -(smoothed * probabilities.log() + (1 - smoothed) * (1 - probabilities).log()).sum()
        plain = torch.nn.BCEWithLogitsLoss(reduction="sum")(logits, targets)
        torch.testing.assert_close(losses.objective, expected)
        torch.testing.assert_close(losses.cross_entropy, plain.detach())
        options: dict[str, Any] = {"retain_graph": True, "allow_unused": True, "materialize_grads": True}
        found, wanted = (torch.autograd.grad(loss, parameters, **options) for loss in (losses.objective, expected))
        for ours, theirs in zip(found, wanted, strict=True):
            torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-4)


SCORES = st.lists(st.tuples(st.sampled_from([0.1, 0.2, 0.4, 0.5, 0.9]), st.booleans()), min_size=1, max_size=12)


@given(SCORES)
def test_average_precision_and_the_best_threshold_by_trying_all(pairs: list[tuple[float, bool]]):
    scores, expected = np.array([p for p, _ in pairs]), np.array([y for _, y in pairs])
    if not expected.any():
        assert np.isnan(average_precision(scores, expected))
        assert best_threshold(scores, expected, 0.5) == 0.5
        return
    area, before, f1_scores = 0.0, 0.0, {}
    for threshold in sorted({*scores.tolist()}, reverse=True):
        given_labels = scores >= threshold
        right = (given_labels & expected).sum()
        precision, recall = right / given_labels.sum(), right / expected.sum()
        area, before = area + (recall - before) * precision, recall
        f1_scores[threshold] = 2 * right / (given_labels.sum() + expected.sum())
    assert average_precision(scores, expected) == pytest.approx(area)
    given_labels = scores >= best_threshold(scores, expected, 0.5)
    found = 2 * (given_labels & expected).sum() / (given_labels.sum() + expected.sum())
    assert found == pytest.approx(max(f1_scores.values()))


def test_micro_and_macro_f1_by_hand():
    predicted = np.array([[1, 0, 0], [1, 1, 0], [0, 0, 0]], dtype=bool)
    expected = np.array([[1, 1, 0], [0, 1, 0], [0, 0, 0]], dtype=bool)
    micro, macro = f1(label_sums(predicted, expected))
    assert micro == pytest.approx(2 * 2 / (3 + 3))
    assert macro == pytest.approx((2 * 1 / 3 + 2 * 1 / 3) / 2)  # the third label is neither given nor expected
    assert f1(label_sums(expected & False, expected & False)) == (1.0, 1.0)
    assert mean_average_precision(predicted.astype(float), expected) == pytest.approx(
        np.mean([average_precision(predicted[:, n].astype(float), expected[:, n]) for n in (0, 1)])
    )


@pytest.mark.parametrize(
    ("value", "separator", "labels"),
    [
        (["b", "a", "b"], ",", ("b", "a")),
        ("a, b", ",", ("a", "b")),
        ("a|b c|", "|", ("a", "b c")),
        ("", ",", ()),
        (None, ",", ()),
        ([], ",", ()),
        ([1, 2.0, True], ",", ("1", "2", "true")),
        (3, ",", ("3",)),
    ],
)
def test_labels_of_a_cell(value: object, separator: str, labels: tuple[str, ...]):
    assert as_labels(value, "topics", separator) == labels


def test_a_run_scores_classifies_and_has_tuned_thresholds(folder: Path):
    run = api.load(folder / "run", "cpu")
    report = api.evaluate(run)
    assert report.metrics["micro_f1"] == report.metrics["macro_f1"] == report.metrics["average_precision"] == 1.0
    assert {row["label"]: row for row in report.details["by_label"]}["animal"] == {
        "label": "animal", "expected": 80, "predicted": 80, "right": 80,
        "threshold": json.loads((folder / "run" / "thresholds.json").read_text())["animal"],
    }  # fmt: skip
    texts = ["so the dog runs in the old town 3", "", "so 4"]
    assert api.classify_labels(run, texts) == [["animal", "place"], None, []] or api.classify_labels(run, texts) == [
        ["place", "animal"], None, []]  # fmt: skip
    assert api.classify(run, "so we eat bread") == "food"
    strict = run.but(threshold=1.0)
    assert api.classify_labels(strict, texts[:1]) == [[]]
    assert run.but(threshold=0.0).task.given_labels(run.classify(texts[:1])[0]) == sorted(
        LABELS, key=lambda label: -run.classify(texts[:1])[0][label]
    )


def test_the_command_prints_all_labels_with_their_probabilities(folder: Path):
    text = "so the dog runs 3\n\nso 4\n"
    done = CliRunner().invoke(app, ["classify", str(folder / "run")], input=text)
    first, blank, none = done.stdout.splitlines()
    assert (first.split()[0], blank, none) == ("animal", "", "(none)")
    assert 0.5 < float(first.split()[1]) <= 1
    done = CliRunner().invoke(app, ["classify", str(folder / "run"), "--json"], input=text)
    trees = [json.loads(line) for line in done.stdout.splitlines()]
    assert [tree["labels"] for tree in trees] == [["animal"], None, []]
    assert "label" not in trees[0]
    assert set(trees[0]["probabilities"]) == set(LABELS)


def test_a_table_with_a_sign_between_labels_gives_the_same_run(folder: Path, tmp_path: Path):
    source = {"file": "data.tsv", "text": "text", "labels": "topics", "separator": "|"}
    run = api.train(recipe(folder, source, threshold="tuned"), out=tmp_path / "run")
    first = api.load(folder / "run", "cpu")
    text = ["so the dog runs in the old town 3"]
    assert run.classify(text) == first.classify(text)
    assert run.task.thresholds == first.task.thresholds


def test_a_run_that_resumes_equals_one_that_does_not(folder: Path, tmp_path: Path):
    source = {"file": "data.jsonl", "text": "text", "labels": "topics"}
    api.train(recipe(folder, source, 30, threshold="tuned"), out=tmp_path / "run")
    run = api.train(recipe(folder, source, 60, threshold="tuned"), out=tmp_path / "run", resume=True)
    whole = api.load(folder / "run", "cpu")
    assert run.classify(["so 4"]) == whole.classify(["so 4"])
    assert run.task.thresholds == whole.task.thresholds


def test_served(folder: Path):
    with TestClient(make_app({"topics": folder / "run"}, device="cpu"), base_url="http://127.0.0.1") as client:
        one = client.post("/classify", json={"text": "so the dog runs 3"}).json()
        assert (one["label"], one["labels"]) == ("animal", ["animal"])
        none, blank = client.post("/classify", json={"text": ["so 4", " "]}).json()
        assert (none["label"], none["labels"]) == (None, [])
        assert (blank["label"], blank["labels"], blank["probabilities"]) == (None, None, None)


def test_looked_at_with_the_sigmoid_of_each_label(folder: Path):
    text = "so the dog runs in the old town 3"
    run = api.load(folder / "run", "cpu")
    classes = dict(api.attention(run, text)["generation"]["classes"])
    assert classes == pytest.approx(run.classify([text])[0], abs=1e-5)


def test_sent_to_hugging_face_and_fetched_back(folder: Path, tmp_path: Path):
    pytest.importorskip("transformers")
    run = api.load(folder / "run", "cpu")
    api.export(run, "huggingface", tmp_path / "out")
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    assert config["problem_type"] == "multi_label_classification"
    back = api.import_run(tmp_path / "out", tmp_path / "back")
    assert back.recipe.task.kind == "multi_label_classification"
    text = "so the dog runs in the old town 3"
    assert back.classify([text])[0] == pytest.approx(run.classify([text])[0], abs=1e-5)
    config["problem_type"] = "regression"
    shutil.copytree(tmp_path / "out", tmp_path / "odd")
    (tmp_path / "odd" / "config.json").write_text(json.dumps(config))
    with pytest.raises(DataError, match="problem_type: expected None or 'single_label_classification' or 'multi_"):
        api.import_run(tmp_path / "odd", tmp_path / "never")


def test_sent_to_onnx(folder: Path, tmp_path: Path):
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    run = api.load(folder / "run", "cpu")
    api.export(run, "onnx", tmp_path / "out")
    texts = ["so the dog runs in the old town 3", "so 4"]
    model = OnnxModel(tmp_path / "out")
    assert model.several_labels(texts) == api.classify_labels(run, texts)
    assert model.classify(texts) == [", ".join(row or []) for row in api.classify_labels(run, texts)]


@pytest.mark.parametrize(("name", "settings"), [("data.jsonl", {}), ("data.tsv", {"separator": "|"})])
def test_init_knows_such_a_table(folder: Path, name: str, settings: dict[str, str]):
    guess = guess_data([folder / name], folder, GuessOptions())
    assert guess.task == "multi_label_classification"
    source = guess.sources["train"].tree()
    assert {key: source[key] for key in ("text", "labels")} == {"text": "text", "labels": "topics"}
    assert source.get("separator") == settings.get("separator")
    assert guess.counts["train"] == "160 labelled texts of 3 labels"
    named = guess_data([folder / name], folder, GuessOptions(label="topics"))
    assert named.task == "multi_label_classification"


def test_columns_that_are_no_lists_of_labels(tmp_path: Path):
    words = ["the old dog sleeps", "a cat and a hen", "the red fox", "the hen eats"] * 6
    rows = [json.dumps({"words": text.split(), "label": "ab"[n % 2]}) for n, text in enumerate(words)]
    (tmp_path / "words.jsonl").write_text("\n".join(rows) + "\n")
    assert guess_data([tmp_path / "words.jsonl"], tmp_path, GuessOptions()).task == "classification"
    rows = [f"{text} {n}\t{('Bonn, Rhine', 'Ulm, Danube')[n % 2]}" for n, text in enumerate(words)]
    (tmp_path / "towns.tsv").write_text("\n".join(["text\tlabel", *rows]) + "\n")
    assert guess_data([tmp_path / "towns.tsv"], tmp_path, GuessOptions()).task == "classification"


@pytest.mark.parametrize(
    ("source", "task", "sentence"),
    [
        (
            {"text": "text", "label": "topics"},
            {},
            r"data\.train: expected texts with several labels: text = … and labels",
        ),
        ({"labels": "topics"}, {}, "text: needed beside 'labels'"),
        ({"text": "text", "label": "a", "labels": "topics"}, {}, "labels: cannot stand beside 'label'"),
        ({"text": "text", "label": "a", "separator": ";"}, {}, "separator: only a column of 'labels' has it"),
        ({"text": "text", "labels": "topics"}, {"consistency": 1.0}, r"task\.consistency: R-Drop compares"),
        ({"text": "text", "labels": "topics"}, {"threshold": 1.5}, r"task\.threshold"),
    ],
)
def test_what_does_not_fit_is_refused(folder: Path, source: dict[str, Any], task: dict[str, Any], sentence: str):
    with pytest.raises(ConfigError, match=sentence):
        recipe(folder, {"file": "data.jsonl", **source}, **task).check()


def test_thresholds_of_other_labels_are_refused(folder: Path, tmp_path: Path):
    shutil.copytree(folder / "run", tmp_path / "run", symlinks=True)
    (tmp_path / "run" / "thresholds.json").write_text('{"animal": 0.5}')
    with pytest.raises(DataError, match="expected a threshold for each label of the run"):
        api.load(tmp_path / "run", "cpu")
    (tmp_path / "run" / "thresholds.json").write_text('{"animal": 0.5, "food": 2, "place": 0.1}')
    with pytest.raises(DataError, match="expected numbers between 0 and 1"):
        api.load(tmp_path / "run", "cpu")


def test_the_shipped_recipe_reads_generated_data():
    from regard.run import read_recipe

    shipped = read_recipe(Path("topics"))
    shipped.check()
    assert shipped.task.threshold == "tuned"
