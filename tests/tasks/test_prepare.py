"""Stores of a recipe's data: made anew whenever anything that they depend on has changed."""

import sys
import types
from pathlib import Path

import numpy as np
import pytest

from regard.data.store import Store
from regard.run.recipe import resolve_recipe
from regard.tasks import Vocabularies
from regard.tasks.prepare import Preparation


def preparation(base: Path, train: dict, **task: object) -> Preparation:
    tree = {"task": {"kind": "classification", **task}, "data": {"folder": str(base), "train": train}}
    recipe = resolve_recipe({**tree, "tokenizer": "word", "model": {"kind": "encoder"}})
    return Preparation(recipe.task, recipe.data, recipe.tokenizer, base / "cache", model=recipe.model)


def opened(base: Path, train: dict, vocabularies: Vocabularies | None = None) -> tuple[Store, Vocabularies]:
    made = preparation(base, train)
    vocabularies = vocabularies or made.learn()
    return made.open(made.config.task(vocabularies), "train"), vocabularies


def labels(store: Store) -> list[int]:
    return store.labels["label"].tolist()


def write(file: Path, rows: list[tuple[str, str]]) -> None:
    file.write_text("".join(f"{text}\t{label}\n" for text, label in rows))


ROWS = [(f"film {number} is {word}", word) for number in range(40) for word in ("bad", "good")]
SWAPPED = [(text, "good" if label == "bad" else "bad") for text, label in ROWS]


def test_rows_of_the_hub_are_in_the_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    library = types.ModuleType("datasets")
    library.exceptions = types.SimpleNamespace(DatasetsError=type("DatasetsError", (Exception,), {}))  # type: ignore[attr-defined]
    rows = list(ROWS)
    library.load_dataset = lambda *_, **__: [{"text": text, "label": label} for text, label in rows]  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "datasets", library)
    train = {"hub": "owner/name", "split": "train", "text": "text", "label": "label"}
    before, vocabularies = opened(tmp_path, train)
    assert opened(tmp_path, train, vocabularies)[0].folder == before.folder
    rows[:] = SWAPPED  # the data set has a new revision under its old name
    after, _ = opened(tmp_path, train, vocabularies)
    assert labels(after) == [1 - label for label in labels(before)]


def test_a_file_that_changed_within_a_moment_is_read_anew(tmp_path: Path):
    train = {"file": "x.tsv", "text": 0, "label": 1}
    write(tmp_path / "x.tsv", ROWS)
    before, vocabularies = opened(tmp_path, train)
    write(tmp_path / "x.tsv", SWAPPED)
    after, _ = opened(tmp_path, train, vocabularies)
    assert labels(after) == [1 - label for label in labels(before)]


@pytest.mark.parametrize("other", [{"limit": 30}, {"label": 2}, {"part": "0%-50%"}], ids=str)
def test_how_a_file_is_read_is_in_the_key(tmp_path: Path, other: dict):
    (tmp_path / "x.tsv").write_text("".join(f"{text}\t{label}\t{label}\n" for text, label in ROWS))
    train = {"file": "x.tsv", "text": 0, "label": 1}
    made = preparation(tmp_path, train)
    task = made.config.task(made.learn())
    before = made.open(task, "train")
    changed = preparation(tmp_path, {**train, **other})
    changed.data = changed.data.but(valid=changed.data.train)
    assert changed.open(task, "train").folder != before.folder


def test_the_order_of_the_labels_is_in_the_key(tmp_path: Path):
    write(tmp_path / "x.tsv", ROWS)
    train = {"file": "x.tsv", "text": 0, "label": 1}
    before, vocabularies = opened(tmp_path, train)
    after, _ = opened(tmp_path, train, Vocabularies(vocabularies.tokenizers, vocabularies.labels[::-1]))
    assert labels(after) == [1 - label for label in labels(before)]
    np.testing.assert_array_equal(after.stream("text"), before.stream("text"))
