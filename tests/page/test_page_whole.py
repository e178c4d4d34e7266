"""The page as a whole: keyboard, light and dark, a phone's width, hostile texts, long ones, and live on a server."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from regard import api
from regard.look import content_security_policy, render, trace
from regard.models import EncoderConfig, VisionConfig
from regard.run.recipe import Recipe
from regard.tasks import ClassificationConfig, ImageClassificationConfig, Vocabularies
from regard.tasks.trained import Trained
from regard.text.tokenizer import Tokenizer, WordConfig

AXE = Path(__file__).parents[2] / "page" / "vendor" / "axe.min.js"
EVIL = "<script>document.title='broken'</script> <img src=x onerror=\"document.title='broken'\">"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_axe_finds_nothing_serious(opened: Any, scheme: str, width: int):
    page = opened(color_scheme=scheme, viewport={"width": width, "height": 900}, bypass_csp=True)
    page.get_by_role("button", name="Shuffle the words").click()
    page.add_script_tag(content=AXE.read_text(encoding="utf-8"))
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]
    serious = {one["id"]: [node["html"][:120] for node in one["nodes"][:3]] for one in found
               if one["impact"] in ("serious", "critical")}  # fmt: skip
    assert not serious


def test_a_phone_scrolls_down_only(opened: Any):
    page = opened(viewport={"width": 390, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_everything_can_be_reached_by_keyboard(opened: Any):
    page = opened()
    reached = set()
    for _ in range(120):
        page.keyboard.press("Tab")
        section = page.evaluate("document.activeElement.closest('section')?.id ?? document.activeElement.tagName")
        reached.add(section)
    parts = {"sentence", "overview", "head", "steps", "generation", "positions", "paths", "coreference", "training"}
    assert parts <= reached
    page.get_by_role("tab", name="Encoder").focus()
    page.keyboard.press("ArrowRight")
    assert page.get_by_role("tab", name="Decoder").get_attribute("aria-selected") == "true"


def test_no_text_becomes_markup(opened: Any, tree: dict[str, Any], tmp_path: Path):
    hostile = json.loads(json.dumps(tree))
    hostile["about"]["run"] = hostile["text"] = hostile["output"] = EVIL
    for side in ("source", "target"):
        hostile["sentences"][side]["tokens"] = [EVIL] * len(hostile["sentences"][side]["tokens"])
    file = tmp_path / "hostile.html"
    file.write_text(render({**hostile, "against": hostile}), encoding="utf-8")
    page = opened(file)
    page.get_by_role("button", name="Shuffle the words").click()
    assert page.title() == f"regard: {EVIL}".replace("  ", " ")
    assert page.locator("img, #app script").count() == 0


def test_a_classifier_s_page(opened: Any, tmp_path: Path):
    tokenizer = Tokenizer.train(["a good film", "a dull film"], WordConfig(size=50))
    task = ClassificationConfig().task(Vocabularies({"text": tokenizer}, ["bad", "good"]))
    model = task.build(EncoderConfig(width=16, depth=1, heads=2, position="none", dropout=0.0)).eval()
    file = tmp_path / "classifier.html"
    trained = Trained(model, task, Recipe(task=task.config, model=model.config), torch.device("cpu"), "", 0)
    file.write_text(render(trace(trained, "a good film")), encoding="utf-8")
    page = opened(file)
    assert "Prediction" in page.locator("#sentence").inner_text()
    assert page.locator("#generation .bars li").count() == 2
    page.get_by_role("button", name="Shuffle the words").click()
    assert "does not depend on the order" in page.locator("#positions .shuffled").inner_text()
    assert "this model is none" in page.locator("#coreference").inner_text()


def test_an_image_s_page_has_patches(opened: Any, tmp_path: Path):
    task = ImageClassificationConfig().task(Vocabularies({}, ["cat", "dog", "fox"]))
    model = task.build(VisionConfig(width=16, depth=1, heads=2, image=16, patch=4, dropout=0.0)).eval()
    image, file = tmp_path / "image.png", tmp_path / "image.html"
    Image.fromarray(np.random.default_rng(1).integers(0, 256, (16, 16, 3), np.uint8)).save(image)
    trained = Trained(model, task, Recipe(task=task.config, model=model.config), torch.device("cpu"), "", 0)
    file.write_text(render(trace(trained, str(image))), encoding="utf-8")
    page = opened(file)
    assert page.locator("#sentence .patch").count() == 16
    page.locator("#sentence .patch").nth(5).click()
    assert "“2,2” attends to" in page.locator("#head .readout").inner_text()
    assert page.locator("#sentence .patch.chosen").count() == 1


def test_512_tokens_stay_usable(opened: Any, run: api.Run, tmp_path: Path):
    task: Any = run.task
    words = task.source.decode((task.source.encode("The dog saw the old cat. ") * 100)[:511])
    tree = api.attention(run, words, "Der Hund sah die Katze.", shuffles=0, coreference=False, paths=False, length=2)
    assert len(tree["sentences"]["source"]["tokens"]) == 512
    file = tmp_path / "long.html"
    file.write_text(render(tree), encoding="utf-8")
    page = opened(file)
    page.get_by_label("join pieces into words").uncheck()
    matrix = page.locator("#head .over")
    matrix.scroll_into_view_if_needed()
    box = matrix.bounding_box()
    page.mouse.move(box["x"] + 100, box["y"] + 100)
    assert "→" in page.locator("#head .readout").inner_text()


def test_live_editing_asks_the_server_and_nobody_else(browser: Any, run: api.Run, tree: dict[str, Any]):
    asked: list[dict[str, Any]] = []

    def answer(route: Any) -> None:
        path = route.request.url.removeprefix("http://regard.test")
        if path == "/":
            policy = {"Content-Security-Policy": content_security_policy(live=True), "Content-Type": "text/html"}
            route.fulfill(body=render({**tree, "models": ["tiny", "other"]}, live=True), headers=policy)
        elif path == "/attention":
            asked.append(json.loads(route.request.post_data))
            if asked[-1]["text"] == "too long":
                route.fulfill(status=422, json={"detail": "text: too long"})
            else:
                options = {"length": 8, "shuffles": 1, **asked[-1]["options"]}
                route.fulfill(json=api.attention(run, asked[-1]["text"], asked[-1]["target"], **options))
        elif path == "/runs/tiny/metrics":
            route.fulfill(json=tree["training"])
        else:
            asked.append({"unexpected": path})
            route.abort()

    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    troubles: list[str] = []
    page.on("pageerror", lambda error: troubles.append(str(error)))
    page.route("**/*", answer)
    page.goto("http://regard.test/")
    page.wait_for_selector("html[data-ready]")
    page.get_by_label("Text").fill("The dog slept.")
    page.get_by_label("Forced target").fill("Der Hund schlief.")
    page.get_by_role("button", name="Look", exact=True).click()
    page.locator("#sentence .word", has_text="slept").wait_for()
    assert asked == [{"model": "tiny", "text": "The dog slept.", "target": "Der Hund schlief.", "options": {}}]
    page.locator("#switch-head").check()
    page.get_by_text("Switched off: encoder self-attention, layer 1, head 1").wait_for()
    page.get_by_label("Text").fill("too long")
    page.get_by_role("button", name="Look", exact=True).click()
    page.get_by_text("text: too long").wait_for()
    context.close()
    assert not troubles
    assert all("unexpected" not in one for one in asked)
