"""Renamed settings: the old name is read as the present one, and a person is told once."""

import pytest

from regard.config import explain
from regard.config.merge import tell_renamed
from regard.run.recipe import Recipe, resolve_recipe

OLD = {"train": {"between_blocks": "float32"}}


@pytest.fixture(autouse=True)
def _untold():
    tell_renamed.cache_clear()


def test_recipes_and_overrides_with_the_old_name_load_and_say_so_once(capsys: pytest.CaptureFixture[str]):
    for recipe in (resolve_recipe(OLD), resolve_recipe(OLD), resolve_recipe({}, ["train.between_blocks=float32"])):
        assert recipe.train.residual_dtype == "float32"
    expected = "regard: train.between_blocks is now called train.residual_dtype; the old name still works\n"
    assert capsys.readouterr().err == expected


def test_an_override_by_either_name_wins_over_the_recipe():
    for name in ("between_blocks", "residual_dtype"):
        assert resolve_recipe(OLD, [f"train.{name}=bfloat16"]).train.residual_dtype == "bfloat16"


def test_a_saved_recipe_loads_in_silence_and_is_saved_with_the_present_name(capsys: pytest.CaptureFixture[str]):
    recipe = Recipe.from_tree(OLD)
    assert recipe.tree()["train"]["residual_dtype"] == "float32"
    assert "between_blocks" not in recipe.tree()["train"]
    assert capsys.readouterr().err == ""


def test_the_old_name_is_explained_as_the_present_one():
    assert [setting.path for setting in explain(Recipe, "train.between_blocks")] == ["train.residual_dtype"]


def test_a_setting_of_a_kind_that_was_renamed_loads_by_its_old_name():
    tree = {"task": "language_model", "model": {"kind": "decoder", "attention": {"kind": "full", "maps": False}}}
    assert resolve_recipe(tree).model.attention.tree()["projections"] is False
    kept = resolve_recipe({**tree, "model": {"kind": "decoder"}}, ["model.attention.maps=false"])
    assert kept.model.attention.tree()["projections"] is False
