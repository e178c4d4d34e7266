"""The page as a file: its size, what it may ask for, and that no text can become markup."""

import base64
import hashlib
import io
import json
import re
import zlib

import numpy as np
import pytest
import torch
from looked_at import TEXT, by_hand, translator
from PIL import Image

from regard.look import content_security_policy, render, trace
from regard.models import VisionConfig
from regard.tasks import ImageClassificationConfig, Vocabularies

EVIL = "</script><script>alert(1)</script><!-- \u2028 <img src=x onerror=alert(1)>"


def data_of(page: str) -> dict:
    found = re.search(r'<script type="application/octet-stream" id="regard-data">(.*?)</script>', page, re.DOTALL)
    assert found
    return json.loads(zlib.decompress(base64.b64decode(found[1])))


def test_data_comes_back_and_cannot_leave_its_element():
    page = render({"text": EVIL, "about": {"run": EVIL}})
    assert data_of(page) == {"text": EVIL, "about": {"run": EVIL}, "live": False}
    assert "alert(1)" not in page
    assert page.count("</script>") == 2


def test_the_policy_names_exactly_the_page_s_own_script_and_style():
    page = render({})
    for element, rule in (("script", "script-src"), ("style", "style-src")):
        (own,) = re.findall(rf"<{element}>(.*?)</{element}>", page, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(own.encode()).digest()).decode()
        assert f"{rule} 'sha256-{digest}'" in content_security_policy()
        assert f"{rule} 'sha256-{digest}'" in page
    assert "unsafe" not in content_security_policy(live=True)
    assert "connect-src 'none'" in content_security_policy()
    assert "connect-src 'self'" in content_security_policy(live=True)
    assert "frame-ancestors" not in page


def test_the_page_names_no_other_host():
    page = render({})
    hosts = set(re.findall(r"(?:https?:)?//([a-z0-9.-]+\.[a-z]{2,})", page))
    assert hosts <= {"www.w3.org"}
    assert not re.search(r"\son[a-z]+=", page)


@pytest.mark.parametrize("words", [128])
def test_a_large_page_stays_under_5_megabytes(words: int):
    model, task = translator(width=64, depth=6, heads=8)
    source = (TEXT + " ") * 20
    target = "Das Tier überquerte die Straße nicht, weil es zu müde war. " * 20
    source = task.source.decode(task.source.encode(source)[: words - 1])
    target = task.target.decode(task.target.encode(target)[: words - 1])
    tree = trace(by_hand(model, task), source, target, beam=2, length=16, shuffles=1)
    assert [len(tree["sentences"][side]["tokens"]) for side in ("source", "target")] == [words, words]
    assert len(render(tree).encode()) < 5_000_000


def test_an_image_has_patches():
    task = ImageClassificationConfig().task(Vocabularies({}, ["cat", "dog", "fox"]))
    model = task.build(VisionConfig(width=16, depth=2, heads=2, image=16, patch=4, dropout=0.0)).eval()
    image, file = np.random.default_rng(1).integers(0, 256, (16, 16, 3), np.uint8), io.BytesIO()
    Image.fromarray(image).save(file, "PNG")
    tree = trace(by_hand(model, task), file.getvalue())
    assert tree["sentences"]["source"]["tokens"][:2] == ["<class>", "1,1"]
    assert len(tree["sentences"]["source"]["tokens"]) == 17
    pixels = base64.b64decode(tree["image"]["pixels"])
    assert pixels[:3] == image[0, 0].tobytes()
    best = tree["generation"]["classes"][0]
    with torch.no_grad():
        assert best[1] == pytest.approx(
            float(model(task.normalise(image[None], torch.device("cpu"))).softmax(-1).max()), abs=1e-5
        )
