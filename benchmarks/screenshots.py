"""The pictures of docs/look.md, in a real browser.

    regard demo && python benchmarks/screenshots.py runs/demo
    python benchmarks/screenshots.py --image runs/cifar10     # the live page of a run that reads images

Needs playwright and Chromium (`apt-get install chromium`).
"""

import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from playwright.sync_api import Error, sync_playwright

from regard import api
from regard.data.street import LECTURE_SENTENCES

IMAGES = Path(__file__).parents[1] / "docs" / "images"
MARGIN = 24
PORT = 8765


def main() -> None:
    if "--image" in sys.argv:
        live_image(Path(sys.argv[-1]))
    else:
        pictures(Path(sys.argv[1] if len(sys.argv) > 1 else "runs/demo"))


def browse(playwright: Any, *, offline: bool = True, **settings: Any) -> Any:
    browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
    return browser.new_context(offline=offline, reduced_motion="reduce", **settings).new_page()


def open_page(page: Any, file: Path) -> Any:
    page.goto(file.as_uri())
    page.wait_for_selector("html[data-ready]")
    page.wait_for_timeout(400)
    return page


def pictures(folder: Path) -> None:
    with tempfile.TemporaryDirectory() as scratch, sync_playwright() as playwright:
        file = Path(scratch) / "page.html"
        api.look(folder, LECTURE_SENTENCES[0][0], against=folder, out=file)
        page = open_page(browse(playwright, viewport={"width": 1240, "height": 860}, device_scale_factor=1.5), file)
        save(page, "top")
        for fixed in (".note", "nav"):  # they would lie over the parts
            page.locator(fixed).evaluate("element => element.style.display = 'none'")
        page.get_by_role("tab", name="Cross-attention").click()
        page.locator('.small[data-layer="0"][data-head="2"]').click()
        page.locator('#sentence .word[data-side="target"]', has_text="weil").click()
        page.get_by_role("button", name="Shuffle the words").click()
        page.get_by_label("switch this head off", exact=True).check()
        page.get_by_label("Temperature").fill("3")
        for part in ("overview", "head", "steps", "generation", "positions", "paths", "coreference", "training"):
            save(page, part)
        phone = {"width": 400, "height": 860}
        save(open_page(browse(playwright, viewport=phone, device_scale_factor=2, color_scheme="dark"), file), "phone")


def live_image(folder: Path) -> None:
    """The top of the live page; a patch is chosen."""
    command = [sys.executable, "-m", "regard", "serve", str(folder), "--port", str(PORT)]
    with subprocess.Popen(command) as server, sync_playwright() as playwright:
        try:
            settings = {"viewport": {"width": 1240, "height": 860}, "device_scale_factor": 1.5}
            page = browse(playwright, offline=False, **settings)
            while not answers(page):
                time.sleep(1)
            page.wait_for_selector("html[data-ready]")
            patches = page.locator("#sentence .patch")
            patches.nth(patches.count() // 2 + 3).click()
            page.mouse.move(0, 0)
            save(page, "image")
        finally:
            server.terminate()


def answers(page: Any) -> bool:
    try:
        return page.goto(f"http://127.0.0.1:{PORT}/").ok
    except Error:  # it has not begun to listen
        return False


def save(page: Any, part: str) -> None:
    """One part of the page, or what the window shows of its top."""
    out = IMAGES / f"look-{part}.png"
    if part in ("top", "phone", "image"):
        page.screenshot(path=out)
    else:
        script = "part => (({x, y, width, height}) => [x, y + scrollY, width, height])(part.getBoundingClientRect())"
        x, y, width, height = page.locator(f"#{part}").evaluate(script)
        clip = {"x": x - MARGIN, "y": y + MARGIN, "width": width + 2 * MARGIN, "height": height - MARGIN}
        page.screenshot(path=out, clip=clip, full_page=True)
    print(out)


if __name__ == "__main__":
    main()
