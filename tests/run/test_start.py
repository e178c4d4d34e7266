"""Runs that begin where others ended."""

from pathlib import Path

import pytest
import torch
from small_runs import translation
from test_training import Quiet, train

from regard import api
from regard.errors import ConfigError
from regard.models import EncoderConfig
from regard.run.initial_weights import StartConfig, transfer_weights
from regard.run.recipe import resolve_recipe


@pytest.fixture(scope="module")
def words(tmp_path_factory) -> Path:
    """A word-level run whose vocabulary lacks many words."""
    folder = tmp_path_factory.mktemp("runs") / "words"
    tree = {**translation(steps=60), "tokenizer": {"kind": "word", "size": 60}}
    train(tree, folder)
    return folder


def from_run(folder: Path, **changes) -> dict:
    tree = translation(**changes)
    return {**{key: value for key, value in tree.items() if key != "tokenizer"}, "model": {"from": str(folder)}}


def test_a_run_goes_on_from_another_with_its_vocabulary(words: Path, tmp_path: Path):
    watcher = Quiet()
    recipe = resolve_recipe(from_run(words, steps=1, schedule={"kind": "constant", "lr": 1e-9}))
    assert recipe.model == api.load(words).recipe.model
    started = api.train(recipe, out=tmp_path / "run", watcher=watcher)
    before = api.load(words)
    assert any(f"started from {words}" in said and "new" not in said for said in watcher.said)
    assert started.task.target.identity == before.task.target.identity
    for (name, one), (_, other) in zip(started.model.named_parameters(), before.model.named_parameters(), strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=0, msg=name)


def test_a_reward_needs_a_trained_start_and_trains_from_one(words: Path, tmp_path: Path):
    tree = from_run(words, steps=2)
    tree["task"] = {"kind": "translation", "reward": {"samples": 3, "max_length": 12}}
    run = train(tree, tmp_path / "run")
    assert run.step == 2
    without = {**translation(), "task": tree["task"]}
    with pytest.raises(ConfigError, match=r"task.reward: .*model.from=runs/NAME"):
        resolve_recipe(without).check()


def test_unknown_words_are_replaced_where_asked(words: Path, tmp_path: Path):
    texts = ["The animal did not cross the street because it was too tired."]
    kept = api.load(words).translate(texts)[0][0]
    dictionary = tmp_path / "words.tsv"
    dictionary.write_text("\n".join(f"{word}\tDEUTSCH" for word in texts[0].rstrip(".").split()))
    opened = api.load(words)
    task = opened.task.config.but(unknown="replace", dictionary=str(dictionary))
    replaced = task.task(opened.task.vocabularies).generator(opened.model, opened.device)
    written = replaced.translate(texts, opened.recipe.usual_search)[0][0]
    assert "<unk>" in kept.text
    assert "<unk>" not in written.text
    assert "DEUTSCH" in written.text
    with pytest.raises(ConfigError, match=r"task.unknown: replacing unknown words needs a word vocabulary"):
        resolve_recipe(translation(), ["task.unknown=replace"]).check()


def test_what_cannot_be_started_from_is_said(words: Path, tmp_path: Path):
    with pytest.raises(ConfigError, match=r"model.from: .* no run folder"):
        resolve_recipe({"model": {"from": str(tmp_path)}})
    with pytest.raises(ConfigError, match="keeps its vocabulary"):
        resolve_recipe({"model": {"from": str(words)}, "tokenizer": "bpe"})
    other = EncoderConfig(width=8, depth=1, heads=1).build(7, 2)
    with pytest.raises(ConfigError, match=r"start.run: x: none of its weights"):
        StartConfig(run="x").load(other, api.load(words).model)
    with pytest.raises(ConfigError, match=r"start.freeze: 'stak\.\*' fits no parameter"):
        StartConfig(run="x", freeze=("stak.*",)).hold(other)
    with pytest.raises(ConfigError, match=r"start.run: x has no vocabulary, this task needs source, target"):
        StartConfig(run="x").tokenizers({}, ["source", "target"])
    with pytest.raises(ConfigError, match=r"start.freeze: freezes all \d+ parameters"):
        StartConfig(run="x", freeze=("*",), layer_rate=0.5).hold(other)


def test_frozen_parameters_stay_and_lower_layers_learn_more_slowly(words: Path, tmp_path: Path):
    tree = from_run(words, steps=3)
    tree["start"] = {"freeze": ["encoder.*"], "layer_rate": 0.5}
    run, before = train(tree, tmp_path / "run"), api.load(words)
    old = dict(before.model.named_parameters())
    for name, weight in run.model.named_parameters():
        assert torch.equal(weight, old[name]) == name.startswith("encoder.") or weight.numel() == 0, name
    model = EncoderConfig(width=8, depth=3, heads=1).build(7, 2)
    rate = StartConfig(run="x", layer_rate=0.5).rates(model)
    assert [rate(f"stack.blocks.{layer}.feedforward.up.weight") for layer in range(3)] == [0.125, 0.25, 0.5]
    assert (rate("embedding.table.weight"), rate("head.linear.weight")) == (0.0625, 1.0)


def test_only_weights_of_the_same_size_are_taken_over():
    small, large = EncoderConfig(width=8, heads=1).build(7, 2), EncoderConfig(width=8, heads=1).build(9, 2)
    taken = transfer_weights(small, dict(large.named_parameters()))
    assert taken.missing == taken.unused == ["embedding.table.weight"]
    assert "new: embedding.table.weight; unused: embedding.table.weight" in taken.sentence("runs/x")
