"""The rules as functions of task, data, budget and machine: what they decide, and that what a recipe sets is kept."""

from collections.abc import Mapping
from typing import Any

import pytest

from regard.config import layered
from regard.run.defaults.cost import Candidate, Effort, Machine
from regard.run.defaults.facts import Facts, Images
from regard.run.defaults.job import Decider, Job, dropout, heads
from regard.run.defaults.rules import RULES
from regard.run.recipe import Recipe, resolve_recipe

CPU, GPU = Machine("cpu", 2e11), Machine("cuda", 6e14)
PICTURES = Images(32, True, 3, (0.5, 0.5, 0.5), (0.2, 0.2, 0.2))
MULTI30K = Facts("translation", "pair", 29_000, 62, 72, 150, 150, 12, valid=1014)
FACTS = {
    "translation": MULTI30K,
    "summarisation": Facts("summarisation", "pair", 8000, 800, 28, 4000, 60, 140, holds_out=True),
    "language_model": Facts("language_model", "line", 36_000, 27, running=True, words=5, holds_out=True),
    "masked_language_model": Facts("masked_language_model", "line", 36_000, 300, running=True, words=56, valid=3760),
    "classification": Facts(
        "classification", "labelled text", 6920, 104, long=250, words=19, classes=2, holds_out=True
    ),
    "tagging": Facts("tagging", "sentence", 6272, 84, long=300, words=16, classes=17, holds_out=True),
    "image_classification": Facts("image_classification", "image", 4000, classes=10, images=PICTURES, valid=250),
    "image_description": Facts("image_description", "image", 4000, target=40, images=PICTURES, holds_out=True),
}


def decided(facts: Facts, machine: Machine = CPU, **given: Any) -> dict[str, Any]:
    job = _job(facts, machine, given)
    return {decision.path: decision.value for decision in job.decide.decisions}


def _job(facts: Facts, machine: Machine, given: Mapping[str, Any]) -> Job:
    paths = {name.replace("__", "."): value for name, value in given.items()}
    job = Job(facts, machine, Decider(paths.items()))
    job.decide.kinds["task"] = facts.task
    RULES[facts.task](job)
    return job


def completed(facts: Facts, machine: Machine, given: Mapping[str, Any]) -> Recipe:
    """The recipe that the decisions make: all of them must be valid settings."""
    job = _job(facts, machine, given)
    overrides = [f"{name.replace('__', '.')}={value}" for name, value in given.items()]
    usual = resolve_recipe({"task": facts.task}).model.kind
    below = layered(Recipe, {"model": {"kind": usual}, **job.decide.tree()}, {})
    below["model"]["kind"] = usual
    return resolve_recipe({"task": facts.task}, overrides, below)


@pytest.mark.parametrize("machine", [CPU, GPU], ids=lambda machine: machine.device)
@pytest.mark.parametrize("task", FACTS)
@pytest.mark.parametrize("examples", [20, 1000, 100_000, 3_000_000])
def test_whatever_is_decided_is_a_valid_recipe(task: str, machine: Machine, examples: int):
    given = FACTS[task]
    facts = Facts(**{**vars(given), "examples": examples})
    recipe = completed(facts, machine, {})
    assert recipe.train.schedule.kind == "cosine"
    assert recipe.train.schedule.warmup < 1
    assert recipe.train.minutes is not None
    assert 1 / recipe.train.save_every >= 8
    assert recipe.model.width % recipe.model.heads == 0


@pytest.mark.parametrize("machine", [CPU, GPU], ids=lambda machine: machine.device)
@pytest.mark.parametrize("task", FACTS)
@pytest.mark.parametrize("examples", [1, 5])
@pytest.mark.parametrize("closed", [False, True])
def test_rules_divide_by_nothing_of_texts_without_content(task: str, machine: Machine, examples: int, closed: bool):
    empty = dict.fromkeys(("source", "target", "long", "long_target", "words", "valid"), 0)
    facts = Facts(**{**vars(FACTS[task]), **empty, "examples": examples, "closed": closed})
    assert completed(facts, machine, {}).train.minutes is not None


def test_multi30k_on_a_gpu_is_as_the_shipped_recipe_has_it():
    found = decided(MULTI30K, GPU)
    assert (found["model.width"], found["model.depth"], found["tokenizer.size"]) == (256, 3, 8000)
    assert (found["task.consistency"], found["model.dropout.residual"]) == (3.0, 0.3)
    assert found["train.tokens_per_batch"] == 8192


def test_two_cores_get_a_model_that_they_can_train():
    found, less = decided(MULTI30K, CPU, train__minutes=10), decided(MULTI30K, CPU, train__minutes=1)
    assert found["model.width"] == 128
    assert "task.consistency" not in found
    assert found["model.dropout.residual"] <= 0.1
    assert less["model.depth"] < found["model.depth"]
    assert "train.epochs" not in found


@pytest.mark.parametrize("limit", ["steps", "epochs", "minutes", "flops", "tokens"])
def test_a_budget_that_is_given_is_the_only_one(limit: str):
    found = decided(MULTI30K, CPU, **{f"train__{limit}": 5})
    assert not {"train.epochs", "train.minutes", "train.patience"} & found.keys()
    assert found["train.schedule.warmup"] < 1


def test_small_data_is_read_more_often_than_large():
    few, many = (decided(Facts(**{**vars(MULTI30K), "examples": examples}), GPU) for examples in (300, 3_000_000))
    assert few["train.epochs"] > many["train.epochs"]
    assert few["tokenizer.size"] < many["tokenizer.size"]
    assert few["model.width"] < many["model.width"]


def test_large_data_is_capped_where_all_of_it_is_not_needed():
    held = Facts(**{**vars(MULTI30K), "examples": 2_600_000, "valid": 0, "holds_out": True})
    found = decided(held, CPU)
    assert found["data.held_out"] * 2_600_000 == pytest.approx(2000, rel=0.05)
    assert found["tokenizer.sample"] * held.bytes == pytest.approx(2e7, rel=0.05)
    assert found["train.score_limit"] <= 1000


def test_text_with_unknown_words_is_read_in_words_and_small_text_in_characters():
    text = FACTS["language_model"]
    assert decided(text)["tokenizer.kind"] == "char"
    assert decided(Facts(**{**vars(text), "closed": True}))["tokenizer.kind"] == "word"
    assert decided(Facts(**{**vars(text), "examples": 1_000_000}))["tokenizer.kind"] == "bpe"
    assert decided(text, tokenizer__size=1000)["tokenizer.kind"] == "bpe"


@pytest.mark.parametrize("task", FACTS)
@pytest.mark.parametrize("machine", [CPU, GPU], ids=lambda machine: machine.device)
def test_a_setting_of_the_recipe_is_kept(task: str, machine: Machine):
    """Each decided setting in turn, given with another value, is in force with that value."""
    for path, value in decided(FACTS[task], machine).items():
        other = _another(path, value)
        if other is None:
            continue
        name = path.replace(".", "__")
        found = decided(FACTS[task], machine, **{name: other})
        assert path not in found
        recipe: Any = completed(FACTS[task], machine, {name: other})
        for part in path.split("."):
            recipe = getattr(recipe, part)
        assert recipe == other, path


KINDS = {"tokenizer.kind": "byte", "train.schedule.kind": "noam", "train.optimiser.kind": "sgd"} | {
    "data.batching.kind": "packed", "model.position.kind": "alibi", "model.norm.kind": "rms",
    "model.feedforward.kind": "gated", "model.initialise.kind": "xavier",
}  # fmt: skip
WORDS = {"train.best": "loss", "data.overlong": "skip", "tokenizer.split": "spaces", "train.precision": "bfloat16"} | {
    "model.feedforward.activation": "silu", "model.head.transform": "relu", "task.resize": "stretch",
}  # fmt: skip


def _another(path: str, value: Any) -> Any:
    """Another value of a setting; None for one that has only one, or depends on another."""
    if path in ("model.kind", "model.head.kind", "model.position.length", "model.patch", "model.channels"):
        return None
    if isinstance(value, str):
        return KINDS.get(path) or WORDS[path]
    if isinstance(value, bool):
        return not value
    if isinstance(value, list):
        return None
    if path == "train.moving_average.decay":
        return 0.5
    return value * 2 if isinstance(value, int) else round(value / 2 + 0.001, 4)


def test_a_table_that_is_given_whole_is_kept_whole():
    found = decided(MULTI30K, GPU, model__dropout=0.05)
    assert not [path for path in found if path.startswith("model.dropout")]


def test_estimates_grow_with_model_and_data():
    small, large = (Candidate(width, 3, 8000, 16, 18) for width in (128, 256))
    assert large.flops > small.flops
    one, two = (Effort(small, examples, 2048, CPU) for examples in (1000, 2000))
    assert two.seconds_per_epoch > one.seconds_per_epoch
    assert one.epochs({"epochs": 3.0, "minutes": 1e9}) == 3.0
    assert one.epochs({"steps": 10 * one.steps_per_epoch}) == pytest.approx(10)


def test_heads_divide_the_width():
    assert [heads(width) for width in (64, 128, 256, 384, 512, 100)] == [2, 4, 4, 6, 8, 2]
    assert dropout(1) < dropout(10) < dropout(30) < dropout(100)
