"""Images over HTTP: in base64 only, within limits, and no file of the server is ever read for a client."""

import base64
import json
import zlib
from pathlib import Path
from typing import Any

import httpx
import pytest
from served_pictures import encoded, noise
from served_runs import guarded, serving

from regard import api
from regard.web import look as looking


def posted(image: bytes, **more: Any) -> dict[str, Any]:
    return {"image": base64.b64encode(image).decode(), **more}


def test_images_are_answered_as_on_the_command_line(pictured: dict[str, Path]):
    image = encoded("red")
    with serving(*guarded(pictured)) as address, httpx.Client(base_url=address, timeout=60) as client:
        classified = client.post("/images", json=posted(image)).json()
        described = client.post("/images", json=posted(image, model="words")).json()
    probabilities = api.load(pictured["colours"], "cpu").classify([image])[0]  # type: ignore[list-item]
    assert classified["probabilities"] == pytest.approx(probabilities, abs=1e-5)
    assert classified["label"] == max(classified["probabilities"], key=classified["probabilities"].get)
    assert described["text"] == api.translate(pictured["words"], [image])[0]  # type: ignore[list-item]


def test_no_name_of_a_file_is_followed_and_limits_hold(pictured: dict[str, Path]):
    file = str(next((pictured["colours"].parent / "train").rglob("*.png")))
    huge = encoded("red", (4096, 4096))
    with serving(*guarded(pictured)) as address, httpx.Client(base_url=address, timeout=60) as client:
        asked = [
            client.post("/attention", json={"text": file}),
            client.post("/classify", json={"text": file, "model": "colours"}),
            client.post("/translate", json={"q": file, "source": "auto", "target": "target"}),
            client.post("/images", json={"image": file}),
            client.post("/images", json=posted(file.encode())),
            client.post("/images", json=posted(encoded("red", (9, 8)))),
            client.post("/attention", json={"image": file}),
            client.post("/attention", json=posted(file.encode())),
            client.post("/attention", json=posted(encoded("red", (9, 8)))),
        ]
        too_large = [client.post(route, json=posted(huge)) for route in ("/images", "/attention")]
    assert [one.status_code for one in asked] == [400] * len(asked)
    assert "reads images" in asked[0].json()["error"]
    for first in (3, 6):
        assert "not base64" in asked[first].json()["error"]
        assert "no image" in asked[first + 1].json()["error"]
        assert "the model takes 8 × 8" in asked[first + 2].json()["error"]
    assert [one.status_code for one in too_large] == [413, 413]


def test_attention_of_an_image_is_the_api_s(pictured: dict[str, Path]):
    image, options = noise(3), {"beam": 2, "length": 6}
    with serving(*guarded(pictured)) as address, httpx.Client(base_url=address, timeout=60) as client:
        labelled = client.post("/attention", json=posted(image)).json()
        forced = posted(image, model="words", target="something red", options=options)
        written = client.post("/attention", json=forced).json()
    wanted = api.attention(pictured["colours"], image)  # type: ignore[arg-type]
    assert labelled["groups"] == wanted["groups"]
    assert labelled["image"] == wanted["image"]
    assert labelled["generation"]["classes"] == wanted["generation"]["classes"]
    assert written["groups"] == api.attention(pictured["words"], image, "something red", **options)["groups"]  # type: ignore[arg-type]
    assert written["sentences"]["target"]["texts"] == ["<bos>", "something", "red"]


def test_a_first_input_that_does_not_fit_leaves_a_page_that_asks_for_another(
    folders: dict[str, Path], pictured: dict[str, Path], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(looking, "FIRST_TEXT", "a film " * 400)
    runs = {"films": folders["films"], "bare": pictured["bare"]}
    with serving(*guarded(runs)) as address, httpx.Client(base_url=address, timeout=60) as client:
        pages = {name: client.get("/", params={"model": name}) for name in runs}
    told = {name: data_of(page.text) for name, page in pages.items()}
    assert all(page.status_code == 200 for page in pages.values())
    assert "at most 512 can be looked at" in told["films"]["blank"]
    assert "holds no image" in told["bare"]["blank"]
    for name, tree in told.items():
        assert (tree["about"]["run"], tree["groups"], tree["shape"]) == (name, [], "label")
        assert (tree["models"], tree["image_models"]) == (["films", "bare"], ["bare"])


def data_of(page: str) -> dict[str, Any]:
    packed = page.partition('id="regard-data">')[2].partition("</script>")[0]
    return json.loads(zlib.decompress(base64.b64decode(packed)))


def test_a_look_takes_either_a_text_or_an_image(pictured: dict[str, Path], folders: dict[str, Path]):
    runs = {"films": folders["films"], **pictured}
    with serving(*guarded(runs)) as address, httpx.Client(base_url=address, timeout=60) as client:
        refused = {
            "either a text or an image": [{}, posted(noise(1), text="a good film")],
            "reads no images": [posted(noise(1), model="films")],
            "reads images": [{"text": "a good film", "model": "words"}],
            "generates nothing": [posted(noise(1), model="colours", target="red")],
        }
        told = {part: [client.post("/attention", json=body) for body in bodies] for part, bodies in refused.items()}
        first = client.post("/attention", json=posted(noise(1))).json()
    for part, answers in told.items():
        assert [one.status_code for one in answers] == [400] * len(answers)
        assert all(part in one.json()["error"] for one in answers)
    assert first["about"]["run"] == "colours"  # the first that reads images
