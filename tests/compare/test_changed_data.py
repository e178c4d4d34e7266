"""Results of a comparison hold for the data that they were made on, wherever it lies."""

from pathlib import Path

import pytest
from tiny_sweeps import Quiet, write_sweep

from regard.compare import compare_sweep, read_sweep
from regard.errors import RunError

LINES = [
    f"a {word} film number {number}\t{label}\n" for number in range(20) for word, label in (("bad", 0), ("good", 1))
]
RECIPE = {
    "task": "classification",
    "data": {split: {"file": f"{split}.tsv", "text": 0, "label": 1} for split in ("train", "valid", "test")},
    "tokenizer": "word",
    "model": {"kind": "encoder", "width": 8, "depth": 1, "heads": 1},
    "train": {"steps": 2, "tokens_per_batch": 64, "save_every": 2, "log_every": 1, "precision": "float32"},
}


def write_data(folder: Path) -> None:
    for split in ("train", "valid", "test"):
        (folder / f"{split}.tsv").write_text("".join(LINES))


def test_results_on_data_that_changed_are_not_taken_for_new_ones(tmp_path: Path):
    file = write_sweep(tmp_path / "sweep", {"one": [], "two": ["train.schedule.lr=0.01"]}, RECIPE, seeds=1,
                       budget="steps=2")  # fmt: skip
    write_data(tmp_path / "sweep")
    first = compare_sweep(read_sweep([file]), tmp_path / "out", Quiet())
    said = Quiet()
    again = compare_sweep(read_sweep([file]), tmp_path / "out", said)
    assert [row.scores for row in again.rows] == [row.scores for row in first.rows]
    assert not said.said  # nothing was trained
    (tmp_path / "sweep").rename(tmp_path / "moved")
    moved = tmp_path / "moved" / "sweep.toml"
    assert compare_sweep(read_sweep([moved]), tmp_path / "out", said).rows[0].scores == first.rows[0].scores
    assert not said.said
    test = tmp_path / "moved" / "test.tsv"
    test.write_text(test.read_text().replace("good film number 3\t1", "good film number 3\t0"))
    with pytest.raises(RunError, match=r"runs/one/seed-1: data\.test changed since its result; choose another --out"):
        compare_sweep(read_sweep([moved]), tmp_path / "out", said)
