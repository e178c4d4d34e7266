"""The pictures of docs/look.md, and how fast a large page is, both in a real browser.

    regard demo && python benchmarks/screenshots.py runs/demo
    python benchmarks/screenshots.py --speed          # 6 layers × 8 heads × 128 tokens: size, first paint, hover

Needs playwright and Chromium (`apt-get install chromium`).
"""

import shutil
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
from playwright.sync_api import sync_playwright

from regard import api
from regard.data.street import LECTURE_SENTENCES, pairs
from regard.data.tokenizer import BpeConfig, Tokenizer
from regard.look import render, trace
from regard.models import EncoderDecoderConfig
from regard.tasks import Lexicon, TranslationConfig

IMAGES = Path(__file__).parents[1] / "docs" / "images"
MARGIN = 24


def main() -> None:
    if "--speed" in sys.argv:
        speed()
    else:
        pictures(Path(sys.argv[1] if len(sys.argv) > 1 else "runs/demo"))


def browse(playwright: Any, **settings: Any) -> Any:
    browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
    return browser.new_context(offline=True, reduced_motion="reduce", **settings).new_page()


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


def save(page: Any, part: str) -> None:
    """One part of the page, or what the window shows of its top."""
    out = IMAGES / f"look-{part}.png"
    if part in ("top", "phone"):
        page.screenshot(path=out)
    else:
        script = "part => (({x, y, width, height}) => [x, y + scrollY, width, height])(part.getBoundingClientRect())"
        x, y, width, height = page.locator(f"#{part}").evaluate(script)
        clip = {"x": x - MARGIN, "y": y + MARGIN, "width": width + 2 * MARGIN, "height": height - MARGIN}
        page.screenshot(path=out, clip=clip, full_page=True)
    print(out)


def speed() -> None:
    torch.manual_seed(1)
    texts = [text for pair in pairs("train", 500) for text in pair]
    tokenizer = Tokenizer.train(texts, BpeConfig(size=1000, prefix_space=True))
    task = TranslationConfig().task(Lexicon({"source": tokenizer, "target": tokenizer}))
    model = task.build(EncoderDecoderConfig(width=256, depth=6, heads=8)).eval()
    for tokens in (128, 512):
        text, target = (tokenizer.decode(tokenizer.encode(one * 40)[: tokens - 1]) for one in LECTURE_SENTENCES[0])
        tree = trace(model, task, text, target, beam=2, length=8, coreference=tokens == 128, paths=tokens == 128)
        with tempfile.TemporaryDirectory() as scratch, sync_playwright() as playwright:
            file = Path(scratch) / "page.html"
            file.write_text(render(tree), encoding="utf-8")
            page = open_page(browse(playwright, viewport={"width": 1240, "height": 860}), file)
            paint = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
            size, hover = file.stat().st_size / 1e6, hover_time(page)
        print(f"{tokens} tokens: {size:.1f} MB, first paint {paint:.0f} ms, hover {hover:.1f} ms (median)")


def hover_time(page: Any) -> float:
    """Milliseconds from a pointer's move to the views being redrawn, which happens before the handler returns."""
    page.locator("#head .field.check input").first.uncheck()
    page.locator("#head .over").scroll_into_view_if_needed()
    times = page.evaluate(
        """() => {
          const canvas = document.querySelector('#head .over'), box = canvas.getBoundingClientRect(), times = [];
          for (let move = 0; move < 60; move++) {
            const at = { clientX: box.left + 60 + 3 * move, clientY: box.top + 60 + 3 * move, bubbles: true };
            const begun = performance.now();
            canvas.dispatchEvent(new PointerEvent('pointermove', at));
            times.push(performance.now() - begun);
          }
          return times;
        }"""
    )
    return statistics.median(times)


if __name__ == "__main__":
    main()
