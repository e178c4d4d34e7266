"""Tiny runs that have learnt a little, so that what they write depends on what they read."""

from pathlib import Path
from typing import Any

from regard import api
from regard.run import Run
from regard.run.recipe import resolve_recipe

MODEL = {"width": 32, "depth": 1, "heads": 2, "dropout": 0.0}
TRAIN = {"steps": 60, "tokens_per_batch": 512, "save_every": 60, "precision": "float32", "compile": "off",
         "schedule": {"kind": "constant", "lr": 5e-3}}  # fmt: skip


class Quiet:
    """Hears nothing of a training."""

    def __getattr__(self, name: str) -> Any:
        return lambda *arguments, **settings: None


def translator(folder: Path, **changes: Any) -> Run:
    tree = {
        "task": "translation",
        "data": {"train": {"street": "train", "limit": 400}, "valid": {"street": "valid", "limit": 40},
                 "max_length": 24},
        "tokenizer": {"kind": "bpe", "size": 400},
        "model": {"kind": "encoder-decoder", **MODEL},
        "search": {"kind": "greedy", "max_length": 20},
        "train": TRAIN,
    }  # fmt: skip
    return api.train(resolve_recipe({**tree, **changes}), out=folder, watcher=Quiet())  # type: ignore[arg-type]


def language_model(folder: Path, **changes: Any) -> Run:
    animals = ["dog", "cat", "cow", "hen", "fox"]
    file = folder.with_suffix(".txt")
    file.write_text("".join(f"the {one} sees the {other}\n" for one in animals for other in animals) * 4)
    tree = {
        "task": "language_model",
        "data": {"train": {"file": str(file)}, "batching": {"kind": "stream", "context": 32}},
        "tokenizer": "char",
        "model": {"kind": "decoder", **MODEL},
        "search": {"kind": "sample", "temperature": 0.0, "max_length": 30},
        "train": TRAIN,
    }
    return api.train(resolve_recipe({**tree, **changes}), out=folder, watcher=Quiet())  # type: ignore[arg-type]


def summariser(folder: Path, kind: str, **changes: Any) -> Run:
    tree = {
        "task": {"kind": "summarisation", "input_tokens": 12},
        "data": {"train": {"street": "train", "limit": 400}, "valid": {"street": "valid", "limit": 40},
                 "max_length": 24},
        "tokenizer": {"kind": "bpe", "size": 400},
        "model": {"kind": kind, **MODEL},
        "search": {"kind": "greedy", "max_length": 20},
        "train": TRAIN,
    }  # fmt: skip
    return api.train(resolve_recipe({**tree, **changes}), out=folder, watcher=Quiet())  # type: ignore[arg-type]
