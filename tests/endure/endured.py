"""Tiny runs that are disturbed on purpose, and what a disturbed one must have in common with an undisturbed one."""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from safetensors.torch import load_file

from regard.files.run_folder import resolve_link
from regard.run.recipe import Recipe, resolve_recipe
from regard.run.training import train_run
from regard.train.log import read_metrics
from regard.train.monitor import Watcher

TINY = {"kind": "encoder-decoder", "width": 16, "depth": 1, "heads": 2, "dropout": 0.1}


def tiny_tree(steps: int = 8, **train: Any) -> dict[str, Any]:
    """A translator on the embedded corpus that trains in a second."""
    return {
        "defaults": "fixed",
        "task": "translation",
        "data": {"train": {"street": "train", "limit": 120}, "valid": {"street": "valid", "limit": 12}},
        "tokenizer": {"kind": "bpe", "size": 300},
        "model": TINY,
        "search": {"kind": "greedy", "max_length": 6},
        "train": {"steps": steps, "tokens_per_batch": 256, "save_every": 2, "log_every": 1, "precision": "float32",
                  "device": "cpu", "schedule": {"kind": "constant", "lr": 3e-3}, **train},
    }  # fmt: skip


def tiny_recipe(steps: int = 8, dropout: float = 0.1, **train: Any) -> Recipe:
    return resolve_recipe({**tiny_tree(steps, **train), "model": {**TINY, "dropout": dropout}})


class Watching(Watcher):
    """Remembers what is said, and does something after a step."""

    def __init__(self, after: Mapping[int, Callable[[], None]] | None = None) -> None:
        self.said: list[str] = []
        self.after = dict(after or {})

    def step(self, line: Mapping[str, Any], progress: float) -> None:
        self.after.pop(line["step"], lambda: None)()

    def measured(self, line: Mapping[str, Any]) -> None: ...

    def say(self, sentence: str) -> None:
        self.said.append(sentence)


def train(
    recipe: Recipe, out: Path, after: Mapping[int, Callable[[], None]] | None = None, *, resume: bool = False
) -> Watching:
    watching = Watching(after)
    with patch("regard.run.conclusion.curves"):  # a picture takes longer than all the steps
        train_run(recipe, out, watching, resume)
    return watching


def command(recipe: Path, out: Path, *more: str) -> list[str]:
    return [sys.executable, "-m", "regard", "train", str(recipe), "--out", str(out), *more]


def course(folder: Path) -> list[tuple[Any, ...]]:
    """Every number of the metrics that is no time."""
    lines = [line for line in read_metrics(folder / "metrics.jsonl") if "event" not in line]
    timed = {"seconds", "tokens_per_second", "flops_per_second"}
    return [tuple((name, value) for name, value in line.items() if name not in timed) for line in lines]


def losses(folder: Path) -> list[float]:
    return [dict(line)["loss"] for line in course(folder)]


def weights(folder: Path, name: str = "last") -> dict[str, torch.Tensor]:
    """All tensors of a checkpoint, file by file."""
    place = resolve_link(folder / "checkpoints" / name)
    return {f"{file.stem}/{key}": value for file in sorted(place.glob("*.safetensors"))
            for key, value in load_file(file).items()}  # fmt: skip


def differences(folder: Path, whole: Path) -> list[str]:
    """What a run has not in common, to the bit, with an undisturbed one."""
    found = [] if course(folder) == course(whole) else ["the numbers of metrics.jsonl"]
    for name in ("last", "best"):
        one, other = weights(folder, name), weights(whole, name)
        if resolve_link(folder / "checkpoints" / name).name != resolve_link(whole / "checkpoints" / name).name:
            found.append(f"which checkpoint is {name}")
        if one.keys() != other.keys() or any(not torch.equal(one[key], other[key]) for key in one):
            found.append(f"the weights of {name}")
    return found
