"""The live page keeps what was chosen, says what it cannot do, and reads well in any script."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from served_runs import TRAIN, classification, guarded, serving

from regard import api
from regard.look import content_security_policy, render
from regard.run.recipe import resolve_recipe
from regard.train.monitor import Watcher

PATIENCE = 60_000  # milliseconds
TEXT = "The dog slept."
QUICK = {"beam": 2, "length": 6, "shuffles": 0, "coreference": False, "paths": False}
MOCKED = "http://regard.test"
HEBREW = ["מה", "שלומך", "היום"]
LONG = "Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft"


class _Silent(Watcher):
    """Says nothing."""


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A classifier with three checkpoints."""
    folder = tmp_path_factory.mktemp("kept")
    recipe = {**classification(folder), "train": {**TRAIN, "save_every": 2, "keep": 3}}
    api.train(resolve_recipe(recipe), out=folder / "kept", watcher=_Silent())
    return folder / "kept"


@pytest.fixture(scope="module")
def address(kept: Path, folders: dict[str, Path]) -> Iterator[str]:
    with serving(*guarded({"kept": kept, "films": folders["films"]})) as found:
        yield found


@pytest.fixture(scope="module")
def tree(folders: dict[str, Path]) -> dict[str, Any]:
    """A translation, with pieces of words and all three kinds of attention."""
    return api.attention(folders["street"], TEXT, **QUICK)


@pytest.fixture
def page(browser: Any, address: str) -> Iterator[Any]:
    context = browser.new_context(viewport={"width": 1280, "height": 900}, reduced_motion="reduce", base_url=address)
    opened, said = context.new_page(), []
    opened.set_default_timeout(PATIENCE)
    opened.on("pageerror", lambda error: said.append(str(error)))
    yield opened
    context.close()
    assert said == []


def shown(page: Any, path: str) -> Any:
    page.goto(path)
    page.wait_for_selector("html[data-ready]")
    return page


def edit(page: Any, text: str) -> None:
    """Looks at another text, and waits until it is shown."""
    page.fill("#edit-text", text)
    page.click("#edit-look")
    page.locator("#sentence .word", has_text=text.split()[-1]).first.wait_for()
    page.locator("#training").wait_for()


def mock(page: Any, tree: dict[str, Any]) -> None:
    """A server that knows one look only, and tells it with the options it was asked for."""

    def answer(route: Any) -> None:
        if route.request.url == f"{MOCKED}/":
            policy = {"Content-Security-Policy": content_security_policy(live=True), "Content-Type": "text/html"}
            route.fulfill(body=render({**tree, "models": ["street"]}, live=True), headers=policy)
        elif route.request.url == f"{MOCKED}/attention":
            asked = json.loads(route.request.post_data)
            route.fulfill(json={**tree, "text": asked["text"], "options": {**tree["options"], **asked["options"]}})
        else:
            route.fulfill(json=tree["training"])

    page.route(f"{MOCKED}/**", answer)
    shown(page, f"{MOCKED}/")


def file_about(tree: dict[str, Any], folder: Path) -> str:
    file = folder / "page.html"
    file.write_text(render(tree), encoding="utf-8")
    return file.as_uri()


def with_words(tree: dict[str, Any], words: list[str]) -> dict[str, Any]:
    """The same look, as if the first tokens that were read had been these words."""
    rest = len(tree["sentences"]["source"]["tokens"]) - len(words)
    texts = [*words, *["<eos>"] * rest]
    source = {"tokens": [f"▁{word}" for word in words] + ["<eos>"] * rest, "words": list(range(len(texts)))}
    return {**tree, "sentences": {**tree["sentences"], "source": {**source, "texts": texts}}}


def test_the_slider_over_checkpoints_survives_an_edit(page: Any, kept: Path):
    slider = shown(page, "/").get_by_label("Checkpoint")
    slider.wait_for()
    edit(page, "a very good film")
    page.locator("#training").evaluate("part => part.lastElementChild.scrollIntoView()")
    slider.wait_for()
    tree = api.attention(kept, "a very good film", snapshots=True)
    assert [shot["step"] for shot in tree["snapshots"]] == [2, 4, 6]
    slider.fill("0")
    assert "after step 2:" in page.locator("#training").inner_text()
    layer = tree["groups"][0]["layers"][0]
    sizes = page.locator(".forming canvas").evaluate("canvas => [canvas.height, canvas.width]")
    assert sizes == [layer["queries"], layer["keys"]]


def test_what_was_chosen_survives_an_edit(page: Any, tree: dict[str, Any]):
    mock(page, tree)
    page.get_by_role("tab", name="Decoder").click()
    page.locator('.small[data-layer="0"][data-head="1"]').click()
    page.get_by_label("Sort by").select_option("entropy")
    page.get_by_label("Temperature").fill("2.5")
    page.locator("#switch-head").check()
    off = page.get_by_text("Switched off: decoder self-attention, layer 1, head 2")
    off.wait_for()
    page.fill("#edit-text", "Another text.")
    page.click("#edit-look")
    page.get_by_label("Text").and_(page.get_by_text("Another text.")).wait_for()
    assert off.count() == 1
    assert page.locator("#switch-head").is_checked()
    assert page.get_by_role("tab", name="Decoder").get_attribute("aria-selected") == "true"
    assert page.get_by_label("Sort by").input_value() == "entropy"
    assert page.get_by_label("Temperature").input_value() == "2.5"
    page.get_by_role("button", name="switch all on again").click()
    off.wait_for(state="detached")
    assert not page.locator("#switch-head").is_checked()


def test_another_run_brings_its_own_name_and_curves(page: Any, folders: dict[str, Path]):
    shown(page, "/")
    page.select_option("#edit-model", "films")
    edit(page, "a great film")
    assert page.title() == "regard: films"
    steps = {line["step"] for line in api.attention(folders["films"], "a film")["training"] if "lr" in line}
    rates = page.locator("#training figure", has_text="Learning rate")
    assert rates.get_attribute("data-points") == str(len(steps))
    assert page.get_by_role("tab").count() == 0  # one kind of attention: nothing to choose
    assert page.get_by_label("join pieces into words").count() == 0  # whole words: nothing to join


def test_the_keyboard_keeps_its_place_among_the_tabs(page: Any, tree: dict[str, Any], tmp_path: Path):
    shown(page, file_about(tree, tmp_path)).get_by_role("tab", name="Encoder").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert page.get_by_role("tab", name="Cross-attention").get_attribute("aria-selected") == "true"


def test_a_second_click_lets_go(page: Any, tree: dict[str, Any], tmp_path: Path):
    matrix = shown(page, file_about(tree, tmp_path)).locator("#head .over")
    box = matrix.bounding_box()
    place = {"x": box["width"] - 60, "y": box["height"] - 20}
    readout = page.locator("#head .readout")
    matrix.click(position=place)
    assert readout.inner_text().endswith("(pinned)")
    matrix.click(position=place)
    page.mouse.move(0, 0)
    assert readout.inner_text() == "Point at a cell to read its weight."


def test_two_runs_of_the_server_side_by_side(page: Any, folders: dict[str, Path]):
    shown(page, "/")
    edit(page, "a great film")
    page.get_by_label("Compare with").select_option("films")
    page.locator("#compare .panel").first.wait_for()
    assert page.locator("#compare .panel h3").all_inner_texts() == ["kept", "films"]
    label, probability = api.attention(folders["films"], "a great film")["generation"]["classes"][0]
    assert page.locator("#compare .output").last.inner_text() == f"{label} ({100 * probability:.1f} %)"


def test_a_server_that_is_gone_is_told_and_the_page_stays(page: Any):
    shown(page, "/")
    words = page.locator("#sentence .words").first.inner_text()
    page.route("**/attention", lambda route: route.abort())
    page.route("**/metrics", lambda route: route.abort())
    page.fill("#edit-text", TEXT)
    page.click("#edit-look")
    page.locator("#sentence .status.failed", has_text="The server does not respond.").wait_for()
    assert page.locator("#sentence .words").first.inner_text() == words
    page.locator("#switch-head").click()
    page.locator("#head .failed", has_text="The server does not respond.").wait_for()
    assert not page.locator("#switch-head").is_checked()
    page.get_by_text("The curves are as of its last response.").wait_for()
    assert page.locator("#training .uplot").count() == 3
    page.unroute("**/metrics")
    page.get_by_text("Up to step 6.").wait_for()


def test_a_blank_text_gets_one_sentence(page: Any):
    shown(page, "/").fill("#edit-text", " \n ")
    page.click("#edit-look")
    page.get_by_text("expected something to look at, got a blank text").wait_for()
    assert page.locator("#overview .small").count() > 0


def test_text_from_right_to_left_is_laid_out_so(page: Any, tree: dict[str, Any], tmp_path: Path):
    shown(page, file_about(with_words(tree, HEBREW), tmp_path))
    lefts = [word.bounding_box()["x"] for word in page.locator('.word[data-side="source"]').all()]
    assert lefts == sorted(lefts, reverse=True)


@pytest.mark.parametrize("width", [1280, 390])
def test_a_very_long_word_pushes_nothing_aside(browser: Any, tree: dict[str, Any], tmp_path: Path, width: int):
    context = browser.new_context(viewport={"width": width, "height": 900})
    page = shown(context.new_page(), file_about(with_words(tree, [LONG]), tmp_path))
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    names = page.locator('#steps th[scope="row"]').all()
    assert max(name.bounding_box()["width"] for name in names) < 200
    context.close()


def test_weightings_that_a_model_has_not_are_not_offered(page: Any, tree: dict[str, Any], tmp_path: Path):
    bare = json.loads(json.dumps(tree))
    for group in bare["groups"]:
        group["rollout"] = []
        for layer in group["layers"]:
            layer.pop("norms")
            layer.pop("vectors", None)
    shown(page, file_about(bare, tmp_path))
    options = page.get_by_label("Weighting").locator("option")
    assert options.all_inner_texts() == ["raw weights"]
    assert "does not make its scores from a query and a key" in page.locator("#steps").inner_text()


def test_a_matrix_of_many_tokens_still_has_labels(page: Any, folders: dict[str, Path], tmp_path: Path):
    tree = api.attention(folders["street"], "The dog saw the old cat. " * 16, "Der Hund.", **QUICK)
    shown(page, file_about(tree, tmp_path))
    page.get_by_label("join pieces into words").uncheck()
    assert len(tree["sentences"]["source"]["tokens"]) > 64
    ink = page.locator("#head .stack canvas").first.evaluate(
        """canvas => {
          const { data } = canvas.getContext("2d").getImageData(0, 60, 46, canvas.height - 60);
          return data.filter((value, place) => place % 4 === 3 && value > 0).length / (data.length / 4);
        }"""
    )
    assert 0.01 < ink < 0.5  # letters left of the matrix: neither nothing nor the matrix itself
