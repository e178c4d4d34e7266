"""The clients people have: OpenAI's own, LibreTranslate's own, and plain requests; against the models themselves."""

import json
from pathlib import Path

import httpx
import pytest
from libretranslatepy import LibreTranslateAPI
from openai import BadRequestError, NotFoundError, OpenAI

from regard import api
from regard.decode import BeamConfig, SampleConfig
from regard.look import content_security_policy

QUICK = {"coreference": False, "paths": False, "shuffles": 0, "beam": 1}
SENTENCES = ["The street was too wide.", "The dog slept because it was tired.", "", "It was a long day. The hen ate."]


@pytest.fixture(scope="module")
def openai(server: str) -> OpenAI:
    return OpenAI(base_url=f"{server}/v1", api_key="none needed", max_retries=0)


def test_openai_completes_what_the_model_writes(openai: OpenAI, folders: dict[str, Path]):
    search = SampleConfig(temperature=0.7, top_p=0.9, samples=3, seed=5, max_length=20)
    wanted = [output.text for output in api.load(folders["letters"], "cpu").generate(["the dog"], search)[0]]
    found = openai.completions.create(
        model="letters", prompt="the dog", max_tokens=20, temperature=0.7, top_p=0.9, n=3, seed=5
    )
    assert [choice.text for choice in found.choices] == wanted
    assert found.usage is not None
    assert found.usage.completion_tokens == 60
    assert found.choices[0].finish_reason == "length"


@pytest.mark.parametrize("model", ["letters", "pieces"])
def test_a_stream_is_the_same_text_in_pieces(openai: OpenAI, model: str):
    asked = {"model": model, "prompt": ["the cat", "a é"], "max_tokens": 24, "seed": 2, "n": 2, "logprobs": 2}
    whole = openai.completions.create(**asked)
    texts, tokens, reasons = [""] * 4, [[] for _ in range(4)], [None] * 4
    for event in openai.completions.create(**asked, stream=True):
        for choice in event.choices:
            texts[choice.index] += choice.text
            tokens[choice.index] += choice.logprobs.tokens
            reasons[choice.index] = choice.finish_reason
    assert texts == [choice.text for choice in whole.choices]
    assert tokens == [choice.logprobs.tokens for choice in whole.choices]
    assert reasons == ["length"] * 4


def test_without_a_seed_two_requests_differ(openai: OpenAI):
    texts = {openai.completions.create(model="letters", prompt="t", max_tokens=30).choices[0].text for _ in range(3)}
    assert len(texts) > 1


def test_stop_ends_before_it_and_is_not_shown(openai: OpenAI):
    free = openai.completions.create(model="letters", prompt="the ", max_tokens=60, seed=9).choices[0].text
    stop = free[10:12]
    found = openai.completions.create(model="letters", prompt="the ", max_tokens=60, seed=9, stop=["@@", stop])
    assert found.choices[0].text == free[: free.index(stop)]
    assert found.choices[0].finish_reason == "stop"
    events = openai.completions.create(model="letters", prompt="the ", max_tokens=60, seed=9, stop=stop, stream=True)
    assert "".join(event.choices[0].text for event in events) == free[: free.index(stop)]


def test_logprobs_of_an_echoed_prompt_are_the_models(openai: OpenAI, folders: dict[str, Path]):
    found = openai.completions.create(
        model="letters", prompt="the dog", max_tokens=3, echo=True, logprobs=1, temperature=0
    ).choices[0]
    told = found.logprobs
    assert told is not None
    assert found.text.startswith("the dog")
    assert "".join(told.tokens) == found.text
    parts = [found.text[place:][: len(token)] for place, token in zip(told.text_offset, told.tokens, strict=True)]
    assert parts == told.tokens
    assert told.token_logprobs[0] is None
    written = api.load(folders["letters"], "cpu").generate(["the dog"], SampleConfig(temperature=0, max_length=3))[0][0]
    assert told.token_logprobs[-3:] == pytest.approx(written.token_logprobs, abs=1e-4)
    again = openai.completions.create(model="letters", prompt=found.text, max_tokens=0, echo=True, logprobs=0)
    assert again.choices[0].text == found.text
    assert again.choices[0].logprobs.token_logprobs[1:] == pytest.approx(told.token_logprobs[1:], abs=1e-4)


def test_token_ids_are_a_prompt_too(openai: OpenAI, folders: dict[str, Path]):
    ids = api.load(folders["letters"], "cpu").task.vocabularies.tokenizers["text"].encode("the cow")
    by_text = openai.completions.create(model="letters", prompt="the cow", max_tokens=9, seed=1)
    by_ids = openai.completions.create(model="letters", prompt=ids, max_tokens=9, seed=1)
    assert by_ids.choices[0].text == by_text.choices[0].text


def test_openais_errors_are_raised_as_its_own(openai: OpenAI):
    assert {model.id for model in openai.models.list()} == {"street", "letters", "films", "pieces"}
    with pytest.raises(NotFoundError, match="no run called 'lettters' is served; did you mean 'letters'"):
        openai.completions.create(model="lettters", prompt="x")
    with pytest.raises(BadRequestError, match="'films' classifies texts"):
        openai.completions.create(model="films", prompt="x")


def test_usage_comes_last_in_a_stream_that_asks(openai: OpenAI):
    events = list(
        openai.completions.create(
            model="letters", prompt="the", max_tokens=4, stream=True, stream_options={"include_usage": True}
        )
    )
    assert events[-1].choices == []
    assert events[-1].usage is not None
    assert events[-1].usage.completion_tokens == 4


def test_libretranslate_translates_as_the_run_does(server: str, http: httpx.Client, folders: dict[str, Path]):
    client, run = LibreTranslateAPI(server), api.load(folders["street"], "cpu")
    assert [client.translate(text, "en", "de") for text in SENTENCES] == api.translate(run, SENTENCES)
    assert client.languages() == [{"code": "en", "name": "English", "targets": ["de"]}]


def test_lists_alternatives_and_auto(server: str, http: httpx.Client, folders: dict[str, Path]):
    asked = {"q": SENTENCES, "source": "auto", "target": "de", "alternatives": 2}
    found = http.post(f"{server}/translate", json=asked).json()
    wanted = api.load(folders["street"], "cpu").translate(SENTENCES, BeamConfig(size=3, n_best=3, max_length=12))
    assert found["translatedText"] == [row[0].text for row in wanted]
    assert found["alternatives"] == [[one.text for one in row[1:]] for row in wanted]
    assert found["detectedLanguage"] == [{"confidence": 100.0, "language": "en"}] * len(SENTENCES)
    alone = http.post(f"{server}/translate", json={**asked, "q": SENTENCES[0]}).json()
    assert alone["translatedText"] == found["translatedText"][0]
    assert http.post(f"{server}/translate", json={**asked, "q": []}).status_code == 422


@pytest.mark.parametrize(
    ("asked", "status", "words"),
    [
        ({"source": "fr"}, 400, "fr to de is not supported; known: en to de"),
        ({"model": "films"}, 400, "'films' classifies texts"),
        ({"model": "nothing"}, 404, "no run called 'nothing'"),
        ({"format": "docx"}, 422, "format"),
        ({"alternatives": 11}, 422, "alternatives"),
        ({"colour": "red"}, 422, "colour"),
        ({"q": "word " * 300}, 413, "a sentence of"),
        ({"q": ["x" * 6000] * 2}, 413, "characters"),
        ({"q": "x" * 10_001}, 422, "q"),
    ],
)
def test_mistakes_are_sentences_that_libretranslates_clients_show(
    server: str, http: httpx.Client, asked: dict, status: int, words: str
):
    found = http.post(f"{server}/translate", json={"q": "x", "source": "en", "target": "de", **asked})
    assert found.status_code == status
    assert words in found.json()["error"]


def test_classify(server: str, http: httpx.Client, folders: dict[str, Path]):
    texts = ["a good film", "", "a dull film"]
    rows = api.load(folders["films"], "cpu").classify(texts)
    found = http.post(f"{server}/classify", json={"text": texts}).json()
    assert [one["label"] for one in found] == [max(row, key=row.__getitem__) if row else None for row in rows]
    assert found[0]["probabilities"] == pytest.approx(rows[0])
    assert (
        http.post(f"{server}/classify", json={"text": texts[0], "model": "films"}).json()["label"] == found[0]["label"]
    )


def test_attention_is_what_the_page_shows(server: str, http: httpx.Client, folders: dict[str, Path]):
    asked = {"model": "street", "text": SENTENCES[0], "target": "Die Straße", "options": QUICK}
    found = http.post(f"{server}/attention", json=asked).json()
    wanted = api.attention(api.load(folders["street"], "cpu"), SENTENCES[0], "Die Straße", **QUICK)
    assert found == json.loads(json.dumps(wanted))


def test_the_page_and_the_training_of_a_run(server: str, http: httpx.Client, folders: dict[str, Path]):
    lines = http.get(f"{server}/runs/letters/metrics").json()
    assert [line["step"] for line in lines] == [
        line["step"] for line in api.read_metrics(folders["letters"] / "metrics.jsonl")
    ]
    page = http.get(server, params={"model": "letters"})
    assert page.headers["content-type"].startswith("text/html")
    assert page.headers["content-security-policy"] == content_security_policy(live=True)
    assert 'id="regard-data"' in page.text


def test_prometheus_reads_the_metrics(server: str, http: httpx.Client):
    http.get(f"{server}/health")
    text = http.get(f"{server}/metrics").text
    assert 'regard_requests_total{route="/health",status="200"}' in text
    assert 'regard_request_seconds_bucket{route="/health",le="+Inf"}' in text
    assert 'regard_queue_requests{model="street"} 0' in text


def test_the_document_names_what_is_served(server: str, http: httpx.Client):
    tree = http.get(f"{server}/openapi.json").json()
    schemas = tree["components"]["schemas"]
    assert schemas["TranslateRequest"]["properties"]["source"]["enum"] == ["auto", "en"]
    assert schemas["CompletionRequest"]["properties"]["model"]["enum"] == ["letters", "pieces"]
    assert tree["paths"]["/translate"]["post"]["requestBody"]["content"]["application/json"]["example"]
