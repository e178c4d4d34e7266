"""Texts longer than a sentence over HTTP: nothing is lost, and layout comes back as it was sent."""

from pathlib import Path

import httpx
import pytest
from gated import GatedEngine
from served_runs import serving, with_engine

from regard import api
from regard.files.run_folder import SENTENCES_FILE
from regard.text.splitting import SourceStatistics

TEXT = "The dog sleeps. Dr. Smith has 3.14 cats.\n\n  Why?  \tIt is late.\r\n - One.\n"
SPLIT = ["The dog sleeps.", "Dr. Smith has 3.14 cats.", "Why?", "It is late.", "- One."]


def reversed_in_place(text: str, parts: list[str]) -> str:
    for part in parts:
        text = text.replace(part, part[::-1])
    return text


def asked(server: str, q: object, **more: object) -> dict:
    return httpx.post(f"{server}/translate", json={"q": q, "source": "en", "target": "de", **more}).json()


def test_every_sentence_of_a_request_is_in_one_batch_and_layout_stays(folders: dict[str, Path]):
    engine = GatedEngine(open_at_once=True)
    app, config = with_engine("street", folders["street"], engine)
    with serving(app, config) as server:
        wanted = reversed_in_place(TEXT, SPLIT)
        assert asked(server, TEXT)["translatedText"] == wanted
        assert engine.batches == [SPLIT]
        assert asked(server, [TEXT, " \n", "", "Yes."])["translatedText"] == [wanted, "", "", ".seY"]
        assert engine.batches[1:] == [[*SPLIT, "Yes."]]
        assert asked(server, " \n") == {"translatedText": ""}, "of which nothing is read"
        assert len(engine.batches) == 2
        assert asked(server, "A dog. A cat.", alternatives=2)["translatedText"] == ".god A .tac A"


@pytest.mark.parametrize(
    ("measured", "inputs"),
    [
        (SourceStatistics(9, 0.9, 0.1), ["The dog sleeps. Dr. Smith has 3.14 cats.", "Why?  \tIt is late.", "- One."]),
        (SourceStatistics(9, 0.9, 0.9), [TEXT]),
    ],
)
def test_a_run_that_was_trained_on_longer_texts_is_given_them(
    folders: dict[str, Path], measured: SourceStatistics, inputs: list[str]
):
    before = (folders["street"] / SENTENCES_FILE).read_bytes()
    engine = GatedEngine(open_at_once=True)
    try:
        measured.save(folders["street"])
        app, config = with_engine("street", folders["street"], engine)
        with serving(app, config) as server:
            assert asked(server, TEXT)["translatedText"] == reversed_in_place(TEXT, inputs)
    finally:
        (folders["street"] / SENTENCES_FILE).write_bytes(before)
    assert engine.batches == [inputs]


def test_a_real_run_answers_as_from_python(server: str, folders: dict[str, Path]):
    text = "The dog sleeps. The cat sees it.\n\nAnna is tired."
    run = api.load(folders["street"], "cpu")
    assert asked(server, text)["translatedText"] == api.translate(run, text)
    several = asked(server, text, alternatives=2)
    assert len(several["alternatives"]) == 2
    assert all(one.count("\n") == 2 for one in [several["translatedText"], *several["alternatives"]])
