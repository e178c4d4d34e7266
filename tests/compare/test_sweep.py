"""Sweep files: what they may say, what is refused and how, and those that are shipped."""

from pathlib import Path

import pytest
from tiny_sweeps import TINY, write_sweep

from regard.compare import read_ladder, read_sweep
from regard.config import dump_toml
from regard.errors import RegardError

SWEEPS = Path(__file__).parents[2] / "recipes" / "sweeps"


def test_settings_are_laid_over_one_another(tmp_path: Path):
    file = write_sweep(
        tmp_path, {"plain": [], "own": ["model.width=48"]}, settings=["model.width=32", "train.steps=7"], seeds=[4, 9]
    )
    sweep = read_sweep([file], ["train.steps=9"])
    assert [variant.recipe.model.width for variant in sweep.variants] == [32, 48]
    assert {variant.recipe.train.steps for variant in sweep.variants} == {9}
    assert (sweep.config.seeds, sweep.config.budget.by) == ((4, 9), "flops")
    assert sweep.variants[0].recipe.task.default_score == "bleu"
    assert read_sweep([file], seeds=2, budget="tokens=1e5").config.seeds == (1, 2)


def test_recipes_alone_are_a_sweep(tmp_path: Path):
    for name in ("one", "two"):
        (tmp_path / f"{name}.toml").write_text(dump_toml(TINY))
    sweep = read_sweep([tmp_path / "one.toml", tmp_path / "two.toml"], ["model.depth=2"])
    assert [(variant.name, variant.recipe.model.depth) for variant in sweep.variants] == [("one", 2), ("two", 2)]


@pytest.mark.parametrize(
    ("variants", "options", "sentence"),
    [
        ({"a": ["model.widht=3"]}, {}, "variants.a: model.widht: unknown setting; did you mean 'width'?"),
        ({"a": []}, {"budget": "flop"}, "budget: cannot match 'flop'; did you mean 'flops'?"),
        ({"a": []}, {"budget": "flops=many"}, "budget: expected a number such as flops=1e12, got 'many'"),
        ({"a": []}, {"seed": 2}, "seed: unknown setting; did you mean 'seeds'?"),
        ({"a b": [], "A/B": []}, {}, "variants.A/B: its folder would be 'a-b', as that of 'a b'"),
        ({"a": ["model.kind=decoder"]}, {}, "variants.a: model.kind: translation needs one of"),
        ({"a": {"recipe": "none.toml"}}, {}, "none.toml: no such file"),
    ],
)
def test_mistakes_are_named(variants: dict, options: dict, sentence: str, tmp_path: Path):
    with pytest.raises(RegardError) as raised:
        read_sweep([write_sweep(tmp_path, variants, **options)])
    assert sentence in str(raised.value)
    assert raised.value.exit_code == 2


def test_names_must_differ_and_a_sweep_stands_alone(tmp_path: Path):
    file = write_sweep(tmp_path, {"a": []})
    with pytest.raises(RegardError, match="two recipes are called 'base'"):
        read_sweep([tmp_path / "base.toml", tmp_path / "base.toml"])
    with pytest.raises(RegardError, match="a sweep is compared alone"):
        read_sweep([file, tmp_path / "base.toml"])
    with pytest.raises(RegardError, match=r"no scaling ladder, it has no \[sizes\]"):
        read_ladder(file)


@pytest.mark.parametrize("name", ["lectures", "modifications", "street"])
def test_shipped_sweeps_are_valid(name: str):
    sweep = read_sweep([SWEEPS / f"{name}.toml"])
    models = [variant.recipe.model for variant in sweep.variants]
    assert len(sweep.config.seeds) == 3
    assert len({repr(variant.recipe) for variant in sweep.variants}) == len(models)
    if name == "modifications":
        assert len(models) > 20
        assert {model.kind for model in models} == {"encoder-decoder"}
    if name == "lectures":
        kinds = {"encoder-decoder", "lstm-seq2seq", "gnmt", "deep-att", "bytenet", "convs2s"}
        assert {model.kind for model in models} == kinds


def test_every_shipped_file_is_tested():
    assert {file.stem for file in SWEEPS.glob("*.toml")} == {"lectures", "modifications", "street", "scaling"}


def test_the_shipped_ladder_is_valid():
    ladder = read_ladder(SWEEPS / "scaling.toml")
    sizes = [recipe.model.num_params(1000, 1000) for recipe in ladder.recipes.values()]  # type: ignore[call-arg]
    assert sizes == sorted(set(sizes))
    forecast = ladder.forecast.model.num_params(1000, 1000)  # type: ignore[call-arg]
    assert forecast > sizes[-1]
    assert forecast * max(ladder.config.tokens) > 100 * sizes[0] * min(ladder.config.tokens)
