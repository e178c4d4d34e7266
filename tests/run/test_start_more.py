"""What a run takes over from another: encoders and language models into classifiers, frozen layers, rates, refusals."""

from pathlib import Path
from typing import Any

import pytest
import torch
from small_runs import TINY_MODEL, classification, language_model
from test_training import Quiet

from regard import api
from regard.compare.budget import Planner
from regard.config import dump_toml, read_toml
from regard.errors import ConfigError, RegardError
from regard.models import DecoderConfig, EncoderConfig
from regard.run.initial_weights import StartConfig, transfer_weights
from regard.run.recipe import resolve_recipe
from regard.run.sharded import translate_file

RECIPES = Path(__file__).parents[2] / "recipes"


def masked(folder: Path, steps: int = 8) -> dict[str, Any]:
    """A masked language model whose output layer has settings of its own, as BERT's has."""
    tree = language_model(folder, steps)
    model = {"kind": "encoder", **TINY_MODEL, "depth": 2}
    return {
        **tree,
        "task": "masked_language_model",
        "tokenizer": "word",
        "model": {**model, "head": {"kind": "vocabulary", "bias": True, "transform": "gelu"}},
    }


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> dict[str, Path]:
    """A masked language model, a language model, and the folder with reviews to classify."""
    folder = tmp_path_factory.mktemp("begun")
    for name, tree in (("masked", masked(folder)), ("causal", language_model(folder, 4))):
        api.train(in_folder(tree, folder), out=folder / name, watcher=Quiet())
    classification(folder)
    return {"folder": folder, "masked": folder / "masked", "causal": folder / "causal"}


def in_folder(tree: dict[str, Any], folder: Path, overrides: tuple[str, ...] = ()) -> Any:
    recipe = resolve_recipe(tree, overrides)
    return recipe.but(data=recipe.data.but(folder=str(folder)))


def started(runs: dict[str, Path], run: str, *overrides: str) -> Any:
    """A classifier that begins with a run, for one step that changes next to nothing."""
    tree = classification(runs["folder"], steps=1)
    tree = {**{key: value for key, value in tree.items() if key != "tokenizer"}, "model": {"from": str(runs[run])}}
    tree["train"] = {**tree["train"], "schedule": {"kind": "constant", "lr": 1e-9}}
    return in_folder(tree, runs["folder"], overrides)


def trained(recipe: Any, out: Path) -> tuple[Any, list[str]]:
    watcher = Quiet()
    return api.train(recipe, out=out, watcher=watcher), watcher.said


def test_an_encoder_becomes_a_classifier_without_its_output_layer(runs: dict[str, Path], tmp_path: Path):
    recipe = started(runs, "masked")
    assert recipe.model.head is None
    run, said = trained(recipe, tmp_path / "run")
    before = dict(api.load(runs["masked"]).model.named_parameters())
    own = dict(run.model.named_parameters())
    for name, weight in own.items():
        if not name.startswith("head."):
            torch.testing.assert_close(weight, before[name], atol=1e-6, rtol=0, msg=name)
    (report,) = [sentence for sentence in said if "started from" in sentence]
    assert (
        f"{len(own) - 2} of {len(own)} weights taken over; new: head.linear.weight, head.linear.bias; unused: "
        in report
    )
    assert "head.transform.weight" in report
    assert run.task.tokenizer.identity == api.load(runs["masked"]).task.tokenizer.identity
    assert set(run.task.vocabularies.labels) == {"positive", "negative"}
    assert run.classify(["a good film"])[0]


def test_a_language_model_becomes_a_classifier_or_goes_on(runs: dict[str, Path], tmp_path: Path):
    run, _ = trained(started(runs, "causal"), tmp_path / "run")
    assert run.model.config.kind == "decoder"
    assert run.classify(["a good film"])[0]
    before = dict(api.load(runs["causal"]).model.named_parameters())
    torch.testing.assert_close(
        dict(run.model.named_parameters())["embedding.table.weight"], before["embedding.table.weight"]
    )
    tree = {**language_model(runs["folder"], 1), "model": {"from": str(runs["causal"])}}
    del tree["tokenizer"]
    on, said = trained(in_folder(tree, runs["folder"]), tmp_path / "on")
    assert on.model.config == api.load(runs["causal"]).model.config
    assert any(f"{len(before)} of {len(before)} weights taken over" in sentence for sentence in said)


def test_an_output_layer_that_the_new_task_can_use_stays(runs: dict[str, Path]):
    same = {"task": "masked_language_model", "model": {"from": str(runs["masked"])}}
    head = resolve_recipe(same).model.head
    assert (head.kind, head.transform) == ("vocabulary", "gelu")
    assert (
        resolve_recipe({**same, "task": {"kind": "masked_language_model"}}, ["task=classification"]).model.head is None
    )
    given = resolve_recipe({**same, "task": "classification"}, ["model.head={kind='pooled',pooling='last'}"])
    assert given.model.head.pooling == "last"


def test_the_shipped_recipes_fit_together(tmp_path: Path):
    pretraining = resolve_recipe(read_toml(RECIPES / "pretrain" / "wikitext2-mlm.toml"))
    pretraining.check()
    resolve_recipe(read_toml(RECIPES / "pretrain" / "wikitext2-causal.toml")).check()
    (tmp_path / "recipe.toml").write_text(dump_toml(pretraining.tree()))
    tree = read_toml(RECIPES / "pretrain" / "sst2-finetune.toml")
    assert tree["model"]["from"] == "runs/wikitext2-mlm"
    fine = resolve_recipe(tree, [f"model.from={tmp_path}"])
    fine.check()
    assert (fine.model.width, fine.model.depth, fine.model.head) == (
        pretraining.model.width,
        pretraining.model.depth,
        None,
    )
    assert fine.tokenizer == pretraining.tokenizer


def test_a_comparison_counts_with_the_vocabulary_that_is_taken_over(runs: dict[str, Path], tmp_path: Path):
    task = Planner(tmp_path).task(started(runs, "masked"))
    assert task.tokenizer.identity == api.load(runs["masked"]).task.tokenizer.identity


def test_frozen_layers_and_parts_stay(runs: dict[str, Path], tmp_path: Path):
    recipe = started(runs, "masked", "start.freeze_layers=1", "start.freeze=['stack.final_norm']")
    recipe = recipe.but(train=recipe.train.but(schedule=recipe.train.schedule.but(lr=1e-2), steps=2))
    run, said = trained(recipe, tmp_path / "run")
    before = dict(api.load(runs["masked"]).model.named_parameters())
    for name, weight in run.model.named_parameters():
        frozen = name.startswith(("embedding", "stack.blocks.0.", "stack.final_norm."))
        assert frozen == (name in before and torch.equal(weight, before[name])), name
    (told,) = [sentence for sentence in said if sentence.startswith("frozen: ")]
    assert "embedding.table.weight, stack.blocks.0.*" in told


def test_lower_layers_learn_more_slowly_and_it_is_said():
    model = EncoderConfig(width=8, depth=3, heads=1).build(9, 2)
    start = StartConfig(run="x", layer_rate=0.5)
    assert start.hold(model) == ["learning rates: from ×0.0625 at the bottom to ×1 at the top"]
    held = StartConfig(run="x", layer_rate=0.5, freeze_layers=1).hold(model)
    assert held[1] == "learning rates: from ×0.25 at the bottom to ×1 at the top"
    rate = start.rates(model)
    assert [rate(name) for name in ("stack.blocks.2.x", "stack.blocks.0.x", "embedding.x", "head.x")] == [
        0.5,
        0.125,
        0.0625,
        1,
    ]


def test_what_does_not_fit_is_refused_and_nothing_is_changed():
    small = EncoderConfig(width=8, depth=1, heads=2)
    start = StartConfig(run="runs/x")
    for other, vocab, message in (
        (EncoderConfig(width=16, depth=1, heads=2), 9, r"model.width: runs/x has 16, .*expected 16, got 8"),
        (EncoderConfig(width=8, depth=1, heads=4), 9, r"model.heads: runs/x has 4, .*expected 4, got 2"),
        (DecoderConfig(width=16, depth=1, heads=2), 9, r"model.width: runs/x has 16"),
        (small, 11, r"tokenizer: runs/x has a vocabulary of 11 tokens, this model one of 9"),
    ):
        model = small.build(9, 2)
        before = {name: weight.clone() for name, weight in model.named_parameters()}
        with pytest.raises(ConfigError, match=message):
            start.load(model, other.build(vocab))
        assert all(torch.equal(weight, before[name]) for name, weight in model.named_parameters())
    with pytest.raises(
        ConfigError, match=r"start.freeze: head.linear.weight is not in runs/x, so it would stay random"
    ):
        StartConfig(run="runs/x", freeze=("head",)).load(small.build(9, 2), small.build(9))
    with pytest.raises(ConfigError, match=r"start.freeze_layers: the model has 1 layers, got 2"):
        StartConfig(run="runs/x", freeze_layers=2).hold(small.build(9, 2))


def test_settings_of_a_vocabulary_that_would_be_ignored_are_refused(runs: dict[str, Path], tmp_path: Path):
    tree = classification(runs["folder"], steps=1)
    tree |= {"tokenizer": "bpe", "start": {"run": str(runs["masked"])}}
    tree["model"] = {"kind": "encoder", **TINY_MODEL, "depth": 2}
    with pytest.raises(ConfigError, match=r"tokenizer: a model started from .* keeps its vocabulary, of kind 'word'"):
        trained(in_folder(tree, runs["folder"]), tmp_path / "run")
    run, _ = trained(in_folder({**tree, "tokenizer": "word"}, runs["folder"]), tmp_path / "same")
    assert run.task.tokenizer.identity == api.load(runs["masked"]).task.tokenizer.identity


def test_a_report_names_whole_layers_once_and_sizes_that_differ():
    deep, shallow = (EncoderConfig(width=8, depth=depth, heads=1).build(9, 2) for depth in (3, 1))
    said = transfer_weights(deep, dict(shallow.named_parameters())).sentence("runs/x")
    assert said.endswith("new: stack.blocks.1.*, stack.blocks.2.*")
    other = EncoderConfig(width=8, depth=1, heads=1, feedforward={"kind": "plain", "hidden": 4}).build(9, 2)
    taken = transfer_weights(shallow, dict(other.named_parameters()))
    assert "of another size there: stack.blocks.0.feedforward.up.weight" in taken.sentence("runs/x")


def test_what_a_run_cannot_do_is_refused_before_a_folder_is_made(runs: dict[str, Path], tmp_path: Path):
    (tmp_path / "in.txt").write_text("a dog\n")
    with pytest.raises(RegardError, match="cannot translate"):
        translate_file(api.load(runs["masked"]), tmp_path / "in.txt", tmp_path / "parts")
    assert not (tmp_path / "parts").exists()
