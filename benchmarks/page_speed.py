"""How fast the page is in a real browser: 6 layers × 8 heads, 128 and 512 tokens a side.

python benchmarks/page_speed.py            # writes docs/measurements/page.json and the table of docs/look.md

Every try opens the file in a browser window of its own, with nothing cached. Needs playwright and Chromium.
"""

import argparse
import json
import os
import re
import shutil
import statistics
import tempfile
from pathlib import Path
from typing import Any

import torch
from playwright.sync_api import sync_playwright

from regard.data.street import LECTURE_SENTENCES, pairs
from regard.look import render, trace
from regard.models import EncoderDecoderConfig
from regard.run.recipe import Recipe
from regard.tasks import TranslationConfig, Vocabularies
from regard.tasks.trained import Trained
from regard.text.tokenizer import BpeConfig, Tokenizer

TOKENS = (128, 512)
DOCUMENT = Path("docs/look.md")
TABLE = re.compile("(<!-- speed: begin -->).*(<!-- speed: end -->)", re.DOTALL)
PAINT = "performance.getEntriesByName('first-contentful-paint')[0].startTime"
HOVER = """() => {
  const canvas = document.querySelector('#head .over'), box = canvas.getBoundingClientRect(), times = [];
  for (let move = 0; move < 60; move++) {
    const at = { clientX: box.left + 150 + 3 * move, clientY: box.top + 150 + 3 * move, bubbles: true };
    const begun = performance.now();
    canvas.dispatchEvent(new PointerEvent('pointermove', at));
    times.push(performance.now() - begun);
  }
  return times;
}"""
NEXT_HEAD = """() => {
  const next = document.querySelector('#head button[aria-label="next head"]'), times = [];
  for (let press = 0; press < 10; press++) {
    const begun = performance.now();
    next.click();
    times.push(performance.now() - begun);
  }
  return times;
}"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tries", type=int, default=9)
    parser.add_argument("--out", type=Path, default=Path("docs/measurements/page.json"))
    arguments = parser.parse_args()
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as scratch:
        files = {tokens: write_page(Path(scratch) / f"{tokens}.html", tokens) for tokens in TOKENS}
        rows = [{"tokens": tokens, **measured(file, arguments.tries)} for tokens, file in files.items()]
    tree = {"layers": 6, "heads": 8, "tries": arguments.tries, "load": load, "rows": rows}
    arguments.out.write_text(json.dumps(tree, indent=1) + "\n", encoding="utf-8")
    text = DOCUMENT.read_text(encoding="utf-8")
    DOCUMENT.write_text(TABLE.sub(lambda marks: f"{marks[1]}\n\n{table(tree)}\n\n{marks[2]}", text), encoding="utf-8")
    print(table(tree))


def write_page(file: Path, tokens: int) -> Path:
    """A page about a translator of random weights, with so many tokens on both sides."""
    torch.manual_seed(1)
    texts = [text for pair in pairs("train", 500) for text in pair]
    tokenizer = Tokenizer.train(texts, BpeConfig(size=1000, prefix_space=True))
    task = TranslationConfig().task(Vocabularies({"source": tokenizer, "target": tokenizer}))
    model = task.build(EncoderDecoderConfig(width=256, depth=6, heads=8)).eval()
    text, target = (tokenizer.decode(tokenizer.encode(one * 40)[: tokens - 1]) for one in LECTURE_SENTENCES[0])
    whole = tokens == min(TOKENS)  # what takes long to compute, and little of the page, is left out of longer ones
    trained = Trained(model, task, Recipe(task=task.config, model=model.config), torch.device("cpu"), "", 0)
    tree = trace(trained, text, target, beam=2, length=8, shuffles=3 * whole, coreference=whole, paths=whole)
    assert [len(tree["sentences"][side]["tokens"]) for side in ("source", "target")] == [tokens, tokens]
    file.write_text(render(tree), encoding="utf-8")
    return file


def measured(file: Path, tries: int) -> dict[str, float]:
    """Megabytes, and milliseconds: medians over all tries."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        found = [one_try(browser, file) for _ in range(tries)]
        browser.close()
    medians = {name: round(statistics.median(each[name] for each in found), 2) for name in found[0]}
    return {"megabytes": round(file.stat().st_size / 1e6, 2), **medians}


def one_try(browser: Any, file: Path) -> dict[str, float]:
    """A fresh window; a move of the pointer or a press is done when all views are drawn again."""
    context = browser.new_context(offline=True, reduced_motion="reduce", viewport={"width": 1240, "height": 860})
    page = context.new_page()
    page.goto(file.as_uri())
    page.wait_for_selector("html[data-ready]")
    page.wait_for_timeout(300)
    paint = page.evaluate(PAINT)
    page.locator("#head .field.check input").first.uncheck()  # tokens, not words: the larger matrix
    page.locator("#head .over").scroll_into_view_if_needed()
    hover, press = (statistics.median(page.evaluate(script)) for script in (HOVER, NEXT_HEAD))
    context.close()
    return {"first_paint_ms": paint, "hover_ms": hover, "next_head_ms": press}


def table(tree: dict[str, Any]) -> str:
    """The rows in Markdown."""
    head = "| tokens a side | file | first paint | pointing at a cell | another head |\n|---|---|---|---|---|\n"
    return head + "\n".join(
        f"| {row['tokens']} | {row['megabytes']:.1f} MB | {row['first_paint_ms']:.0f} ms "
        f"| {row['hover_ms']:.1f} ms | {row['next_head_ms']:.0f} ms |"
        for row in tree["rows"]
    )


if __name__ == "__main__":
    main()
