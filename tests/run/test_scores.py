"""Scores that are what they are called, and metrics that are known before a run spends time on them."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
from small_runs import TINY_MODEL, classification, language_model, translation, write_recipe

from regard import api
from regard.data.sources import SourceConfig
from regard.decode import score
from regard.errors import ConfigError
from regard.files.run_folder import BEST, linked_step
from regard.run import trainer
from regard.run.recipe import Recipe
from regard.tasks import LanguageModel
from regard.text.special_tokens import BOS, EOS
from regard.train.monitor import Quiet


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
    rows = [run.task.vocabularies.tokenizers["text"].encode(text) for text in texts]
    model: Any = run.model
    nats = -sum(map(sum, score(model, None, rows, eos=EOS, bos=BOS, device=run.device)))
    expected = nats / math.log(2) / sum(map(len, texts))
    assert api.evaluate(run, "valid").metrics["bits_per_byte"] == pytest.approx(expected, rel=1e-4)


def test_unknown_words_do_not_make_a_vocabulary_look_good(tmp_path: Path):
    """Of twenty words nearly all text is unknown: easy to predict, and worth nothing."""
    words = [f"word{number % 97}" for number in range(6000)]
    found = {}
    for name, tokenizer in (("words", {"kind": "word", "size": 20}), ("characters", "char")):
        tree = {**language_model(tmp_path, steps=60), "tokenizer": tokenizer}
        (tmp_path / "text.txt").write_text("".join(f"{' '.join(words[at : at + 8])}\n" for at in range(0, 6000, 8)))
        run = api.train(write_recipe(tmp_path, tree), out=tmp_path / name, watcher=Quiet())
        report = api.evaluate(run, "valid")
        charged = {
            part.split(":")[0]: float(part.split(":")[1]) for part in report.signatures["bits_per_byte"].split("|")
        }
        found[name] = report.metrics["bits_per_byte"], charged["unknown"], report
    score, unknown, report = found["words"]
    assert score - unknown < found["characters"][0], "without the charge it looked better"
    assert score > 4 > found["characters"][0]
    assert found["characters"][1] == 0
    assert float(report.signatures["loss"].split("unknown:")[1].removesuffix("%")) > 50
    assert report.targets.startswith("20 tokens")


def test_bits_per_byte_of_no_bytes_are_not_given(tmp_path: Path):
    run = api.train(write_recipe(tmp_path, documents(tmp_path)), out=tmp_path / "run", watcher=Quiet())
    (tmp_path / "blank.jsonl").write_text('{"text": ""}\n' * 3)
    report = api.evaluate(run, SourceConfig(file=str(tmp_path / "blank.jsonl"), text="text"))
    assert "bits_per_byte" not in report.metrics
    assert report.metrics["loss"] > 0


def test_bits_per_byte_are_of_all_of_the_text_or_not_given(tmp_path: Path):
    tree = documents(tmp_path)
    tree["model"] |= {"position": {"kind": "learned", "length": 24}}
    (tmp_path / "texts.jsonl").write_text("".join(f'{{"text": "no {number}"}}\n' for number in range(60)))
    run = api.train(write_recipe(tmp_path, tree), out=tmp_path / "run", watcher=Quiet())
    short, long = (tmp_path / f"{name}.jsonl" for name in ("short", "long"))
    short.write_text('{"text": "no 1"}\n{"text": "no 2"}\n')
    long.write_text(short.read_text() + json.dumps({"text": "no 1 " * 40}) + "\n")
    sources = [SourceConfig(file=str(file), text="text") for file in (short, long)]
    whole = api.evaluate(run, sources[0])
    some, cut = (api.evaluate(run, sources[1], overlong=overlong) for overlong in ("skip", "cut"))
    assert some.metrics == pytest.approx(whole.metrics), "what is left out is not counted as text either"
    assert "bits_per_byte" not in cut.metrics
    assert cut.fingerprint != whole.fingerprint == some.fingerprint


def test_the_first_token_of_a_line_that_is_read_alone_is_charged(tmp_path: Path):
    tree = language_model(tmp_path, steps=2)
    tree["data"]["batching"] = "bucketed"
    run = api.train(write_recipe(tmp_path, tree), out=tmp_path / "run", watcher=Quiet())
    (tmp_path / "lines.txt").write_text("the dog sees the cat\n\n")
    report = api.evaluate(run, SourceConfig(file=str(tmp_path / "lines.txt")))
    tokens, vocab = 22, run.task.vocabularies.tokenizers["text"].vocab_size
    bits = report.metrics["loss"] * (tokens - 2) / math.log(2) + 2 * math.log2(vocab)
    assert report.metrics["bits_per_byte"] == pytest.approx(bits / tokens)


@pytest.mark.parametrize("best", ["ter", "bleu", "rouge_l"])
def test_the_best_checkpoint_follows_the_direction_of_its_score(best: str, tmp_path: Path, monkeypatch):
    """Every score that a task can give may choose the best checkpoint, in its own direction; others are refused."""
    task = {"kind": "summarisation", "input_tokens": 20} if best == "rouge_l" else "translation"
    coming = iter([3.0, 1.0, 2.0])
    monkeypatch.setattr(trainer, "score_generated", lambda *_: {best: next(coming)})
    tree = {**translation(steps=3, save_every=1, valid_every=1, best=best), "task": task}
    api.train(write_recipe(tmp_path, tree), out=tmp_path / "run", watcher=Quiet())
    assert linked_step(tmp_path / "run" / "checkpoints", BEST) == (2 if best == "ter" else 1)
    other = "bleu" if best == "rouge_l" else "rouge_l"
    tree["train"]["best"] = other
    with pytest.raises(ConfigError, match=f"the validation has no metric '{other}'"):
        api.train(write_recipe(tmp_path, tree), out=tmp_path / "refused", watcher=Quiet())


def test_a_score_that_is_not_registered_cannot_be_logged(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(LanguageModel, "summarise", lambda *_: {"loss": 1.0, "charm": 2.0})
    with pytest.raises(TypeError, match="score 'charm' is not registered"):
        api.train(write_recipe(tmp_path, language_model(tmp_path, steps=1)), out=tmp_path / "run", watcher=Quiet())


@pytest.mark.parametrize(
    ("best", "sentence"),
    [
        ("los", "train.best: the validation has no metric 'los'; did you mean 'loss'"),
        ("bleu", "train.best: 'bleu' needs a task that generates text, got classification"),
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
