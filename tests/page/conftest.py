"""A real browser (Debian's Chromium) and pages about a model trained here; without Chromium all is skipped."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from regard import api
from regard.look import render
from regard.run.recipe import resolve_recipe
from regard.train.progress import Lines

TEXT = "The animal did not cross the street because it was too tired."
TARGET = "Das Tier überquerte die Straße nicht, weil es zu müde war."
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
WINDOW = {"width": 1280, "height": 900}

Opener = Callable[..., Any]


@pytest.fixture(scope="module")  # no longer: while it is open, its event loop keeps others of this process from running
def browser() -> Iterator[Any]:
    sync_api = pytest.importorskip("playwright.sync_api", reason="no playwright: pip install playwright")
    if CHROMIUM is None:
        pytest.skip("no Chromium: apt-get install chromium")
    with sync_api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> api.Run:
    """A translator of one layer, trained, stopped and resumed, with its checkpoints kept."""
    folder = tmp_path_factory.mktemp("pages") / "tiny"
    recipe: dict[str, Any] = {
        "task": "translation",
        "data": {"train": {"street": "train", "limit": 200}, "valid": {"street": "valid", "limit": 20}},
        "tokenizer": {"kind": "bpe", "size": 400, "prefix_space": True},
        "model": {"kind": "encoder-decoder", "width": 32, "depth": 2, "heads": 2, "dropout": 0.0},
        "train": {"steps": 16, "tokens_per_batch": 256, "save_every": 8, "keep": 6, "log_every": 1,
                  "precision": "float32", "device": "cpu", "schedule": {"kind": "constant", "lr": 3e-3}},
    }  # fmt: skip
    api.train(resolve_recipe(recipe), out=folder, watcher=Lines())
    recipe["train"]["steps"] = 24
    return api.train(resolve_recipe(recipe), out=folder, resume=True, watcher=Lines())


@pytest.fixture(scope="session")
def tree(run: api.Run) -> dict[str, Any]:
    return api.attention(run, TEXT, TARGET, snapshots=True, length=16, beam=3)


@pytest.fixture(scope="session")
def page_file(tree: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("files") / "page.html"
    file.write_text(render({**tree, "against": tree}), encoding="utf-8")
    return file


@pytest.fixture
def opened(browser: Any, page_file: Path) -> Iterator[Opener]:
    """Opens a page from disk with the network off; fails on any script error, message or further request."""
    contexts: list[Any] = []
    troubles: list[str] = []

    def open_page(file: Path = page_file, **settings: Any) -> Any:
        context = browser.new_context(**{"viewport": WINDOW, "offline": True, "reduced_motion": "reduce", **settings})
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: troubles.append(str(error)))
        page.on("console", lambda message: troubles.append(message.text) if message.type == "error" else None)
        page.on("request", lambda request: None if request.url == file.as_uri() or request.url.startswith("data:")
                else troubles.append(f"asked for {request.url}"))  # fmt: skip
        page.goto(file.as_uri())
        page.wait_for_selector("html[data-ready]")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert not troubles
