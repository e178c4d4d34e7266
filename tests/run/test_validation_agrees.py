"""Validation in training and a test on the same data give the same scores, whatever the data looks like."""

import json
from pathlib import Path
from typing import Any

import pytest
from small_runs import TINY_MODEL, translation, write_recipe

from regard import api
from regard.metrics.registry import METRICS
from regard.run import conclusion
from regard.train.log import read_metrics
from regard.train.monitor import Quiet

TEXTS = [
    "", " ", "\t", "x", "no", "the dog sleeps", "the dog sleeps", "THE DOG  sleeps ", "unheard words 12", "¿é ß?",
    *[f"the {noun} sees {number} dogs" for noun in ("cat", "cow", "fox") for number in range(6)],
    "the dog " * 40, "a very long one " * 20,
]  # fmt: skip
"""Blank ones, of one token, twice the same, with odd spaces and capitals, unknown words, far too long."""
ENCODER = {"kind": "encoder", **TINY_MODEL}
DECODER = {"kind": "decoder", **TINY_MODEL}
LIMIT = {"max_length": 24}


def json_lines(folder: Path, name: str, rows: list[dict[str, str]]) -> dict[str, Any]:
    (folder / name).write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return {"file": name, **{column: column for column in rows[0]}}


def data_of(folder: Path, kind: str) -> dict[str, Any]:
    """The odd texts as validation data, and those that can be learnt from as training data."""
    match kind:
        case "text":
            valid, train = ([{"text": text} for text in texts] for texts in (TEXTS, TEXTS[5:28] * 2))
        case "labelled":
            labels = ["long" if len(text) > 16 else "short" for text in TEXTS]
            valid = [{"text": text, "label": label} for text, label in zip(TEXTS, labels, strict=True)]
            train = valid[3:28]
        case _:
            valid = [{"source": text, "target": text[::-1]} for text in TEXTS[:28]]
            train = [*valid[3:], *valid[3:]]
    return {"train": json_lines(folder, "train.jsonl", train), "valid": json_lines(folder, "valid.jsonl", valid)}


def trees(folder: Path) -> None:
    short = [("the dog sleeps", "DET NOUN VERB"), ("dogs", "NOUN"), ("dogs", "NOUN"), ("a cat sees", "DET NOUN VERB")]
    sentences = [*short, ("the cat " * 20 + "sees", "DET NOUN " * 20 + "VERB")]
    lines = []
    for words, tags in sentences:
        for number, (word, tag) in enumerate(zip(words.split(), tags.split(), strict=True), start=1):
            lines.append(f"{number}\t{word}\t_\t{tag}\t_\t_\t{number - 1}\tdep\t_\t_")
        lines.append("")
    (folder / "valid.conllu").write_text("\n".join(lines) + "\n")


CASES: dict[str, dict[str, Any]] = {
    "documents": {"task": "language_model", "model": DECODER, "content": "text", "data": {"batching": "bucketed"}},
    "documents, a stream": {"task": "language_model", "model": DECODER, "content": "text"},
    "documents, words": {"task": "language_model", "model": DECODER, "content": "text", "tokenizer": "word"},
    "hidden tokens": {"task": "masked_language_model", "model": ENCODER, "content": "text"},
    "hidden tokens, texts": {
        "task": "masked_language_model", "model": ENCODER, "content": "text", "data": {"batching": "bucketed", **LIMIT},
    },
    "labels, too long left out": {"task": "classification", "model": ENCODER, "content": "labelled", "data": LIMIT},
    "labels, too long cut": {
        "task": "classification", "model": ENCODER, "content": "labelled", "data": {**LIMIT, "overlong": "cut"},
    },
    "tags": {"task": "tagging", "model": ENCODER, "content": "trees", "data": LIMIT},
    "translations": {"task": "translation", "model": translation()["model"], "content": "pairs", "best": "bleu"},
    "summaries": {
        "task": {"kind": "summarisation", "input_tokens": 12}, "model": translation()["model"], "content": "pairs",
        "best": "rouge_l",
    },
    "summaries by a decoder": {
        "task": {"kind": "summarisation", "input_tokens": 12}, "model": DECODER, "content": "pairs", "best": "rouge_l",
    },
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_both_agree(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(conclusion, "curves", lambda *_: None)
    given = CASES[case]
    if given["content"] == "trees":
        trees(tmp_path)
        data = {"train": {"file": "valid.conllu"}, "valid": {"file": "valid.conllu"}}
    else:
        data = data_of(tmp_path, given["content"])
    best = {"best": given["best"]} if "best" in given else {}
    train = {**translation()["train"], "steps": 3, "save_every": 3, "tokens_per_batch": 512, **best}
    tree = {
        "task": given["task"], "model": {**given["model"], "dropout": 0.1}, "data": {**data, **given.get("data", {})},
        "tokenizer": given.get("tokenizer", "char"), "train": train,
    }  # fmt: skip
    if best:
        tree["search"] = {"kind": "greedy", "max_length": 128}
    run = api.train(write_recipe(tmp_path, tree), out=tmp_path / "run", watcher=Quiet())
    valid = [line for line in read_metrics(tmp_path / "run" / "metrics.jsonl") if line.get("split") == "valid"][-1]
    report = api.evaluate(run, "valid")
    common = {name for name in METRICS if name in valid and name in report.metrics}
    assert common >= {given.get("best", "loss"), run.task.best_metric} - ({"loss"} if case == "translations" else set())
    for name in common:
        assert report.metrics[name] == pytest.approx(valid[name], rel=1e-5), name
    if case.startswith("labels"):
        blank, long = 3, 0 if "cut" in case else 12
        left_out = report.details["left_out"]
        assert left_out["blank"] == blank
        assert sum(left_out.values()) == len(TEXTS) - report.examples
        assert (report.examples < len(TEXTS) - blank) == bool(long)
        assert len(report.evidence["right"]) == report.examples
