"""When blocks are compiled, and what is said about it."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from regard.train.loop import Trainer
from regard.train.settings import TrainConfig

SHAPES = {"one shape": (True, False), "one row": (False, True), "many": (False, False)}
CASES = [
    ("auto", "cuda", "one shape", 500, "as all batches have one shape"),
    ("auto", "cuda", "one row", 500, "as every batch is one row"),
    ("auto", "cuda", "many", 500, ""),
    ("auto", "cuda", "one shape", 499, ""),
    ("auto", "cpu", "one shape", 500, ""),
    ("on", "cpu", "many", 1, "as set"),
    ("off", "cuda", "one shape", 500, ""),
]


@pytest.mark.parametrize(("setting", "device", "shape", "steps", "why"), CASES)
def test_why_blocks_are_compiled(setting, device, shape, steps, why):
    one_shape, one_row = SHAPES[shape]
    trainer: Any = SimpleNamespace(
        config=TrainConfig(compile=setting, steps=steps),
        team=SimpleNamespace(device=torch.device(device)),
        batches=SimpleNamespace(one_shape=one_shape, one_row=one_row),
    )
    assert Trainer._why_compiled(trainer) == why
