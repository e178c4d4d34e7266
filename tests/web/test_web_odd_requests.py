"""Requests as clients send them: null for what they leave to the server, blank texts, and what is not of the form."""

import json
from typing import Any

import httpx
import pytest

NULLABLE = [
    "prompt", "max_tokens", "temperature", "top_p", "n", "stop", "seed", "stream", "stream_options", "logprobs", "echo",
    "best_of", "frequency_penalty", "presence_penalty", "logit_bias", "suffix", "user",
]  # fmt: skip


def post(http: httpx.Client, address: str, route: str, body: Any) -> httpx.Response:
    content = json.dumps(body) if not isinstance(body, bytes) else body
    return http.post(f"{address}{route}", content=content, headers={"content-type": "application/json"})


def completion(http: httpx.Client, address: str, **fields: Any) -> httpx.Response:
    return post(
        http, address, "/v1/completions", {"model": "letters", "prompt": "the", "max_tokens": 3, "seed": 1} | fields
    )


@pytest.mark.parametrize("field", NULLABLE)
def test_null_is_the_default_of_a_completion(server, http, field):
    answered = completion(http, server, **{field: None})
    assert answered.status_code == 200, answered.text
    body = {"model": "letters", "prompt": "the", "max_tokens": 3, "seed": 1}
    if field in ("max_tokens", "stream"):
        left_out = post(http, server, "/v1/completions", {key: value for key, value in body.items() if key != field})
        assert left_out.json()["choices"] == answered.json()["choices"]


def test_all_fields_may_be_null_at_once(server, http):
    answered = post(http, server, "/v1/completions", {"model": "letters"} | dict.fromkeys(NULLABLE))
    assert answered.status_code == 200, answered.text
    assert answered.json()["usage"]["completion_tokens"] == 16


def test_null_in_translations_classifications_and_looks(server, http):
    plain = {"q": "The dog sleeps.", "source": "en", "target": "de"}
    nothing = {"format": None, "alternatives": None, "api_key": None, "model": None}
    answers = [post(http, server, "/translate", body) for body in (plain, plain | nothing)]
    assert answers[0].json() == answers[1].json()
    assert post(http, server, "/classify", {"text": "a good film", "model": None}).json()["label"]
    look = {"text": "The dog sleeps.", "model": None, "target": None, "image": None, "options": None, "snapshots": None}
    assert post(http, server, "/attention", look).status_code == 200


BLANKS = [" " * 9_000, "\n" * 9_000, "\u3000 \t" * 100, " " * 60_000, ""]


@pytest.mark.parametrize("text", BLANKS, ids=range(len(BLANKS)))
def test_of_a_blank_text_nothing_is_read(server, http, text):
    answered = post(http, server, "/translate", {"q": text, "source": "en", "target": "de"})
    assert (answered.status_code, answered.json()) == (200, {"translatedText": ""})
    both = post(http, server, "/translate", {"q": [text, "The dog sleeps."], "source": "en", "target": "de"})
    assert both.status_code == 200
    assert both.json()["translatedText"][0] == ""
    assert both.json()["translatedText"][1] != ""
    answered = post(http, server, "/classify", {"text": text})
    assert (answered.status_code, answered.json()) == (200, {"label": None, "probabilities": None})


@pytest.mark.parametrize("fields", [
    {"max_tokens": 5.0}, {"n": 1.0}, {"seed": 7.0}, {"logprobs": 1.0}, {"temperature": 1}, {"stop": []},
    {"stop": "x"}, {"stop": ["x", "y"]}, {"logit_bias": {}}, {"suffix": ""}, {"best_of": 1}, {"user": "me"},
    {"prompt": ["the", "a"]}, {"prompt": [5, 6]}, {"prompt": [[5], [6]]}, {"prompt": ""},
])  # fmt: skip
def test_what_openai_takes_is_taken(server, http, fields):
    assert completion(http, server, **fields).status_code == 200


@pytest.mark.parametrize(("fields", "said"), [
    ({"n": 0}, "n: Input should be greater than or equal to 1"),
    ({"n": "1"}, "n: Input should be a valid integer"),
    ({"n": True}, "n: Input should be a valid integer"),
    ({"max_tokens": 5.5}, "max_tokens: Input should be a valid integer"),
    ({"max_tokens": -1}, "max_tokens: Input should be greater than or equal to 0"),
    ({"max_tokens": "5"}, "max_tokens: Input should be a valid integer"),
    ({"stop": ""}, "stop: String should have at least 1 character"),
    ({"stop": ["a", ""]}, "stop.1: String should have at least 1 character"),
    ({"stop": ["a", 5]}, "stop.1: Input should be a valid string"),
    ({"stop": 5}, "stop: Input should be a valid string or a valid list"),
    ({"prompt": 5}, "prompt: Input should be a valid string or a valid list"),
    ({"prompt": {}}, "prompt: Input should be a valid string or a valid list"),
    ({"prompt": []}, "prompt: List should have at least 1 item"),
    ({"prompt": ["a", 5]}, "prompt.1: Input should be a valid string"),
    ({"prompt": ["a", None]}, "prompt.1: Input should be a valid string"),
    ({"prompt": "\ud800"}, "prompt: Input should be a valid string, unable to parse raw data"),
    ({"logit_bias": {"5": 1}}, "logit_bias: Dictionary should have at most 0 items"),
    ({"tools": []}, "tools: Extra inputs are not permitted"),
    ({"model": None}, "model: Input should be a valid string"),
    ({"temperature": "hot"}, "temperature: Input should be a valid number"),
    ({"stream": "yes"}, "stream: Input should be a valid boolean"),
    ({"stream_options": {"include": 1}}, "stream_options.include: Extra inputs are not permitted"),
])  # fmt: skip
def test_what_is_not_of_the_form_is_named(server, http, fields, said):
    answered = completion(http, server, **fields)
    assert answered.status_code == 422
    assert answered.json()["error"]["message"].startswith(said)


@pytest.mark.parametrize("body", [
    b"", b"null", b"[]", b"5", b'"text"', b"{", b"\xff\xfe", b"[" * 50_000, b'{"model": NaN}', b'{"a": 1e999}',
])  # fmt: skip
@pytest.mark.parametrize("route", ["/v1/completions", "/translate", "/classify", "/attention", "/images"])
def test_no_body_is_a_failure_of_the_server(server, http, route, body):
    answered = post(http, server, route, body)
    assert answered.status_code in (400, 422), answered.text
    error = answered.json()["error"]
    assert error["message"] if route.startswith("/v1") else error


@pytest.mark.parametrize(("body", "said"), [
    ({"q": None, "source": "en", "target": "de"}, "q: Input should be a valid string or a valid list"),
    ({"q": [], "source": "en", "target": "de"}, "q: List should have at least 1 item"),
    ({"q": ["a", 5], "source": "en", "target": "de"}, "q.1: Input should be a valid string"),
    ({"q": "a", "source": None, "target": "de"}, "source: Input should be a valid string"),
    ({"q": "a", "target": "de"}, "source: Field required"),
    ({"q": "a", "source": "en", "target": "de", "format": "docx"}, "format: Input should be 'text' or 'html'"),
    ({"q": "a", "source": "en", "target": "de", "alternatives": -1}, "alternatives: Input should be greater"),
    ({"q": "\udc00", "source": "en", "target": "de"}, "q: Input should be a valid string, unable to parse raw data"),
])  # fmt: skip
def test_odd_translations_are_named(server, http, body, said):
    answered = post(http, server, "/translate", body)
    assert answered.status_code == 422
    assert answered.json()["error"].startswith(said)


def test_routes_that_are_not_there_are_one_sentence(server, http):
    answered = post(http, server, "/v1/chat/completions", {"model": "letters", "messages": []})
    assert answered.status_code == 404
    said = answered.json()["error"]["message"]
    assert said == "Not Found: POST /v1/chat/completions; /openapi.json lists what there is"
    assert http.get(f"{server}/translate").json()["error"].startswith("Method Not Allowed: GET /translate")


def test_unseen_words_are_named(server, http):
    asked = {"source": "en", "target": "de"}
    known = post(http, server, "/translate", {"q": "The dog", **asked}).json()
    assert "unseen" not in known
    alone = post(http, server, "/translate", {"q": "The zebra and the dog", **asked}).json()
    assert alone["unseen"][0] == "zebra"
    both = post(http, server, "/translate", {"q": ["The dog", "The zebra"], **asked}).json()
    assert both["unseen"] == [[], ["zebra"]]
    assert post(http, server, "/classify", {"text": "a good zebra"}).json()["unseen"] == ["zebra"]
