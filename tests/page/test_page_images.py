"""A page about an image that a model describes: its patches, the words, and where each word looks."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from regard.look import render, trace
from regard.models import VisionEncoderDecoderConfig
from regard.run.recipe import Recipe
from regard.tasks import ImageDescriptionConfig, Vocabularies
from regard.tasks.trained import Trained
from regard.text.tokenizer import Tokenizer, WordConfig


@pytest.fixture
def file(tmp_path: Path) -> Path:
    tokenizer = Tokenizer.train(["a red circle left of a blue square"], WordConfig())
    task = ImageDescriptionConfig().task(Vocabularies({"target": tokenizer}))
    torch.manual_seed(1)
    model = task.build(VisionEncoderDecoderConfig(width=16, depth=1, heads=2, image=16, patch=4, dropout=0.0)).eval()
    image = tmp_path / "scene.png"
    Image.fromarray(np.random.default_rng(1).integers(0, 256, (16, 16, 3), np.uint8)).save(image)
    page = tmp_path / "page.html"
    trained = Trained(model, task, Recipe(task=task.config, model=model.config), torch.device("cpu"), "", 0)
    page.write_text(render(trace(trained, str(image), "a red circle", length=8, beam=2)), encoding="utf-8")
    return page


def test_words_look_at_patches(opened: Any, file: Path):
    page = opened(file)
    assert page.locator("#sentence .patch").count() == 16
    words = page.locator("#sentence .word")
    assert words.all_inner_texts() == ["<bos>", "a", "red", "circle"]
    page.locator("#sentence .patch").nth(5).click()
    assert page.locator("#sentence .patch.chosen").count() == 1
    assert "“2,2” attends to" in page.locator("#head .readout").inner_text()
    page.get_by_role("tab", name="Cross-attention").click()
    words.nth(2).click()
    assert "“red” attends to" in page.locator("#head .readout").inner_text()
    assert page.locator("#sentence .patch.chosen").count() == 0
    shares = [float(share) for share in page.locator("#sentence .patch").evaluate_all(
        "patches => patches.map((patch) => patch.style.getPropertyValue('--share'))")]  # fmt: skip
    assert max(shares) == 1
    assert min(shares) > 0
    page.get_by_role("tab", name="Decoder").click()
    patches = page.locator("#sentence .patch")
    shares = patches.evaluate_all("patches => patches.map((patch) => patch.style.getPropertyValue('--share'))")
    assert set(shares) == {"0"}
