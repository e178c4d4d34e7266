"""What each kind of budget makes of a recipe, and models scaled to a number of parameters."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_sweeps import LSTM, TINY, write_sweep

from regard.compare import read_sweep
from regard.compare.budget import Planner, equalised, limited, shortened, with_params
from regard.errors import ConfigError
from regard.models import kinds_of
from regard.run.recipe import resolve_recipe
from regard.train.budget import BudgetConfig


def limits(train) -> dict[str, float]:
    found = {name: getattr(train, name) for name in BudgetConfig.model_fields}
    return {name: value for name, value in found.items() if value is not None}


def test_one_limit_replaces_all_others():
    train = resolve_recipe({"train": {"steps": 5, "minutes": 2, "patience": 3}}).train
    assert limits(limited(train, "flops", 1e12)) == {"flops": 1e12}
    assert limits(limited(train, "tokens", 1234.4)) == {"tokens": 1234}
    assert limited(train, "steps", 7).patience is None


def test_a_share_of_the_budget_has_a_share_of_the_warm_up():
    train = resolve_recipe({"train": {"steps": 500, "schedule": {"kind": "cosine", "warmup": 40}}}).train
    short = shortened(train, 0.1)
    assert (short.steps, short.schedule.warmup, short.schedule.lr) == (50, 4, train.schedule.lr)


def test_the_first_recipes_own_budget_in_other_units(tmp_path: Path):
    planner = Planner(tmp_path)
    recipe = resolve_recipe(TINY)
    epoch = planner.epoch(recipe)
    steps = planner.recipe_amount(recipe, "steps")
    assert steps == pytest.approx(110)
    assert planner.recipe_amount(recipe, "tokens") == pytest.approx(110 * epoch.tokens / epoch.steps)
    by_epochs = recipe.but(train=recipe.train.but(steps=None, epochs=2))
    assert planner.recipe_amount(by_epochs, "flops") == pytest.approx(2 * epoch.flops)
    by_minutes = recipe.but(train=recipe.train.but(steps=None, minutes=2))
    assert planner.recipe_amount(by_minutes, "minutes") == 2
    with pytest.raises(ConfigError, match="budget is in minutes only; say how much: flops=1e12"):
        planner.recipe_amount(by_minutes, "flops")
    with pytest.raises(ConfigError, match=r"has no train\.minutes; say how many"):
        planner.recipe_amount(recipe, "minutes")


def test_equal_parameters_scale_the_width(tmp_path: Path):
    variants = {"transformer": [], "lstm": LSTM, "wide": ["model.width=200"], "words": ["tokenizer.size=400"]}
    file = write_sweep(tmp_path, variants, {**TINY, "model": {**TINY["model"], "width": 96, "depth": 2}})
    sweep = read_sweep([file], budget="params")
    planner = Planner(tmp_path / "plan")
    variants, wanted = equalised(sweep.variants, sweep.config.budget, planner)
    assert variants[0].recipe.model == sweep.variants[0].recipe.model
    for variant in variants:
        count = planner.task(variant.recipe).num_params(variant.recipe.model)
        assert count == pytest.approx(wanted, rel=0.02), variant.name
    assert len({variant.recipe.train.tokens for variant in variants}) == 1
    impossible, _ = equalised(sweep.variants, sweep.config.budget.but(amount=10), planner)
    assert "no width gives 10 parameters within 2 %" in (impossible[1].problem or "")


@pytest.mark.parametrize("kind", kinds_of("encoder-decoder"))
@settings(max_examples=4)
@given(st.integers(4_000_000, 9_000_000))
def test_every_kind_meets_a_number_of_parameters(kind: str, wanted: int):
    model = resolve_recipe({"model": {"kind": kind}}).model
    scaled = with_params(model, lambda one: one.num_params(500, 500), wanted)  # type: ignore[union-attr, call-arg]
    assert scaled.num_params(500, 500) == pytest.approx(wanted, rel=0.02)
    assert scaled.kind == kind
