"""The picture of who may attend to whom: drawn from the same objects that models attend with."""

from pathlib import Path

import pytest
import torch
from looked_at import TEXT, by_hand, translator, writer
from matplotlib.image import imread
from typer.testing import CliRunner

from regard.cli import app
from regard.errors import ConfigError
from regard.look import pattern_figure as pattern_picture
from regard.look.pattern_figure import LECTURE, LECTURE_LENGTH, draw_lecture, draw_patterns
from regard.models.convolutional.bytenet import ByteNetConfig
from regard.nn.attention.kinds import four_panels

BIGBIRD = {"kind": "bigbird", "block": 2, "reach": 1, "global_tokens": 2, "random": 1}


def test_the_lectures_four_panels(tmp_path: Path):
    png = tmp_path / "four.png"
    assert draw_lecture(png) == ["random", "window", "global", "bigbird"]
    assert imread(png).ndim == 3
    panels = four_panels(LECTURE_LENGTH, LECTURE)
    assert torch.equal(panels["random"] | panels["window"] | panels["global"], panels["bigbird"])


def test_a_translators_patterns(tmp_path: Path):
    model, task = translator()
    names = draw_patterns(by_hand(model, task), TEXT, None, tmp_path / "pattern.png")
    assert names == ["encoder: full", "decoder: full", "cross: full"]


def test_a_model_without_attention_has_no_pattern(tmp_path: Path):
    _, task = translator()
    model = task.build(ByteNetConfig(width=8, depth=1)).eval()
    with pytest.raises(ConfigError, match=r"model.kind: 'bytenet' has no attention"):
        draw_patterns(by_hand(model, task), TEXT, None, tmp_path / "pattern.png")


def test_bigbird_shows_its_parts_and_what_the_model_really_does(tmp_path: Path, monkeypatch):
    drawn: dict[str, torch.Tensor] = {}
    monkeypatch.setattr(pattern_picture, "_draw", lambda panels, png: drawn.update(panels) or list(panels))
    model, task = writer(attention=BIGBIRD)
    names = draw_patterns(by_hand(model, task, documents=True), TEXT, None, tmp_path / "pattern.png")
    assert names == ["decoder: random", "decoder: window", "decoder: global", "decoder: bigbird"]
    *parts, whole = drawn.values()
    assert not whole.triu(1).any()
    one_head = torch.stack(list(parts)).any(0)
    assert (whole >= one_head).all()  # the model's other heads draw other random blocks


def test_the_verb_without_a_run(tmp_path: Path):
    png = tmp_path / "pattern.png"
    done = CliRunner().invoke(app, ["look", "--pattern", "--out", str(png)])
    assert done.exit_code == 0, done.output
    assert png.exists()
    assert "random, window, global, bigbird" in done.output
