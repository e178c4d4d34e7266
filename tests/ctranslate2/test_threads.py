"""The speed of a converted model is measured on inputs that fit into it."""

from pathlib import Path

import pytest
from tiny_engine_runs import MODEL, TRAIN, language_model, summariser

from regard.ctranslate2 import threads
from regard.ctranslate2.model_folder import ConvertedModel
from regard.run import ctranslate2_conversion as conversion

SHORT = {**TRAIN, "steps": 2, "save_every": 2}


@pytest.mark.parametrize("length", [34, 64])
def test_a_language_model_with_few_positions(length: int, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    position = {"kind": "learned", "length": length}
    run = language_model(
        tmp_path / "run",
        model={"kind": "decoder", **MODEL, "position": position},
        search={"kind": "greedy", "max_length": 30},
        train=SHORT,
    )
    found = ConvertedModel.read(conversion.convert(run.folder, "float32"))
    assert found.max_positions == length
    texts, search = threads.timed_work(found, found.vocabularies()[1])
    longest = max(len(found.vocabularies()[1].encode(text)) for text in texts)
    assert 0 < longest + search["max_length"] <= length
    assert threads.main(found.folder) == 0
    assert "Traceback" not in capfd.readouterr().err
    assert (found.folder / threads.FILE).is_file()


def test_a_summariser_of_one_stack_with_few_positions(tmp_path: Path) -> None:
    position = {"kind": "learned", "length": 40}
    run = summariser(tmp_path / "run", "decoder", model={"kind": "decoder", **MODEL, "position": position}, train=SHORT)
    found = ConvertedModel.read(conversion.convert(run.folder, "float32"))
    assert threads.timed_work(found, found.vocabularies()[1])[1]["max_length"] <= 40 - 12
    assert threads.main(found.folder) == 0


def test_what_cannot_be_measured_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert threads.main(tmp_path) == 1
    assert capsys.readouterr().err.count("\n") == 1
