"""Scores that are what they are called, and metrics that are known before a run spends time on them."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
from small_runs import TINY_MODEL, classification, language_model, translation, write_recipe

from regard import api
from regard.claims.setup import Quiet
from regard.data.special import BOS, EOS
from regard.decode import score
from regard.errors import ConfigError
from regard.run.recipe import Recipe


def documents(folder: Path) -> dict:
    lines = [json.dumps({"text": f"no {number}"}) + "\n" for number in range(60)]
    (folder / "texts.jsonl").write_text("".join(lines))
    source = {"file": "texts.jsonl", "text": "text"}
    return {
        **language_model(folder, steps=2),
        "data": {"train": source, "valid": source, "batching": "bucketed"},
        "model": {"kind": "decoder", **TINY_MODEL},
    }


def test_bits_per_byte_count_what_is_predicted_and_not_the_begin_tokens(tmp_path: Path):
    run = api.train(write_recipe(tmp_path, documents(tmp_path)), out=tmp_path / "run", watcher=Quiet())
    texts = [f"no {number}" for number in range(60)]
    rows = [run.task.lexicon.tokenizers["text"].encode(text) for text in texts]
    model: Any = run.model
    nats = -sum(map(sum, score(model, None, rows, eos=EOS, bos=BOS, device=run.device)))
    expected = nats / math.log(2) / sum(map(len, texts))
    assert api.evaluate(run, "valid").metrics["bits_per_byte"] == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize(
    ("best", "sentence"),
    [
        ("los", "train.best: the validation has no metric 'los'; did you mean 'loss'"),
        ("bleu", "train.best: 'bleu' needs a task that writes, got classification"),
    ],
)
def test_a_metric_that_nobody_measures_is_refused_before_the_first_step(tmp_path: Path, best: str, sentence: str):
    tree = classification(tmp_path, steps=2)
    tree["train"]["best"] = best
    with pytest.raises(ConfigError, match=sentence):
        api.train(write_recipe(tmp_path, tree), out=tmp_path / "run", watcher=Quiet())
    assert not (tmp_path / "run" / "recipe.toml").exists(), "the folder is still free"
    tree["train"]["best"] = "accuracy"
    api.train(write_recipe(tmp_path, tree), out=tmp_path / "run", watcher=Quiet())
    tree["train"] |= {"best": best, "steps": 3}
    with pytest.raises(ConfigError, match=sentence):
        api.train(write_recipe(tmp_path, tree), out=tmp_path / "run", watcher=Quiet(), resume=True)


def test_a_seed_that_no_generator_takes_is_refused():
    assert Recipe.from_tree({**translation(), "seed": 2**32 - 1}).seed == 2**32 - 1
    with pytest.raises(ConfigError, match="seed: expected less than 4294967296, got 10000000000"):
        Recipe.from_tree({**translation(), "seed": 10_000_000_000})
