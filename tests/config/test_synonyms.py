"""The field's other names lead to the settings: every target exists, every word is refused with its replacement."""

import json

import pytest
from typer.testing import CliRunner

from regard.cli import app
from regard.config import explain, search
from regard.config.synonyms import PATHS, SETTINGS, TAKEN_OUT, VALUES, meant_setting, meant_value
from regard.config.tree import all_paths, kinds
from regard.errors import ConfigError
from regard.run.recipe import Recipe, resolve_recipe

KNOWN = all_paths(Recipe)


@pytest.mark.parametrize("path", [path for path in PATHS if path not in TAKEN_OUT])
def test_every_setting_that_a_word_leads_to_exists(path: str):
    assert path in KNOWN
    assert explain(Recipe, path)


def test_every_value_that_a_word_leads_to_exists():
    for pairs in VALUES.values():
        for path, value in pairs:
            settings = explain(Recipe, path.removesuffix(".kind"))
            assert value in settings[0].type.replace("one of ", "").split(", "), f"{path}={value}"


def test_no_word_that_leads_elsewhere_is_a_setting_of_its_own_at_the_same_place():
    for word, path in SETTINGS.items():
        assert path.rpartition(".")[0] + "." + word not in KNOWN - {path}, word


NAMES = {
    "lr": "train.schedule.lr", "learning_rate": "train.schedule.lr", "batch_size": "train.tokens_per_batch",
    "warmup": "train.schedule.warmup", "warmup_steps": "train.schedule.warmup", "epochs": "train.epochs",
    "max_steps": "train.steps", "d_model": "model.width", "hidden_size": "model.width", "n_layers": "model.depth",
    "num_layers": "model.depth", "n_heads": "model.heads", "num_attention_heads": "model.heads", "nhead": "model.heads",
    "ffn_dim": "model.feedforward.hidden", "d_ff": "model.feedforward.hidden", "dropout_rate": "model.dropout",
    "weight_decay": "train.optimiser.weight_decay", "optimizer": "train.optimiser", "max_len": "data.max_length",
    "vocab_size": "tokenizer.size", "num_beams": "search.size", "beam_size": "search.size",
    "temperature": "search.temperature", "label_smoothing": "task.smoothing", "fp16": "train.precision",
    "bf16": "train.precision", "amp": "train.precision", "gradient_accumulation_steps": "train.accumulate",
    "grad_clip": "train.clip", "checkpoint": "train.save_every", "early_stopping": "train.patience",
    "patience": "train.patience", "rope": "model.position.kind=rotary", "alibi": "model.position.kind=alibi",
    "adam": "train.optimiser.kind=adamw", "gpt": "model.kind=decoder", "bert": "model.kind=encoder",
    "transformer": "model.kind=encoder-decoder", "layernorm": "model.norm.kind=layer",
    "gqa": "model.attention.kv_heads",
    "rmsnorm": "model.norm.kind=rms", "swiglu": "model.feedforward.kind=gated", "Batch-Size": "train.tokens_per_batch",
    "moe": "model.feedforward.kind=experts", "flash_attention": "model.attention.kind=full", "minutes": "train.minutes",
}  # fmt: skip


@pytest.mark.parametrize("word", NAMES)
def test_a_word_as_a_setting_is_refused_with_its_replacement(word: str):
    said = f"{word}: unknown setting; that is {NAMES[word]}"
    for tree, overrides, path in [
        ({word: 1}, [], ""),
        ({}, [f"{word}=1"], ""),
        ({"model": {word: 1}}, [], "model."),
        ({}, [f"start.{word}=1"], "start."),
    ]:
        with pytest.raises(ConfigError) as caught:
            resolve_recipe(tree, overrides)
        assert str(caught.value).startswith(f"{path}{said}"), str(caught.value)


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("model.position=rope", "model.position: unknown kind 'rope'; that is 'rotary' here"),
        ("model.kind=transformer", "model: unknown kind 'transformer'; that is 'encoder-decoder' here"),
        ("train.optimiser=adam", "train.optimiser: unknown kind 'adam'; that is 'adamw' here"),
        ("model.norm=RMSNorm", "model.norm: unknown kind 'RMSNorm'; that is 'rms' here"),
        ("task=mlm", "task: unknown kind 'mlm'; that is 'masked_language_model' here"),
        ("train.device=gpu", "got 'gpu'; that is 'cuda' here"),
        ("train.precision=bf16", "got 'bf16'; that is 'bfloat16' here"),
        ("search.num_beams=4", "search.num_beams: unknown setting; that is search.size here (of kind 'beam')"),
        ("search.size=4", "search: expected its kind first, such as search.kind=beam"),
        ("train.seed=4", "train.seed: unknown setting; that is seed here"),
        ("model.positon=x", "model.positon: unknown setting; did you mean 'position'?"),
    ],
)
def test_words_as_values_and_in_their_places(setting: str, said: str):
    with pytest.raises(ConfigError) as caught:
        resolve_recipe({}, [setting])
    assert str(caught.value).endswith(said)


def test_a_tree_without_the_setting_knows_no_synonym():
    assert meant_setting("lr", {"seeds", "budget"}) == ""
    assert meant_value("rope", kinds(Recipe.model_fields["tokenizer"].annotation)) == ""
    assert meant_value(3, ["a"]) == ""


@pytest.mark.parametrize(
    ("word", "first"),
    [
        ("lr", "train.schedule.lr"), ("rope", "model.position.kind"), ("beam_size", "search.size"),
        ("dropout", "tokenizer.dropout"), ("early stopping", "train.patience"), ("vocab_size", "tokenizer.size"),
    ],
)  # fmt: skip
def test_search_finds_by_name_synonym_and_help(word: str, first: str):
    found = search(Recipe, word)
    assert first in [one.path for one in found[:3]]
    assert len({(one.path, one.default) for one in found}) == len(found)


def test_explain_lists_what_a_word_may_mean():
    done = CliRunner().invoke(app, ["config", "--explain", "learning_rate"])
    assert done.stdout.startswith("train.schedule.lr = ")
    rows = json.loads(CliRunner().invoke(app, ["config", "--explain", "rope", "--json"]).stdout)
    assert (rows[0]["path"], rows[0]["default"]) == ("model.position.kind", '"rotary"')
    with pytest.raises(ConfigError, match="no setting has this word"):
        search(Recipe, "xyzzy")


@pytest.mark.parametrize(
    "setting", ["train.patience", "search", "data.folder", "train.moving_average", "start", "train.best"]
)
def test_none_takes_a_setting_back(setting: str):
    """What `regard config` prints for a setting that is not set can be given for it."""
    part, _, name = setting.partition(".")
    for recipe in (resolve_recipe({}, [f"{setting}=none"]), resolve_recipe({part: {name: "none"} if name else "none"})):
        value = getattr(recipe, part)
        assert (getattr(value, name) if name else value) is None
    set_before = {"search": {"kind": "beam"}, "train": {"patience": 3}}
    assert resolve_recipe(set_before, ["search=none"]).search is None
    assert resolve_recipe(set_before, ["train.patience=none"]).train.patience is None


def test_none_that_is_a_kind_or_a_choice_stays_one():
    recipe = resolve_recipe({}, ["model.norm=none", "model.position=none", "train.parallel=none"])
    assert (recipe.model.norm.kind, recipe.model.position.kind, recipe.train.parallel) == ("none", "none", "none")
    with pytest.raises(ConfigError, match=r"train\.clip: expected a number"):
        resolve_recipe({}, ["train.clip=none"])


@pytest.mark.parametrize(
    "setting", [one for one in explain(Recipe) if one.default in ("none", "[]")], ids=lambda one: one.path
)
def test_what_is_printed_is_accepted(setting):
    part = setting.path.split(".")
    base = {"data": {part[1]: {"file": "a.tsv", "text": 0}}} if part[:1] == ["data"] and len(part) == 3 else {}
    if part[:2] == ["train", "moving_average"] and len(part) == 3:
        base = {"train": {"moving_average": {}}}
    resolve_recipe(
        base | ({"start": {"run": "x"}} if part[0] == "start" else {}),
        [f"{setting.path}={setting.default}"] if part[-1] not in ("file", "text") else [],
    )


@pytest.mark.parametrize("words", [["-h"], ["train", "-h"], ["data", "check", "-h"], ["config", "-h"]])
def test_h_is_help(words: list[str]):
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0
    assert "Usage" in done.stdout
