"""A request's options on top of a run's search: what is kept, what changes the kind, what is refused."""

from typing import Any

import pytest

from regard.config.search_options import OF_BEAM, OF_SAMPLE, SHARED, with_options
from regard.config.tree import kinds
from regard.ctranslate2.choice import EXACT, SAMPLING, unsupported_reason
from regard.ctranslate2.model import library_options, ranking_score
from regard.decode import BeamConfig, GreedyConfig, SampleConfig, SearchConfig
from regard.decode.constraints import SearchBase
from regard.decode.search import DEFAULTS, as_search, search_with
from regard.errors import ConfigError
from regard.run.ctranslate2_conversion import refuse_task
from regard.tasks import LanguageModelConfig, SummarisationConfig, TranslationConfig

GREEDY = GreedyConfig(max_length=30, no_repeat_ngram=2)
BEAM = BeamConfig(size=8, length_penalty=1.4, max_length=77, min_length=3, forbid_unknown=True)
SAMPLE = SampleConfig(temperature=0.8, top_k=20, repetition_penalty=1.2, max_length=9)
OTHER: dict[str, Any] = {
    "max_length": 100, "max_length_ratio": 2.0, "max_length_offset": 3, "min_length": 4, "no_repeat_ngram": 2,
    "forbid_unknown": True, "size": 3, "n_best": 2, "length_penalty": 0.5, "length_formula": "gnmt", "temperature": 0.5,
    "top_k": 7, "top_p": 0.5, "min_p": 0.1, "repetition_penalty": 1.5, "samples": 2, "seed": 4,
}  # fmt: skip
"""A value of each setting of a search that is not its default."""


def changed(kind: str, setting: str, **more: Any) -> dict[str, Any]:
    """A search of a kind with one setting that is not its default, and what that setting needs."""
    needed = {"max_length_offset": {"max_length_ratio": 2.0}}.get(setting, {})
    return as_search({**DEFAULTS[kind], **more, **needed, setting: OTHER[setting]}).tree()


@pytest.mark.parametrize(
    ("usual", "options", "wanted"),
    [
        (BEAM, {}, BEAM),
        (BEAM, {"n_best": 3}, BEAM.but(n_best=3)),  # keeps the recipe's beam of 8
        (BEAM, {"n_best": 9}, BEAM.but(size=9, n_best=9)),
        (BEAM, {"size": 3}, BEAM.but(size=3)),
        (BEAM.but(n_best=4), {"n_best": 1}, BEAM),
        (GREEDY, {"n_best": 1}, GREEDY),
        (GREEDY, {"n_best": 3}, BeamConfig(n_best=3, max_length=30, no_repeat_ngram=2)),
        (SAMPLE.but(samples=3), {"n_best": 1}, SAMPLE),
        (SAMPLE, {"size": 2}, BeamConfig(size=2, max_length=9)),
        (GREEDY, {"max_length": 5}, GREEDY.but(max_length=5)),  # greedy stays greedy
        (BEAM, {"max_length": 5}, BEAM.but(max_length=5)),  # a beam stays a beam
        (GREEDY, {"temperature": 0.7}, SampleConfig(temperature=0.7, max_length=30, no_repeat_ngram=2)),
        (BEAM, {"top_k": 4}, SampleConfig(top_k=4, max_length=77, min_length=3, forbid_unknown=True)),
        (SAMPLE, {"seed": 7, "top_p": 0.5}, SAMPLE.but(seed=7, top_p=0.5)),
        (SAMPLE.but(seed=5), {"temperature": 0.0}, SAMPLE.but(temperature=0.0, top_k=None)),
        (BEAM, {"kind": "greedy"}, GreedyConfig(max_length=77, min_length=3, forbid_unknown=True)),
        (BEAM, {"kind": "beam", "size": 10}, BEAM.but(size=10)),
    ],
)
def test_options_change_what_they_name_and_nothing_else(usual: Any, options: dict[str, Any], wanted: Any):
    assert search_with(usual, options) == wanted
    assert with_options(usual.tree(), options, DEFAULTS) == wanted.tree()  # as the engine without torch does


@pytest.mark.parametrize(
    ("usual", "options", "said"),
    [
        (BEAM, {"n_best": 9, "size": 3}, "n_best: expected at most the beam's size (3), got 9"),
        (BEAM.but(n_best=5), {"size": 3}, "size: expected at least the run's n_best (5), got 3"),
        (GREEDY, {"seed": 3}, "seed: nothing is drawn by greedy search; ask for sampling"),
        (BEAM, {"seed": 3}, "seed: nothing is drawn by beam search"),
        (SAMPLE, {"temperature": 0.0, "top_k": 3}, "top_k: nothing is drawn at temperature 0"),
        (SAMPLE.but(temperature=0.0, top_k=None), {"seed": 2}, "seed: nothing is drawn at temperature 0"),
        (BEAM, {"max_length": 3}, "max_length: expected more than min_length (3), got 3"),
        (SAMPLE, {"temperature": float("nan")}, "temperature: expected a finite number, got nan"),
        (SAMPLE, {"top_p": 0.0}, "top_p: expected a share between 0 and 1, got 0.0"),
        (SAMPLE, {"min_p": 1.5}, "min_p: expected a share between 0 and 1"),
        (SAMPLE, {"kind": "gredy"}, "kind: unknown kind 'gredy'; did you mean 'greedy'?"),
        (BEAM, {"kind": "greedy", "size": 3}, "search.size: unknown setting of kind 'greedy'"),
    ],
)
def test_options_that_would_do_nothing_are_refused(usual: Any, options: dict[str, Any], said: str):
    with pytest.raises(ConfigError) as error:
        search_with(usual, options)
    assert str(error.value).startswith(said)


def test_every_setting_of_every_search_is_known_to_the_engine_without_torch():
    assert set(SHARED) == set(SearchBase.model_fields)
    by_kind = {"greedy": (), "beam": OF_BEAM, "sample": OF_SAMPLE}
    for kind, config in kinds(SearchConfig).items():
        assert set(config.model_fields) == {"kind", *SHARED, *by_kind[kind]}
    assert OTHER.keys() == {name for config in kinds(SearchConfig).values() for name in config.model_fields} - {"kind"}


@pytest.mark.parametrize("kind", list(DEFAULTS))
def test_ctranslate2_takes_or_refuses_every_setting_of_a_search(kind: str):
    """A setting is on the list of what CTranslate2 can do, and then reaches it, or it makes torch search."""
    drawn = {"temperature": 0.0} if kind == "sample" else {}
    for setting in kinds(SearchConfig)[kind].model_fields.keys() - {"kind", "temperature"}:
        if kind == "sample" and setting in ("top_k", "top_p", "min_p", "seed", "samples"):
            continue  # refused at temperature 0, and torch draws at others
        search, base = changed(kind, setting, **drawn), {**DEFAULTS[kind], **drawn}
        reason = unsupported_reason(search, DEFAULTS, "translation")
        if setting not in EXACT[kind]:
            assert reason, setting
            continue
        assert reason is None, setting
        asked = [
            (library_options(one, "translation"), one.get("n_best"), ranking_score(-3.0, 5, one))
            for one in (search, base)
        ]
        assert asked[0] != asked[1], setting


def test_ctranslate2_draws_only_from_distributions_of_ours():
    for setting in kinds(SearchConfig)["sample"].model_fields.keys() - {"kind"}:
        search = changed("sample", setting)
        assert unsupported_reason(search, DEFAULTS, "language_model"), setting  # torch, unless asked for by hand
        refused = unsupported_reason(search, DEFAULTS, "language_model", forced=True)
        assert bool(refused) == (setting not in SAMPLING), setting
        if setting in SAMPLING - {"seed"}:  # the seed is given apart
            assert library_options(search, "language_model") != library_options(DEFAULTS["sample"], "language_model"), (
                setting
            )


def test_a_setting_that_is_new_is_torchs():
    reason = unsupported_reason({**DEFAULTS["greedy"], "novel": 1}, DEFAULTS, "translation")
    assert reason == "it does not know the setting novel of our searches"


TASKS: dict[str, tuple[Any, dict[str, Any]]] = {
    "translation": (TranslationConfig(), {
        "smoothing": 0.3, "consistency": 1.0, "unknown": "replace", "dictionary": "words.tsv", "reward": {},
    }),
    "summarisation": (SummarisationConfig(), {
        "smoothing": 0.3, "consistency": 1.0, "input_tokens": 9, "predict_input": True,
    }),
    "language_model": (LanguageModelConfig(), {"smoothing": 0.3, "consistency": 1.0}),
}  # fmt: skip


@pytest.mark.parametrize("kind", list(TASKS))
def test_ctranslate2_takes_or_refuses_every_setting_of_a_task(kind: str):
    task, others = TASKS[kind]
    assert type(task).model_fields.keys() - {"kind"} == others.keys(), "a new setting needs a value here"
    refuse_task(task)
    for setting, value in others.items():
        other = type(task).from_tree({setting: value})
        assert task.ctranslate2_settings is not None
        if setting in task.ctranslate2_settings:
            refuse_task(other)
        else:
            with pytest.raises(ConfigError, match=rf"^task\.{setting}: "):
                refuse_task(other)
