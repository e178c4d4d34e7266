"""The page in a real browser, over the real server: edited text is read again, another run is chosen."""

import json
import shutil
from pathlib import Path

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
PATIENCE = 300  # tenths of a second


def wait_for(page, text: str) -> None:
    """The page forbids evaluated code, so the test looks by itself."""
    for _ in range(PATIENCE):
        if text in page.inner_text("#sentence").replace("\n", "").replace(" ", ""):
            return
        page.wait_for_timeout(100)
    raise AssertionError(f"{text} never came: {page.inner_text('#sentence')}")


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium: apt-get install chromium")
def test_editing_runs_the_model_again(server: str):
    sync_api = pytest.importorskip("playwright.sync_api", reason="no playwright: pip install playwright")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page, said, asked = browser.new_page(), [], []
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(server)
        wait_for(page, "Theanimal")
        page.fill("#edit-text", "The <script>alert(1)</script> chef sings.")
        page.click("form.edit button[type=submit]")
        wait_for(page, "chefsings")
        page.select_option("#edit-model", "films")
        page.fill("#edit-text", "a great film")
        page.click("form.edit button[type=submit]")
        wait_for(page, "agreatfilm")
        assert said == []
        assert all(url.startswith((server, "data:")) for url in asked)
        browser.close()


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium: apt-get install chromium")
def test_the_page_follows_a_run_while_it_trains(server: str, folders: dict[str, Path]):
    sync_api = pytest.importorskip("playwright.sync_api", reason="no playwright: pip install playwright")
    metrics = folders["street"] / "metrics.jsonl"
    before = metrics.read_text()
    trained = [line for line in map(json.loads, before.splitlines()) if line.get("split") == "train"]
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page()
        page.goto(server)
        rates = page.locator("#training figure", has_text="Learning rate")
        points = len({line["step"] for line in trained})
        rates.and_(page.locator(f"[data-points='{points}']")).wait_for(timeout=100 * PATIENCE)
        try:
            with metrics.open("a") as stream:
                stream.write(json.dumps({**trained[-1], "step": trained[-1]["step"] + 1}) + "\n")
            rates.and_(page.locator(f"[data-points='{points + 1}']")).wait_for(timeout=100 * PATIENCE)
        finally:
            metrics.write_text(before)
        browser.close()
