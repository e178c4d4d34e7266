"""Baselines train, stop, write and score by the same verbs as the Transformer."""

from pathlib import Path

import pytest
from small_runs import classification, language_model, translation, write_recipe
from test_training import train

from regard import api
from regard.errors import ConfigError
from regard.models import kinds_of
from regard.nn.attention.reference import record_attention
from regard.run.recipe import read_recipe

SMALL = {"width": 16, "depth": 2}
BASELINES = {
    shape: [kind for kind in kinds_of(shape) if kind != shape] for shape in ("encoder-decoder", "decoder", "encoder")
}
TEXTS = ["The animal did not cross the street because it was too tired.", "", "The chef sings."]


@pytest.fixture(scope="module")
def translators(tmp_path_factory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("baselines")
    for kind in BASELINES["encoder-decoder"]:
        train({**translation(steps=3), "model": {"kind": kind, **SMALL}}, folder / kind)
    return {kind: folder / kind for kind in BASELINES["encoder-decoder"]}


def test_every_shape_has_baselines():
    assert {shape: len(kinds) for shape, kinds in BASELINES.items()} == {
        "encoder-decoder": 5,
        "decoder": 2,
        "encoder": 2,
    }


@pytest.mark.parametrize("kind", BASELINES["encoder-decoder"])
def test_translation(kind: str, translators: dict[str, Path]):
    run = api.load(translators[kind])
    together = [outputs[0].text for outputs in run.translate(TEXTS)]
    assert together == [run.translate([text])[0][0].text for text in TEXTS]
    assert together[1] == ""
    assert 0 <= api.evaluate(run).metrics["bleu"] <= 100
    with record_attention(run.model) as seen:
        run.translate(TEXTS)
    assert any(name.endswith("cross") for name in seen) == (kind != "bytenet")


def test_an_ensemble_of_different_kinds(translators: dict[str, Path]):
    first, *others = (api.load(folder) for folder in translators.values())
    assert len(first.translate(TEXTS, others=others)) == 3
    assert api.evaluate(first, others=others).examples == 30


def test_an_ensemble_needs_one_vocabulary(translators: dict[str, Path], tmp_path: Path):
    stranger = train({**translation(steps=1), "tokenizer": {"kind": "bpe", "size": 300}}, tmp_path / "stranger")
    with pytest.raises(ConfigError, match="different vocabularies; train both with the same"):
        api.evaluate(translators["gnmt"], others=[stranger])


@pytest.mark.parametrize("kind", BASELINES["decoder"])
def test_language_model(kind: str, tmp_path: Path):
    tree = {**language_model(tmp_path, steps=3), "model": {"kind": kind, **SMALL}}
    run = api.train(read_recipe(write_recipe(tmp_path, tree)), out=tmp_path / "run")
    assert run.generate(["the dog"])[0][0].text
    assert api.evaluate(run, "valid").metrics["perplexity"] > 1


@pytest.mark.parametrize("kind", BASELINES["encoder"])
def test_classification(kind: str, tmp_path: Path):
    tree = {**classification(tmp_path, steps=3), "model": {"kind": kind, **SMALL}}
    run = api.train(read_recipe(write_recipe(tmp_path, tree)), out=tmp_path / "run")
    labels = run.classify(["a good film"])[0]
    assert labels is not None
    assert sum(labels.values()) == pytest.approx(1)


def test_baselines_of_another_shape_are_refused(tmp_path: Path):
    with pytest.raises(
        ConfigError, match=r"translation needs one of encoder-decoder, .*lstm-seq2seq, gnmt.*got recurrent"
    ):
        train({**translation(), "model": "recurrent"}, tmp_path / "run")


def test_packed_batches_are_refused(tmp_path: Path):
    tree = translation(steps=1)
    tree["data"] = {**tree["data"], "batching": "packed"}
    with pytest.raises(ConfigError, match=r"data\.batching"):
        train({**tree, "model": {"kind": "gnmt", **SMALL}}, tmp_path / "run")
