"""Comparisons of language models and classifiers: their scores, and tests that fit what they give."""

from pathlib import Path
from typing import Any

import pytest
from tiny_sweeps import TINY, Quiet, write_sweep

from regard.compare import Comparison, compare_sweep, read_sweep

ANIMALS = ["dog", "cat", "cow", "hen", "fox"]
WORDS = {"good": "positive", "great": "positive", "bad": "negative", "dull": "negative"}


def compared(folder: Path, task: str, model: str, data: dict[str, Any], tokenizer: str) -> Comparison:
    train = {**TINY["train"], "steps": 30, "tokens_per_batch": 256}
    recipe = {
        "task": task, "data": data, "tokenizer": tokenizer, "train": train,
        "model": {"kind": model, "width": 16, "depth": 1, "heads": 2, "dropout": 0.0},
    }  # fmt: skip
    variants = {"trained": [], "hardly": ["train.schedule.lr=1e-9"]}
    file = write_sweep(folder, variants, recipe, seeds=2, budget="steps=30")
    return compare_sweep(read_sweep([file]), folder / "out", Quiet())


def test_language_models_are_compared_by_the_losses_of_batches(tmp_path: Path):
    lines = "".join(f"the {animal} sees the {other}\n" for animal in ANIMALS for other in ANIMALS)
    (tmp_path / "text.txt").write_text(lines * 60)
    data = {"train": {"file": "text.txt"}, "batching": {"kind": "stream", "context": 32}}
    found = compared(tmp_path, "language_model", "decoder", data, "char")
    first, second = found.rows
    assert (found.metric, found.split) == ("loss", "valid")
    assert first.mean is not None
    assert second.mean is not None
    assert first.mean < second.mean
    assert second.verdict is not None
    assert not second.verdict.better
    assert second.verdict.agree
    run = first.outcomes[0]
    assert sum(run.evidence["losses"]) / len(run.evidence["losses"]) == pytest.approx(run.metrics["loss"], rel=0.05)


def test_classifiers_are_compared_by_what_they_got_right(tmp_path: Path):
    rows = [f"a {word} film number {number}\t{label}" for number in range(200) for word, label in WORDS.items()]
    (tmp_path / "reviews.tsv").write_text("\n".join(rows) + "\n")
    data = {"train": {"file": "reviews.tsv", "text": 0, "label": 1}}
    found = compared(tmp_path, "classification", "encoder", data, "word")
    first, second = found.rows
    assert found.metric == "accuracy"
    for run in (*first.outcomes, *second.outcomes):
        assert sum(run.evidence["right"]) / len(run.evidence["right"]) == pytest.approx(run.metrics["accuracy"])
    assert second.verdict is not None
    assert second.verdict.significant
    assert not second.verdict.better
