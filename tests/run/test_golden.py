"""Twenty steps against stored losses: a change that means to change nothing must not change these."""

import json
from pathlib import Path

import pytest
from small_runs import translation
from test_training import train

from regard.train.log import read_metrics

STORED = Path(__file__).with_name("golden_losses.json")
CORPUS = Path(__file__).with_name("golden_corpus")
"""Sentences of the embedded corpus as it once was: that may grow, these losses are about training."""


@pytest.mark.parametrize("variant", ["plain", "modern", "packed"])
def test_losses_of_twenty_steps(variant: str, tmp_path: Path):
    tree = translation(steps=20, save_every=20)
    tree["data"] = {
        split: {"file": str(CORPUS / f"{split}.tsv"), "source": 0, "target": 1, "header": False}
        for split in ("train", "valid")
    }
    if variant == "modern":
        parts = {"position": "rotary", "norm": "rms", "feedforward": "gated", "attention": {"kv_heads": 1}}
        tree["model"] = {**tree["model"], **parts}
    if variant == "packed":
        tree["data"] = {**tree["data"], "batching": "packed"}
    tree["model"] = {**tree["model"], "dropout": 0.0}  # whose draws differ between machines
    train(tree, tmp_path / "run")
    lines = [line for line in read_metrics(tmp_path / "run" / "metrics.jsonl") if line.get("split") == "train"]
    losses = [line["objective"] for line in lines]
    stored = json.loads(STORED.read_text())
    assert len(losses) == 20
    assert losses == pytest.approx(stored[variant], rel=1e-3)
