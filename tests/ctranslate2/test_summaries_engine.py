"""Summaries by CTranslate2, of two stacks or of one: torch's texts, and the same told about what was not read."""

from pathlib import Path
from typing import Any

import pytest
from tiny_engine_runs import summariser

from regard.ctranslate2.choice import choose, unsupported_reason
from regard.ctranslate2.model_folder import ConvertedModel
from regard.ctranslate2.process import EngineProcess
from regard.decode import BeamConfig, GreedyConfig
from regard.decode.search import DEFAULTS
from regard.errors import ConfigError
from regard.export.export import export_model
from regard.export.exported_model import ExportedModel, HeldOut
from regard.run import Run
from regard.text.inputs import truncate_document

pytest.importorskip("ctranslate2")

TEXTS = [
    "The dog sleeps.",
    "",
    "Anna saw the old cat. The cat slept! Where is the street? It was too wide. The dog sleeps because it is tired.",
    "  ",
    "naïve 🙂 <sep> x",
    "The animal did not cross the street.",
]


@pytest.fixture(scope="module", params=["encoder-decoder", "decoder"])
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Run:
    return summariser(tmp_path_factory.mktemp("summaries") / "run", request.param)


@pytest.fixture(scope="module")
def converted(run: Run, tmp_path_factory: pytest.TempPathFactory) -> ConvertedModel:
    folder, names = tmp_path_factory.mktemp("converted") / "out", run.task.vocabularies.tokenizers
    exported = ExportedModel(run.model, run.recipe.model, "summarisation", names, length=24, input_tokens=12)
    export_model(exported, HeldOut(TEXTS, TEXTS), "ctranslate2", folder)
    found = ConvertedModel(
        folder, exported.task, "float32", None, exported.max_positions, True, run.recipe.usual_search.tree(), DEFAULTS,
        TEXTS[:1],
        input_tokens=12, prompted=exported.prompted,
    )  # fmt: skip
    found.write()
    return ConvertedModel.read(folder)


@pytest.fixture(scope="module")
def remote(converted: ConvertedModel) -> Any:
    found = EngineProcess(converted)
    yield found
    found.close()


@pytest.mark.parametrize("search", [GreedyConfig(max_length=20), GreedyConfig(max_length=9, min_length=8)])
def test_summaries_are_torchs(search: GreedyConfig, run: Run, remote: EngineProcess) -> None:
    ours, theirs = run.translate(TEXTS, search), remote.translate(TEXTS, search.tree(), scored=True)
    for mine, other in zip(ours, theirs, strict=True):
        one, two = vars(mine[0]), vars(other[0])
        numbers = ("score", "token_logprobs")
        assert {**one, **dict.fromkeys(numbers)} == {**two, **dict.fromkeys(numbers)}
        assert one["score"] == pytest.approx(two["score"], abs=1e-4)
        assert one["token_logprobs"] == pytest.approx(two["token_logprobs"], abs=1e-4)
    assert len({row[0].text for row in theirs}) > 2, "a model that always writes the same would prove nothing"
    assert vars(theirs[2][0])["unread"] > 0
    assert remote.translate(["", " "], search.tree(), scored=True) == run.translate(["", " "], search)


def test_beams_are_torchs_where_there_is_one_stack(converted: ConvertedModel) -> None:
    search = BeamConfig().tree()
    reason = unsupported_reason(search, converted.searches, converted.task, converted.prompted)
    assert reason == (
        "its beams end elsewhere in language models, as is a summariser of one stack" if converted.prompted else None
    )


def test_the_verb_decides_and_what_is_read_takes_room(
    run: Run, converted: ConvertedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("regard.ctranslate2.choice.is_ready", lambda folder: True)
    monkeypatch.setattr("regard.ctranslate2.choice.converted_model", lambda run, precision: converted)
    taken = choose(run.folder, "ctranslate2", "translation", lambda converted: converted.default_search)
    assert (taken.engine, taken.converted) == ("ctranslate2", converted)
    assert choose(run.folder, "auto", "language_model", lambda converted: converted.default_search).engine == "torch"
    room = converted.max_positions - (12 if converted.prompted else 0)
    for length, fits in ((room, True), (room + 1, False)):
        found = choose(run.folder, "auto", "translation", lambda _, most=length: GreedyConfig(max_length=most).tree())
        assert (found.engine == "ctranslate2") is fits
    with pytest.raises(ConfigError, match=rf"{room + 1} tokens to generate, the converted model has {room} positions"):
        choose(run.folder, "ctranslate2", "translation", lambda _: GreedyConfig(max_length=room + 1).tree())


def test_a_text_is_read_up_to_its_limit(run: Run) -> None:
    source = run.task.vocabularies.tokenizers["source"]
    ids = source.encode(TEXTS[2])
    assert truncate_document(TEXTS[2], source, len(ids) + 1) == (ids, 0)
    assert truncate_document(TEXTS[2], source, len(ids)) == (ids[:-1], 1)
    assert truncate_document(TEXTS[2], source, 2) == (ids[:1], len(ids) - 1)
    assert truncate_document("", source, 2) == ([], 0)


def test_a_folder_of_before_is_a_translators(converted: ConvertedModel, tmp_path: Path) -> None:
    old = ConvertedModel(tmp_path, "translation", "float32", 24, 512, True, {}, {}, [])
    assert (old.verb, old.continues, old.input_tokens) == ("translate", False, None)
