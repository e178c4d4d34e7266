"""Every setting of every search changes what is found, or is refused where it would not."""

from typing import Any

import pytest
from toy_steppers import BOS, EOS, HashStepper

from regard.config.tree import kinds
from regard.decode import BeamConfig, GreedyConfig, SampleConfig, SearchConfig, search
from regard.errors import ConfigError
from regard.nn.layout import Sequences
from regard.run import Recipe

UNK, ROWS = 2, 40
BASES: dict[str, dict[str, Any]] = {
    "greedy": {"max_length": 40},
    "beam": {"max_length": 40, "size": 2},
    "sample": {"max_length": 40},
}
CHANGES: dict[str, dict[str, Any]] = {
    "max_length": {"max_length": 2},
    "max_length_ratio": {"max_length_ratio": 0.5},
    "max_length_offset": {"max_length_ratio": 0.5, "max_length_offset": 0},
    "min_length": {"min_length": 6},
    "no_repeat_ngram": {"no_repeat_ngram": 1},
    "forbid_unknown": {"forbid_unknown": True},
    "size": {"size": 5},
    "n_best": {"n_best": 2},
    "length_penalty": {"length_penalty": 0.0},
    "length_formula": {"length_formula": "gnmt"},
    "temperature": {"temperature": 0.3},
    "top_k": {"top_k": 1},
    "top_p": {"top_p": 0.2},
    "min_p": {"min_p": 0.9},
    "repetition_penalty": {"repetition_penalty": 5.0},
    "samples": {"samples": 2},
    "seed": {"seed": 3},
}
"""Settings that differ from the base in one; one that needs another is compared with that other alone."""


def found(kind: str, settings: dict[str, Any]) -> Any:
    config = kinds(SearchConfig)[kind](**{**BASES[kind], **settings})
    source = Sequences.padded([[row + 3, 4] for row in range(ROWS)])
    rows = search(HashStepper(vocab=6), source, None, config, eos=EOS, bos=BOS, unk=UNK)  # type: ignore[arg-type]
    return [[(one.tokens, one.finished, one.score) for one in row] for row in rows]


@pytest.mark.parametrize(
    ("kind", "setting"),
    [(kind, name) for kind, config in kinds(SearchConfig).items() for name in config.model_fields if name != "kind"],
)
def test_every_setting_changes_what_is_found(kind: str, setting: str):
    needed = {name: value for name, value in CHANGES[setting].items() if name != setting}
    assert found(kind, CHANGES[setting]) != found(kind, needed)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: GreedyConfig.from_tree({"max_length_offset": 3}), "max_length_offset: it is added to max_length_rat"),
        (lambda: BeamConfig.from_tree({"length_penalty": 0, "length_formula": "gnmt"}), "length_formula: every formu"),
        (lambda: BeamConfig.from_tree({"n_best": 7}), "n_best: expected at most the beam's size (5), got 7"),
        *(
            (lambda name=name, value=value: SampleConfig.from_tree({"temperature": 0, name: value}), f"{name}: nothing")
            for name, value in {"top_k": 3, "top_p": 0.5, "min_p": 0.1, "samples": 2, "seed": 3}.items()
        ),
        (lambda: SampleConfig.from_tree({"temperature": float("inf")}), "temperature: "),
        (lambda: GreedyConfig.from_tree({"n_best": 2}), "n_best: unknown setting of kind 'greedy'"),
    ],
)
def test_settings_that_would_do_nothing_are_refused(make: Any, said: str):
    with pytest.raises(ConfigError) as error:
        make()
    assert str(error.value).startswith(said)


PLAIN = {"file": "a.txt"}
TABLE = {"file": "a.tsv", "text": 0}


@pytest.mark.parametrize(
    ("tree", "said"),
    [
        ({"task": "classification", "model": "encoder", "search": "greedy"}, "search: a model of classification gen"),
        ({"task": "tagging", "model": "encoder", "search": "beam"}, "search: a model of tagging generates no text"),
        ({"task": "masked_language_model", "model": "encoder", "search": "sample"}, "search: a model of masked_lang"),
        ({"task": "image_classification", "model": "vision", "search": "beam"}, "search: a model of image_classific"),
        (
            {"task": "language_model", "model": "decoder", "search": {"kind": "greedy", "max_length_ratio": 2}},
            "search.max_length_ratio: a language model has no source",
        ),
        (
            {"task": "language_model", "model": "decoder", "search": {"kind": "beam", "min_length": 2},
             "data": {"train": PLAIN}},
            "search.min_length: a model of running text never ends by itself",
        ),
        (
            {"task": "language_model", "model": "decoder", "search": {"kind": "beam", "min_length": 2},
             "data": {"train": TABLE}},
            None,
        ),
        ({"task": "translation", "search": {"kind": "sample", "max_length_ratio": 2.0, "min_length": 2}}, None),
        ({"task": "summarisation", "search": {"kind": "beam", "max_length_ratio": 0.2}}, None),
    ],
)  # fmt: skip
def test_a_recipe_has_no_search_that_its_task_cannot_use(tree: dict[str, Any], said: str | None):
    recipe = Recipe.from_tree(tree)
    if said is None:
        recipe.check()
        return
    with pytest.raises(ConfigError) as error:
        recipe.check()
    assert str(error.value).startswith(said)
