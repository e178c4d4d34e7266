"""The server generates by the run's own search, with what a request asks for on top, as the command line does."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from regard import api
from regard.decode import BeamConfig, GreedyConfig, SampleConfig
from regard.errors import ConfigError
from regard.run import Run
from regard.web.completions import CompletionRequest, search_for
from regard.web.engine import RunEngine
from regard.web.settings import MAX_TOKENS
from regard.web.text_stream import TextStream

MOST = {"max_length": MAX_TOKENS}
IGNORED = {
    "user": "a client's name for its user, which changes nothing in a text",
    "top_p": "at temperature 0 alone, where OpenAI's clients send it all the same",
    "seed": "where nothing is drawn: clients send it to be sure of the same text, which they get",
    "api_key": "where the server has no key: LibreTranslate's clients always send one",
}
"""Fields of requests that may do nothing, and why they are not refused."""


def run_of(folders: dict[str, Path], search: Any) -> Run:
    run = api.load(folders["letters"], "cpu")
    return replace(run, recipe=run.recipe.but(search=search))


def asked(**fields: Any) -> CompletionRequest:
    return CompletionRequest(model="letters", prompt="the ", **fields)


@pytest.mark.parametrize(
    ("usual", "fields", "wanted"),
    [
        (GreedyConfig(no_repeat_ngram=2), {}, SampleConfig(temperature=0.0, no_repeat_ngram=2, **MOST)),
        (GreedyConfig(), {"seed": 3}, SampleConfig(temperature=0.0, **MOST)),
        (GreedyConfig(), {"temperature": 0.5}, SampleConfig(temperature=0.5, **MOST)),
        (SampleConfig(top_k=9, seed=4, samples=3), {}, SampleConfig(top_k=9, **MOST)),
        (SampleConfig(top_k=9), {"temperature": 0, "top_p": 0.4}, SampleConfig(temperature=0.0, **MOST)),
        (SampleConfig(min_p=0.1), {"top_p": 0.4}, SampleConfig(min_p=0.1, top_p=0.4, **MOST)),
        (BeamConfig(size=8, length_penalty=2.0), {"n": 3}, BeamConfig(size=8, n_best=3, length_penalty=2.0, **MOST)),
    ],
)
def test_a_request_lies_on_top_of_the_runs_search(usual: Any, fields: Any, wanted: Any, folders: dict[str, Path]):
    assert search_for(run_of(folders, usual), asked(**fields)) == wanted


def test_a_request_that_cannot_be_is_refused_by_its_field(folders: dict[str, Path]):
    with pytest.raises(ConfigError, match=r"max_tokens: expected more than min_length \(5\), got 4"):
        search_for(run_of(folders, GreedyConfig(min_length=5)), asked(max_tokens=4))


@pytest.mark.parametrize(
    "usual", [GreedyConfig(no_repeat_ngram=3), BeamConfig(size=4), SampleConfig(top_k=3, repetition_penalty=1.5)]
)
def test_the_server_generates_what_the_command_line_does(usual: Any, folders: dict[str, Path]):
    run = run_of(folders, usual)
    search, tokenizer = search_for(run, asked(n=2)), run.task.vocabularies.tokenizers["text"]
    ids = tokenizer.encode("the ")
    rows = [TextStream(tokenizer, ids, 12, seed=1, sample=sample, index=sample) for sample in range(2)]
    RunEngine(run).generate(rows, search, 2)
    several = {"beam": {"n_best": 2}, "sample": {"samples": 2}}.get(usual.kind, {})
    wanted = run.generate(["the "], run.search_with({"max_length": 12, **several}))[0]
    wanted = wanted if len(wanted) == 2 else wanted * 2
    assert [row.text for row in rows] == [one.text for one in wanted]
    for row, one in zip(rows, wanted, strict=True):
        assert [token.logprob for token in row.tokens] == pytest.approx(one.token_logprobs, abs=1e-4)
        assert all(len(token.alternatives) == 2 for token in row.tokens)
        assert row.finish == "length"


def test_options_of_a_stream_need_one(server: str, http: httpx.Client):
    body = {"model": "letters", "prompt": "the", "stream_options": {"include_usage": True}}
    answer = http.post(f"{server}/v1/completions", json=body)
    assert answer.status_code == 400
    assert "stream_options: only with stream" in answer.json()["error"]["message"]


def test_fields_that_may_do_nothing_are_named_where_they_are_documented():
    text = (Path(__file__).parents[2] / "docs" / "serve.md").read_text()
    assert all(f"`{field}`" in text for field in IGNORED)
