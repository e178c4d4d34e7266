"""Small checkpoints to save, damage and find again."""

import os
from pathlib import Path

import torch

from regard.train.checkpoint import save


def tensors_of(step: int) -> dict[str, torch.Tensor]:
    return {"layer.weight": torch.full((3, 4), float(step)), "layer.bias": torch.arange(4) + step}


def save_step(folder: Path, step: int, **state: object) -> Path:
    return save(folder, step, tensors_of(step), {"moment": tensors_of(step)["layer.weight"] / 2}, state)


def names(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))
