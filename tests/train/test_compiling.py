"""When blocks are compiled, and what is said about it."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from regard.models import DecoderConfig
from regard.train import compilation as compiling
from regard.train.compilation import fits_any_length, why_compile
from regard.train.settings import TrainConfig

SHAPES = {"one shape": (True, False), "one row": (False, True), "many": (False, False)}
CASES = [
    ({}, "cuda", "one shape", "as all batches have one shape"),
    ({}, "cuda", "one row", "as every batch is one row"),
    ({}, "cuda", "many", ""),
    ({"steps": 499}, "cuda", "one shape", ""),
    ({"minutes": 1}, "cuda", "one shape", ""),
    ({}, "cpu", "one shape", ""),
    ({"compile": "on", "steps": 1}, "cpu", "many", "as set"),
    ({"compile": "off"}, "cuda", "one shape", ""),
]


def model(position: str = "rotary", attention: Any = "full") -> torch.nn.Module:
    return DecoderConfig.from_tree(
        {"width": 8, "depth": 1, "heads": 2, "position": position, "attention": attention}
    ).build(9)


def why(device: str, shape: str, *, position: str = "rotary", **settings: Any) -> str:
    one_shape, one_row = SHAPES[shape]
    batches: Any = SimpleNamespace(one_shape=one_shape, one_row=one_row)
    return why_compile(model(position), TrainConfig(**{"steps": 500, **settings}), batches, torch.device(device))


@pytest.mark.parametrize(("settings", "device", "shape", "wanted"), CASES)
def test_why_blocks_are_compiled(settings, device, shape, wanted, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(compiling, "HAS_TRITON", True)
    assert why(device, shape, **settings) == wanted


def test_rows_of_any_length_need_positions_that_leave_the_scores_alone(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(compiling, "HAS_TRITON", True)
    assert why("cuda", "one row", position="alibi") == ""
    assert why("cuda", "one shape", position="alibi") != ""
    assert [fits_any_length(model(kind)) for kind in ("sinusoidal", "t5", "relative")] == [True, False, False]
    assert not fits_any_length(model(attention={"kind": "window", "reach": 2}))


def test_not_without_triton(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(compiling, "HAS_TRITON", False)
    assert why("cuda", "one shape") == ""
