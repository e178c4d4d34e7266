"""The shapes of `examples/shapes`, fewer of them, and recipes that learn them in seconds."""

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

from regard.train.monitor import Watcher

SCRIPT = Path(__file__).parents[2] / "examples" / "shapes" / "make.py"
TRAIN = {"tokens_per_batch": 512, "save_every": 4, "log_every": 1, "precision": "float32", "device": "cpu"}
MODEL = {"image": 24, "patch": 8, "width": 16, "depth": 1, "heads": 2, "position": {"kind": "learned", "length": 10}}


class Quiet(Watcher):
    def step(self, line, progress): ...

    def measured(self, line): ...

    def say(self, sentence): ...


def script() -> ModuleType:
    found = importlib.util.spec_from_file_location("make_shapes", SCRIPT)
    assert found
    assert found.loader
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def draw(folder: Path, single: int = 30, scenes: int = 40) -> Path:
    """Writes train/, test/, scenes/ and the tables of sentences."""
    made = script()
    made.SINGLE, made.SCENES = {"train": single, "test": 9}, {"train": scenes, "test": 8}
    made.make(folder)
    return folder


def classification(folder: Path, steps: int = 8, **task: Any) -> dict[str, Any]:
    return {
        "task": {"kind": "image_classification", "augment": {"shift": 2, "flip": True}, **task},
        "data": {"folder": str(folder), "train": {"images": "train"}, "test": {"images": "test"}},
        "model": {"kind": "vision", **MODEL},
        "train": {"steps": steps, **TRAIN, "schedule": {"kind": "constant", "lr": 3e-3}},
    }


def description(folder: Path, steps: int = 8, **task: Any) -> dict[str, Any]:
    table = {"image": "image", "target": "caption"}
    return {
        "task": {"kind": "image_description", **task},
        "data": {
            "folder": str(folder),
            "train": {"file": "train.tsv", **table},
            "test": {"file": "test.tsv", **table},
        },
        "tokenizer": "word",
        "model": {"kind": "vision-encoder-decoder", **MODEL},
        "search": {"kind": "beam", "size": 2, "max_length": 12},
        "train": {"steps": steps, **TRAIN, "schedule": {"kind": "constant", "lr": 3e-3}},
    }
