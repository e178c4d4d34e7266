"""Data from memory: the same run, to the bit, as the same rows in a file; one sentence for what cannot be read."""

import json
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pytest
import torch

import regard
from regard import api
from regard.api.memory import rows_of
from regard.errors import ConfigError, RegardError, RunError
from regard.train.monitor import Quiet

WORDS = ["old", "big", "red", "new", "odd", "wet"]
PAIRS = [(f"the {a} dog sees a {b} cat", f"der {a} Hund sieht eine {b} Katze") for a in WORDS for b in WORDS]
FILMS = [(f"a {a} film and a {b} end", int(a < b)) for a in WORDS for b in WORDS]
TEXTS = [f"the {a} dog\nsees the {b} cat" for a in WORDS for b in WORDS]
SMALL = {"train.steps": 2, "model.width": 16, "model.depth": 1, "model.heads": 2}
SHORT = {**SMALL, "search.kind": "greedy", "search.max_length": 4}


def same_weights(one: regard.Run, other: regard.Run) -> bool:
    first, second = one.model.state_dict(), other.model.state_dict()
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


def from_file(folder: Path, recipe: str, small: Mapping[str, object] = SMALL, **files: str) -> regard.Run:
    """The run of `regard train` on a recipe and its files."""
    for name, text in files.items():
        (folder / name.replace("_", ".")).write_text(text, encoding="utf-8")
    (folder / "recipe.toml").write_text(recipe)
    settings = [f"{name}={value}" for name, value in small.items()]
    return regard.Run(api.train(folder / "recipe.toml", *settings, out=folder / "file", watcher=Quiet()))


def tsv(rows) -> str:
    return "".join(f"{one}\t{two}\n" for one, two in rows)


def test_pairs_give_the_same_run_as_a_file(tmp_path: Path):
    recipe = 'task = "translation"\ndata.train = {file = "train.tsv", source = 0, target = 1}'
    expected = from_file(tmp_path, recipe, SHORT, train_tsv=tsv(PAIRS))
    run = regard.train(PAIRS, task="translation", out=tmp_path / "rows", quiet=True, **SHORT)
    assert same_weights(run, expected)
    losses = [[line["loss"] for line in read.metrics if "loss" in line] for read in (run, expected)]
    assert losses[0] == losses[1]
    assert run.evaluate("valid").fingerprint == expected.evaluate("valid").fingerprint


def test_labels_and_a_validation_part_give_the_same_run_as_files(tmp_path: Path):
    recipe = 'task = "classification"\n[data]\n' + "\n".join(
        f'{split} = {{file = "{split}.tsv", text = 0, label = 1}}' for split in ("train", "valid")
    )
    expected = from_file(tmp_path, recipe, train_tsv=tsv(FILMS[6:]), valid_tsv=tsv(FILMS[:6]))
    columns = {"text": [text for text, _ in FILMS[6:]], "label": [label for _, label in FILMS[6:]]}
    frame = pa.table({"label": [label for _, label in FILMS[:6]], "text": [text for text, _ in FILMS[:6]]})
    run = regard.train({"train": columns, "validation": frame}, out=tmp_path / "rows", quiet=True, **SMALL)
    assert same_weights(run, expected)
    assert run.recipe.task.kind == "classification"


def test_texts_give_the_same_run_as_a_file(tmp_path: Path):
    recipe = 'task = "language_model"\ndata.train = {file = "train.jsonl", text = "text"}'
    expected = from_file(tmp_path, recipe, train_jsonl="".join(json.dumps({"text": text}) + "\n" for text in TEXTS))
    assert same_weights(regard.train(iter(TEXTS), out=tmp_path / "rows", quiet=True, **SMALL), expected)


class Frame:
    """A table as pandas has it."""

    columns = ("text", "label")

    def to_dict(self, orient: str) -> list[dict[str, object]]:
        assert orient == "records"
        return [{"text": text, "label": label} for text, label in FILMS]


class Classes:
    names = ("bad", "good")


class Dataset:
    """A dataset as Hugging Face has it, with classes stored as numbers."""

    column_names = ("text", "label")
    features = {"label": Classes(), "text": None}  # noqa: RUF012

    def __iter__(self):
        return iter(Frame().to_dict("records"))


def test_tables_of_other_libraries_are_told_by_what_they_offer():
    rows = [{"text": text, "label": label} for text, label in FILMS]
    assert list(rows_of(Frame(), None)) == rows
    assert list(rows_of(pa.Table.from_pylist(rows), None)) == rows
    assert list(rows_of(rows, None)) == rows
    assert list(rows_of(FILMS, "labelled")) == rows
    assert [row["label"] for row in rows_of(Dataset(), None)] == [Classes.names[label] for _, label in FILMS]


@pytest.mark.parametrize(("data", "task", "said"), [
    (5, None, "data: expected a list of .*; got a value of type int"),
    ([], "translation", "data: no rows"),
    ([("a", "b"), "c"], "translation", "data: row 2: expected 2 values as in row 1, got a text"),
    ([("a", "b", "c")], "translation", "data: row 1: cannot be read, got 3 values; expected"),
    ([("a", object())], "classification", "data: row 1: expected text, a number or a label, got a value of type obj"),
    (["a\ud800"], None, "data: row 1: holds half a surrogate pair"),
    ({"text": ["a", "b"], "label": ["c"]}, None, r"data: the columns have different lengths \(text: 2, label: 1\)"),
    ({"text": "a"}, None, "data: column 'text': expected a list, got a value of type str"),
    (["train.en", "train.de"], "translation", "train.en: no such file"),
    ("pears", None, "pears: no such file, and no recipe of this name comes with regard; did you mean .*'pairs'"),
    ("one text\nof two lines", None, "data: expected rows, files or a recipe, got one long text"),
    (PAIRS, "tagging", "task=….*tagging needs a tag for each word"),
    ({"a": TEXTS, "b": TEXTS, "c": TEXTS}, None, "cannot tell .* task=…, text=…, .* and target=… decide"),
    ([(text, "good") for text in TEXTS], "classification", "all 36 examples have the label 'good'"),
])  # fmt: skip
def test_what_cannot_be_read_is_refused_in_one_sentence(data, task, said, tmp_path: Path):
    with pytest.raises(RegardError, match=said):
        regard.train(data, task=task, out=tmp_path / "runs" / "run", quiet=True)
    assert not (tmp_path / "runs").exists()


def test_settings_are_those_of_recipes(tmp_path: Path):
    with pytest.raises(ConfigError, match=r"^train\.stepps: unknown setting; did you mean 'steps'"):
        regard.train(PAIRS, task="translation", out=tmp_path / "run", train__stepps=3)
    with pytest.raises(ConfigError, match=r"lr: unknown setting; that is train\.schedule\.lr here"):
        regard.train("pairs", out=tmp_path / "run", lr=0.1)
    with pytest.raises(ConfigError, match="model: expected a number, a text, a list or a dict of them, got"):
        regard.train("pairs", out=tmp_path / "run", model=object())
    with pytest.raises(ConfigError, match="data: a recipe names its own data and columns"):
        regard.train("pairs", out=tmp_path / "run", valid=PAIRS)
    assert not (tmp_path / "run").exists()


def test_a_run_resumes_with_the_data_it_was_begun_with(tmp_path: Path):
    small, out = {**SMALL, "train.save_every": 1}, tmp_path / "run"
    regard.train(FILMS, task="classification", out=out, quiet=True, **small)
    with pytest.raises(RunError, match="a run is here already; continue it with resume=True, or choose another out=…"):
        regard.train(FILMS, task="classification", out=out, quiet=True, **small)
    with pytest.raises(ConfigError, match=r"data: other rows than those in .*, or data_changed=True"):
        regard.train(FILMS[1:], task="classification", out=out, quiet=True, resume=True, **small)
    longer = {**small, "train.steps": 3}
    assert (
        regard.train(FILMS, task="classification", out=out, quiet=True, resume=True, **longer).metrics[-1]["step"] == 3
    )
    assert sorted(file.name for file in (out / "data").iterdir()) == ["train.jsonl"]


def test_files_are_guessed_as_init_guesses_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "train.tsv").write_text(tsv(FILMS))
    (tmp_path / "other.tsv").write_text(tsv(FILMS[:8]))
    monkeypatch.chdir(tmp_path)
    run = regard.train("train.tsv", test="other.tsv", out="run", quiet=True, **SMALL)
    assert run.recipe.task.kind == "classification"
    assert run.evaluate().examples == run.evaluate("other.tsv").examples == run.evaluate(FILMS[:8]).examples == 8
    assert run.evaluate().metrics == run.evaluate(FILMS[:8]).metrics
