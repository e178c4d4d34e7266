"""The live page about images in a real browser: patches, true numbers, another file, broken files, other runs."""

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from served_pictures import noise
from served_runs import guarded, serving

from regard import api

AXE = Path(__file__).parents[2] / "page" / "vendor" / "axe.min.js"
PATIENCE = 30_000  # milliseconds


@pytest.fixture(scope="module")
def address(pictured: dict[str, Path], folders: dict[str, Path]) -> Iterator[str]:
    with serving(*guarded({**pictured, "films": folders["films"]})) as found:
        yield found


@pytest.fixture
def page(browser: Any, address: str) -> Iterator[Any]:
    """A page that may ask its own server only, and must not fail."""
    context = browser.new_context(viewport={"width": 1280, "height": 900}, reduced_motion="reduce", base_url=address)
    opened, said, asked = context.new_page(), [], []
    opened.set_default_timeout(PATIENCE)
    opened.on("pageerror", lambda error: said.append(str(error)))
    opened.on("request", lambda request: asked.append(request.url))
    yield opened
    context.close()
    assert said == []
    assert all(url.startswith((address, "data:")) for url in asked)


def shown(page: Any, path: str) -> Any:
    page.goto(path)
    page.wait_for_selector("html[data-ready]")
    return page


def choose(page: Any, name: str, data: bytes) -> None:
    page.set_input_files("#edit-image", files=[{"name": name, "mimeType": "image/png", "buffer": data}])


def true_weights(tree: dict[str, Any], head: int) -> np.ndarray:
    """A head of the first layer: softmax over the exact scores that the API gives."""
    layer = tree["groups"][0]["layers"][0]
    scaled = np.frombuffer(base64.b64decode(layer["steps"]["scaled"]), "<f4")
    scores = np.exp(scaled.reshape(layer["heads"], layer["queries"], layer["keys"])[head])
    return scores / scores.sum(-1, keepdims=True)


def weights_on(page: Any, size: int) -> np.ndarray:
    """The weights that the page tells, as the arrow keys walk over the matrix row by row, there and back."""
    page.locator("#head .over").focus()
    page.keyboard.press("Escape")
    found = np.full((size, size), np.nan)
    page.keyboard.press("ArrowUp")
    for row in range(size):
        for step in range(size):
            told = page.locator("#head .readout").inner_text()
            column = step if row % 2 == 0 else size - 1 - step
            found[row, column] = float(told.removesuffix(" (pinned)").rpartition(": ")[2])
            if step < size - 1:
                page.keyboard.press("ArrowRight" if row % 2 == 0 else "ArrowLeft")
        page.keyboard.press("ArrowDown")
    return found


def test_patches_and_numbers_are_those_of_the_api(page: Any, pictured: dict[str, Path]):
    shown(page, "/")
    assert page.locator("#sentence .patch").count() == 4
    assert "the run's own data" in page.locator("#sentence figcaption").inner_text()
    page.locator("#sentence .patch").nth(1).click()
    assert "“1,2” attends to" in page.locator("#head .readout").inner_text()
    assert page.locator("#sentence .patch.chosen").count() == page.locator("#head .patch.chosen").count() == 1
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    assert "“2,2” attends to" in page.locator("#head .readout").inner_text()

    image = noise(7)
    choose(page, "noise.png", image)
    page.get_by_text("noise.png, as the model reads it").wait_for()
    wanted = api.attention(pictured["colours"], image)  # type: ignore[arg-type]
    page.get_by_role("button", name="next head").click()
    np.testing.assert_allclose(weights_on(page, 5), true_weights(wanted, head=1), atol=6e-5)
    label, probability = wanted["generation"]["classes"][0]
    assert f"{label} with probability {probability:.3f}" in page.locator("#sentence").inner_text()
    assert page.locator("#generation .bars li").count() == 2
    assert page.locator("#paths, #coreference").count() == 0


def test_a_head_is_switched_off_for_the_same_image(page: Any, pictured: dict[str, Path]):
    image = noise(5)
    choose(shown(page, "/"), "five.png", image)
    page.get_by_text("five.png, as the model reads it").wait_for()
    module = api.attention(pictured["colours"], image)["groups"][0]["layers"][0]["module"]  # type: ignore[arg-type]
    page.locator("#switch-head").check()
    page.get_by_text("Switched off: encoder self-attention, layer 1, head 1").wait_for()
    without = api.attention(pictured["colours"], image, off=[[module, 0]])  # type: ignore[arg-type]
    label, probability = without["generation"]["classes"][0]
    assert f"{label} with probability {probability:.3f}" in page.locator("#sentence").inner_text()
    assert "five.png" in page.locator("#sentence figcaption").inner_text()


def test_what_is_no_image_gets_one_sentence_and_the_page_stays(page: Any):
    shown(page, "/")
    before = page.locator("#sentence .words").inner_text()
    status = page.locator("#sentence .status")
    for name, data, told in [
        ("broken.png", b"no image at all", "broken.png: no image, or of a kind that is not read"),
        ("half.png", noise(1)[:120], "half.png: a damaged image"),
        ("empty.png", b"", "empty.png: no image"),
        ("photo.png", bytes(700_000), "photo.png has 700 kB; this server takes images of at most 675 kB."),
    ]:
        choose(page, name, data)
        status.filter(has_text=told).wait_for()
        assert status.inner_text().count("\n") == 0
    assert page.locator("#sentence .words").inner_text() == before
    assert page.locator("#sentence .patch").count() == 4


def test_a_file_can_be_dropped_on_a_page_that_has_none(page: Any):
    shown(page, "/?model=bare")
    assert "Drop an image here" in page.locator("#sentence").inner_text()
    assert "holds no image to begin with" in page.locator("#sentence .status").inner_text()
    assert page.locator("#training .plot").count() == 3
    page.get_by_role("button", name="Look").click()
    page.get_by_text("Choose an image first.").wait_for()
    drop = """(bytes) => {
      const carried = new DataTransfer();
      carried.items.add(new File([new Uint8Array(bytes)], "dropped.png", { type: "image/png" }));
      document.body.dispatchEvent(new DragEvent("drop", { dataTransfer: carried, bubbles: true, cancelable: true }));
    }"""
    page.evaluate(drop, list(noise(2)))
    page.get_by_text("dropped.png, as the model reads it").wait_for()
    assert page.locator("#sentence .patch").count() == 4


def test_runs_of_texts_and_of_images_can_be_switched(page: Any, pictured: dict[str, Path]):
    shown(page, "/")
    page.select_option("#edit-model", "films")
    page.get_by_text("films reads texts; Look opens its page.").wait_for()
    page.get_by_role("button", name="Look").click()
    page.locator("#edit-text").wait_for()
    assert page.locator("#edit-model").input_value() == "films"
    page.select_option("#edit-model", "words")
    page.get_by_role("button", name="Look").click()
    page.locator("#edit-image").wait_for()
    page.wait_for_selector("html[data-ready]")
    image = noise(9)
    page.fill("#edit-target", "something blue")
    choose(page, "nine.png", image)
    page.get_by_text("nine.png, as the model reads it").wait_for()
    assert page.locator("#sentence .word").all_inner_texts() == ["<bos>", "something", "blue"]
    page.get_by_role("tab", name="Cross-attention").click()
    page.locator("#sentence .word", has_text="blue").click()
    told = page.locator("#head .readout").inner_text()
    cross = api.attention(pictured["words"], image, "something blue")["groups"][-1]  # type: ignore[arg-type]
    best = true_weights({"groups": [cross]}, head=0)[2]
    place = int(best.argmax())
    assert f"“blue” attends to “{place // 2 + 1},{place % 2 + 1}” {best.max():.4f}" in told
    page.select_option("#edit-model", "colours")  # both read images: the same image goes to the other run
    page.get_by_role("button", name="Look").click()
    page.get_by_text("generates nothing; leave the target out").wait_for()
    page.fill("#edit-target", "")
    page.get_by_role("button", name="Look").click()
    page.get_by_role("heading", name="Prediction").wait_for()
    assert "nine.png" in page.locator("#sentence figcaption").inner_text()


@pytest.mark.parametrize("path", ["/", "/?model=words", "/?model=bare"])
@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 390)])
def test_axe_finds_nothing_serious(browser: Any, address: str, path: str, scheme: str, width: int):
    size = {"width": width, "height": 900}
    context = browser.new_context(viewport=size, color_scheme=scheme, bypass_csp=True, base_url=address)
    page = shown(context.new_page(), path)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.add_script_tag(content=AXE.read_text(encoding="utf-8"))
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]
    context.close()
    serious = {one["id"]: [node["html"][:120] for node in one["nodes"][:3]] for one in found
               if one["impact"] in ("serious", "critical")}  # fmt: skip
    assert not serious
