"""`defaults → recipe → key=value`, and the sentences for whatever does not fit."""

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.config import dump_toml, explain, layered, parse_override, read_toml, resolve
from regard.config.tree import help_texts, kinds
from regard.errors import ConfigError, DataError, RegardError
from regard.models import DecoderConfig, EncoderConfig, ModelConfig
from regard.nn.position import AlibiConfig, PositionConfig
from regard.run import Recipe
from regard.run.recipe import resolve_recipe


def test_an_override_keeps_the_kind_it_lands_on():
    recipe = resolve_recipe({"model": {"position": {"kind": "rotary", "share": 0.5}}}, ["model.position.theta=5"])
    assert (recipe.model.position.kind, recipe.model.position.theta, recipe.model.position.share) == (
        "rotary",
        5.0,
        0.5,
    )


def test_an_override_lands_on_the_default_kind():
    assert resolve_recipe({}, ["model.position.base=50"]).model.position.base == 50.0


def test_changing_a_kind_drops_what_only_the_old_kind_had():
    tree = {"model": {"position": {"kind": "learned", "length": 99, "layers": "every"}}}
    changed = resolve_recipe(tree, ["model.position.kind=sinusoidal"]).model.position
    assert changed.layers == "every"
    assert resolve_recipe(tree, ["model.position.kind=alibi"]).model.position == AlibiConfig()
    assert resolve_recipe(tree, ["model.position=alibi"]).model.position == AlibiConfig()


def test_changing_the_model_keeps_what_all_models_share():
    tree = {"model": {"kind": "encoder-decoder", "width": 64, "decoder_depth": 2, "embedding": {"scale": False}}}
    model = resolve_recipe(tree, ["model.kind=decoder"]).model
    assert (model.kind, model.width, model.embedding.scale) == ("decoder", 64, False)


def test_a_bare_kind_stands_for_its_defaults():
    assert resolve_recipe({"model": {"position": "alibi"}}).model.position == AlibiConfig()


def test_presets_go_below_recipe_and_overrides():
    recipe = resolve_recipe({"model": {"preset": "gpt2-124m", "depth": 3}}, ["model.position=rotary"])
    assert (recipe.model.kind, recipe.model.width, recipe.model.depth) == ("decoder", 768, 3)
    assert recipe.model.position.kind == "rotary"
    assert resolve_recipe({}, ["model.preset=t5-small"]).model.position.kind == "t5"


def test_an_empty_table_switches_on_what_it_names_and_clears_nothing():
    tree = {"model": {"preset": "gpt2-124m", "position": {}}, "train": {"moving_average": {}}}
    recipe = resolve_recipe(tree)
    assert recipe.train.moving_average is not None
    assert (recipe.model.position.kind, recipe.model.position.length) == ("learned", 1024)
    rates = resolve_recipe({"model": {"preset": "transformer-base", "dropout": {}}}).model.dropout
    assert (rates.embedding, rates.residual) == (0.1, 0.1)


@pytest.mark.parametrize("tree", [{"preset": "transformer-base"}, {"dropout": 0.1}, {"dropout": {"embedding": 0.1}}])
def test_a_setting_lands_beside_what_a_number_is_short_for(tree):
    rates = resolve_recipe({"model": tree}, ["model.dropout.attention=0.2"]).model.dropout
    assert (rates.embedding, rates.attention) == (0.1, 0.2)


@pytest.mark.parametrize(
    ("override", "sentence"),
    [
        ("model.positon=1", "model.positon: unknown setting; did you mean 'position'?"),
        (
            "model.position.theta=5",
            "model.position.theta: kind 'sinusoidal' has no such setting; these kinds have it: rotary",
        ),
        ("model.position.kind=ropee", "model.position: unknown kind 'ropee'"),
        ("model.kind=decodr", "model: unknown kind 'decodr'; did you mean 'decoder'?"),
        ("model.width=wide", "model.width: expected a whole number"),
        ("model.width=3.7", "model.width: expected a whole number, got 3.7"),
        ("model.width=1e30", "model.width: expected a whole number of fewer digits, got 1e+30"),
        ("model.norm.gain=3", "model.norm.gain: expected true or false, got 3"),
        ("train=3", "train: expected a table, got 3"),
        ("model=[]", "model: expected a table, got []"),
        ("train.track=7", "train.track: expected a list, got 7"),
        ("model.attention={kind='alternating',kinds=[]}", "model.attention.kinds: expected a list of at least"),
        ("model.width=-4", "model.width: expected greater than 0, got -4"),
        ("model.heads=7", "model.heads: expected a divisor of width = 256, got 7"),
        ("model.attention.kv_heads=3", "model.attention.kv_heads: expected a divisor of heads = 4, got 3"),
        ("model.norm_place=middle", "model.norm_place: expected 'before' or 'after', got 'middle'"),
        ("model.preset=gpt3", "model.preset: unknown preset 'gpt3'"),
        ("model.width.x=3", "model.width: 'x' cannot stand below it"),
        ("width", "expected key=value such as model.width=512, got 'width'"),
        ("model.feedforward={kind='experts',experts=0}", "model.feedforward.experts: expected greater than 0, got 0"),
        ("model.dropout=1.5", "model.dropout.embedding: expected less than 1, got 1.5"),
    ],
)
def test_mistakes_are_one_sentence_with_the_path(override: str, sentence: str):
    with pytest.raises(ConfigError) as caught:
        resolve_recipe({}, [override])
    assert str(caught.value).startswith(sentence)
    assert "\n" not in str(caught.value)


def test_configs_built_by_hand_refuse_in_the_same_way():
    with pytest.raises(ConfigError, match="heads: expected a divisor of width = 10, got 3"):
        EncoderConfig(width=10, heads=3)
    with pytest.raises(ConfigError, match=r"attention\.kv_heads"):
        EncoderConfig(attention={"kind": "full", "kv_heads": 3})  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"attention\.shape|head_width"):
        EncoderConfig(attention={"shape": "wide", "head_width": 8, "kind": "full"})  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", kinds(PositionConfig))
def test_each_kind_survives_the_way_through_toml(kind: str, tmp_path: Path):
    if kind == "tree":
        tree = {"model": {"kind": "encoder", "position": kind}}
    else:
        tree = {"model": {"kind": "decoder", "position": kind, "feedforward": "gated", "norm": "rms"}}
    recipe = resolve_recipe(tree)
    file = tmp_path / "recipe.toml"
    file.write_text(dump_toml(recipe.tree()))
    assert resolve_recipe(read_toml(file)) == recipe


def test_recipe_files_that_cannot_be_read(tmp_path: Path):
    broken = tmp_path / "broken.toml"
    broken.write_text("seed = \n")
    with pytest.raises(DataError, match=r"broken\.toml: not valid TOML: .*line 1"):
        read_toml(broken)
    with pytest.raises(DataError, match="no such file"):
        read_toml(tmp_path / "none.toml")
    with pytest.raises(DataError, match="got a folder"):
        read_toml(tmp_path)
    broken.write_bytes(b"seed = 1\n# \xff\n")
    with pytest.raises(DataError, match=r"broken\.toml:2: not UTF-8"):
        read_toml(broken)
    broken.write_text("a = " + "[" * 9_000)
    with pytest.raises(DataError, match=r"nested too deeply|not valid TOML"):
        read_toml(broken)


@given(st.text())
def test_any_override_is_taken_or_refused_with_a_sentence(text: str):
    with suppress(RegardError):
        resolve_recipe({}, [text])


@given(st.integers() | st.booleans() | st.floats(allow_nan=False, allow_infinity=False))
def test_values_are_read_as_toml(value: object):
    text = str(value).lower() if isinstance(value, bool) else str(value)
    path, read = parse_override(f"a.b={text}")
    assert path == ["a", "b"]
    assert read == value


def test_every_setting_has_help():
    undocumented = [setting.path for setting in explain(Recipe) if not setting.help]
    for kind, member in kinds(Recipe.model_fields["model"].annotation).items():
        for name, field in member.model_fields.items():
            for family_kind, config in kinds(field.annotation).items():
                undocumented += [f"{kind}.{name}.{family_kind}: no summary"] if not config.__doc__ else []
                undocumented += [
                    f"{kind}.{name}.{family_kind}.{inner}"
                    for inner in config.model_fields
                    if inner != "kind" and not help_texts(config).get(inner)
                ]
            if name != "kind" and not help_texts(member).get(name):
                undocumented.append(f"{kind}.{name}")
    assert not undocumented


def test_explain_names_unknown_paths():
    assert explain(Recipe, "model.position.theta")[0].default == "10000.0"
    with pytest.raises(ConfigError, match="did you mean 'position'"):
        explain(Recipe, "model.positio")


def test_schema_knows_every_model():
    schema = Recipe.model_json_schema()
    models = [schema["$defs"][model["$ref"].rpartition("/")[2]] if "$ref" in model else model
              for model in schema["properties"]["model"]["oneOf"]]  # fmt: skip
    assert {model["properties"]["kind"]["const"] for model in models} == set(kinds(ModelConfig))
    assert all(model["properties"]["width"]["description"] for model in models)


def test_frozen_and_changed_copies_are_checked():
    config = DecoderConfig(width=32)
    assert config.but(depth=7).depth == 7
    with pytest.raises(ConfigError, match="heads"):
        config.but(heads=5)


def test_a_family_without_a_default_needs_its_kind_first():
    laid = layered(Recipe, {"seed": 2}, {"search": {"kind": "beam", "size": 3}})
    assert laid["search"] == {"kind": "beam", "size": 3}
    assert resolve(Recipe, {}, ["search.kind=beam", "search.size=7"]).search.size == 7
    with pytest.raises(ConfigError, match=r"search: expected its kind first, such as search\.kind="):
        resolve(Recipe, {}, ["search.size=7"])
