"""What has no common unit is refused before anything is trained, or stands apart in the table."""

from pathlib import Path
from typing import Any

import pytest
from tiny_sweeps import TINY, Quiet, write_sweep

from regard.compare import compare_sweep, read_ladder, read_sweep, train_ladder
from regard.compare.comparison import _rows, _with_score
from regard.compare.queue import Outcome
from regard.compare.table import markdown
from regard.config import dump_toml
from regard.errors import ConfigError

DECODER = {"kind": "decoder", "width": 16, "depth": 1, "heads": 2, "dropout": 0.0}
ENCODER = {**DECODER, "kind": "encoder"}
TRAIN = {**TINY["train"], "steps": 3, "tokens_per_batch": 256}
WORDS = [
    "the",
    "dog",
    "sees",
    "the",
    "cat",
    "and",
    "the",
    "cow",
    "near",
    "the",
    "old",
    "barn",
    "while",
    "a",
    "fox",
    "waits",
]


def texts(folder: Path) -> dict[str, Any]:
    """A language model of a little text."""
    lines = [" ".join(WORDS[(3 * line + word * word) % len(WORDS)] for word in range(9)) for line in range(300)]
    (folder / "text.txt").write_text("".join(f"{line}\n" for line in lines))
    (folder / "other.txt").write_text("".join(f"{line} too\n" for line in lines[:40]))
    data = {"train": {"file": "text.txt"}, "batching": {"kind": "stream", "context": 32}}
    return {"task": "language_model", "data": data, "tokenizer": "char", "model": DECODER, "train": TRAIN}


def labels(folder: Path) -> dict[str, Any]:
    rows = [f"a {word} film number {number}\t{word}" for number in range(40) for word in ("good", "bad")]
    (folder / "reviews.tsv").write_text("\n".join(rows) + "\n")
    data = {"train": {"file": "reviews.tsv", "text": 0, "label": 1}}
    return {"task": "classification", "data": data, "tokenizer": "word", "model": ENCODER, "train": TRAIN}


def refused(folder: Path, one: dict[str, Any], other: dict[str, Any], **sweep: Any) -> str:
    """Why a comparison of two recipes is refused; nothing was trained by then."""
    for name, tree in (("one", one), ("other", other)):
        (folder / f"{name}.toml").write_text(dump_toml(tree))
    (folder / "sweep.toml").write_text(
        dump_toml({"seeds": 1, **sweep, "variants": {"one": {"recipe": "one.toml"}, "other": {"recipe": "other.toml"}}})
    )
    with pytest.raises(ConfigError) as raised:
        compare_sweep(read_sweep([folder / "sweep.toml"]), folder / "out", Quiet())
    assert raised.value.exit_code == 2
    assert not (folder / "out" / "runs").exists()
    return str(raised.value)


def test_recipes_of_different_tasks_are_refused(tmp_path: Path):
    said = refused(tmp_path, texts(tmp_path), labels(tmp_path))
    assert said == "task: 'one' is language_model and 'other' is classification; only recipes of one task are compared"


@pytest.mark.parametrize("metric", ["loss", "perplexity"])
def test_losses_per_token_of_different_vocabularies_are_refused(metric: str, tmp_path: Path):
    one = texts(tmp_path)
    said = refused(tmp_path, one, {**one, "tokenizer": {"kind": "word", "size": 20}}, metric=metric)
    assert said.startswith(f"metric: {metric} has no common unit: 'one' predicts ")
    assert "and 'other' 20 tokens (" in said
    assert said.endswith("compare by bits_per_byte")


def test_other_test_or_validation_data_is_refused(tmp_path: Path):
    one = texts(tmp_path)
    said = refused(tmp_path, one, {**one, "data": {**one["data"], "valid": {"file": "other.txt"}}})
    assert said.startswith("data.valid: 'one' (text.txt, held out) and 'other' (other.txt) have different examples")
    tested = {**one, "data": {**one["data"], "test": {"file": "other.txt"}}}
    said = refused(tmp_path, one, tested)
    assert said.startswith("data.test: 'one' is tested on valid data and 'other' on test data; give both")
    fewer = {**one, "data": {**one["data"], "test": {"file": "other.txt", "limit": 7}}}
    assert "have different examples" in refused(tmp_path, tested, fewer)
    chosen = [{**tested, "data": {**tested["data"], "valid": {"file": file}}} for file in ("text.txt", "other.txt")]
    said = refused(tmp_path, *chosen)
    assert said.startswith("data.valid: 'one' (text.txt) and 'other' (other.txt) have different examples")


def test_a_copy_of_the_test_data_under_another_name_is_the_same_data(tmp_path: Path):
    one = texts(tmp_path)
    (tmp_path / "copy.txt").write_text((tmp_path / "other.txt").read_text())
    variants = {"one": [], "copy": ["data.test={file='copy.txt'}"]}
    base = {**one, "data": {**one["data"], "test": {"file": "other.txt"}}}
    file = write_sweep(tmp_path, variants, base, seeds=1, budget="steps=2")
    found = compare_sweep(read_sweep([file]), tmp_path / "out", Quiet())
    assert not any(row.incomparable for row in found.rows)
    assert found.rows[1].verdict is not None


def test_metrics_that_the_task_does_not_have_are_refused_before_training(tmp_path: Path):
    one = texts(tmp_path)
    assert refused(tmp_path, one, one, metric="bleu").startswith(
        "metric: language_model is not tested by 'bleu'; known"
    )
    assert "did you mean 'perplexity'?" in refused(tmp_path, one, one, metric="perplexty")


def test_language_models_of_different_vocabularies_are_compared_by_bits_per_byte(tmp_path: Path):
    variants = {"char": [], "words": ["tokenizer={kind='word',size=12}"], "again": ["seed=3"]}
    file = write_sweep(tmp_path, variants, texts(tmp_path), seeds=1, budget="steps=40")
    found = compare_sweep(read_sweep([file]), tmp_path / "out", Quiet())
    char, words, again = found.rows
    assert found.metric == "bits_per_byte"
    assert char.mean is not None
    assert words.mean is not None
    assert words.mean > char.mean, "a vocabulary of twelve tokens has nearly all words unknown"
    assert words.verdict is None, "their batches predict other targets"
    assert again.verdict is not None
    signature = words.outcomes[0].signatures["bits_per_byte"]
    assert float(signature.split("unknown:")[1].split("|")[0]) > 2
    assert "bits per byte" in (tmp_path / "out" / "table.md").read_text()


def test_masked_language_models_of_different_vocabularies_have_no_common_unit(tmp_path: Path):
    one = {**texts(tmp_path), "task": "masked_language_model", "model": ENCODER}
    said = refused(tmp_path, one, {**one, "tokenizer": "byte"})
    assert said.endswith("give both the same tokenizer and labels")
    other = {"kind": "masked_language_model", "masking": {"share": 0.5}}
    assert "has no common unit" in refused(tmp_path, one, {**one, "task": other})


def test_other_labels_have_no_common_unit(tmp_path: Path):
    one = labels(tmp_path)
    (tmp_path / "more.tsv").write_text((tmp_path / "reviews.tsv").read_text() + "a film of its own\tstrange\n" * 5)
    (tmp_path / "test.tsv").write_text("a good film\tgood\na bad film\tbad\n")
    test = {"file": "test.tsv", "text": 0, "label": 1}
    trees = [
        {**one, "data": {"train": {"file": file, "text": 0, "label": 1}, "valid": test, "test": test}}
        for file in ("reviews.tsv", "more.tsv")
    ]
    said = refused(tmp_path, *trees)
    assert "'one' predicts 2 labels" in said
    assert "'other' 3 labels" in said


def test_a_ladder_has_one_vocabulary_and_one_task(tmp_path: Path):
    (tmp_path / "base.toml").write_text(dump_toml(texts(tmp_path)))
    sizes = {name: [f"model.width={16 * number}"] for number, name in enumerate("abcd", start=1)}
    ladder = {"base": "base.toml", "tokens": [100, 200, 300, 400], "sizes": {**sizes, "c": ["tokenizer=byte"]}}
    (tmp_path / "ladder.toml").write_text(dump_toml({**ladder, "forecast": {"settings": ["model.width=80"]}}))
    with pytest.raises(ConfigError, match=r"loss has no common unit: 'a' predicts .* and 'c' 263 tokens"):
        train_ladder(read_ladder(tmp_path / "ladder.toml"), tmp_path / "out", Quiet())
    assert not (tmp_path / "out" / "runs").exists()


def test_results_that_turn_out_to_have_no_common_unit_stand_apart(tmp_path: Path):
    sweep = read_sweep([write_sweep(tmp_path, {"first": [], "other": ["model.width=32"]}, seeds=1)])
    unit = {"split": "test", "fingerprint": "one"}
    runs = [
        Outcome(metrics={"bleu": score}, evidence={"written": ["x"], "references": ["x"]}, **{**unit, **change})
        for score, change in ((30.0, {}), (40.0, {"fingerprint": "two"}))
    ]
    outcomes = dict(zip(("first", "other"), ([run] for run in runs), strict=True))
    rows = _rows(sweep.variants, outcomes, "bleu", sweep.config, 1e12, [])
    assert [row.incomparable for row in rows] == [False, True]
    text = markdown(rows, "bleu", "")
    assert "| (40.0) |" in text
    assert "- other: not comparable: tested on other examples" in text


@pytest.mark.parametrize(("metrics", "problem"), [({}, "is not given by its test"), ({"bleu": float("nan")}, "is nan")])
def test_a_run_without_the_score_of_the_table_is_a_failed_one(metrics: dict, problem: str):
    assert _with_score(Outcome(metrics=metrics), "bleu").problem == f"its BLEU {problem}"
