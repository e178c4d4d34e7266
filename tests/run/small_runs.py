"""Small recipes on the embedded corpus and on files made for the test; each trains in seconds."""

from pathlib import Path
from typing import Any

from regard.config import dump_toml

TINY_MODEL = {"width": 32, "depth": 1, "heads": 2, "dropout": 0.1}


def translation(steps: int = 12, **train: Any) -> dict[str, Any]:
    return {
        "task": "translation",
        "data": {
            "train": {"street": "train", "limit": 300},
            "valid": {"street": "valid", "limit": 40},
            "test": {"street": "test", "limit": 30},
        },
        "tokenizer": {"kind": "bpe", "size": 400},
        "model": {"kind": "encoder-decoder", **TINY_MODEL},
        "search": {"kind": "beam", "size": 3, "max_length": 24},
        "train": {"steps": steps, "tokens_per_batch": 256, "save_every": 4, "log_every": 1, "precision": "float32",
                  "schedule": {"kind": "constant", "lr": 3e-3}, **train},
    }  # fmt: skip


def language_model(folder: Path, steps: int = 12) -> dict[str, Any]:
    text = "".join(f"the {animal} sees the {other}\n" for animal in ANIMALS for other in ANIMALS)
    (folder / "text.txt").write_text(text * 4)
    return {
        "task": "language_model",
        "data": {"train": {"file": "text.txt"}, "batching": {"kind": "stream", "context": 32}},
        "tokenizer": "char",
        "model": {"kind": "decoder", **TINY_MODEL},
        "train": {"steps": steps, "tokens_per_batch": 256, "save_every": 6, "precision": "float32",
                  "schedule": {"kind": "constant", "lr": 3e-3}},
    }  # fmt: skip


def classification(folder: Path, steps: int = 12) -> dict[str, Any]:
    rows = [f"a {word} film number {number}\t{label}" for number in range(60) for word, label in WORDS]
    (folder / "reviews.tsv").write_text("\n".join(rows) + "\n")
    return {
        "task": "classification",
        "data": {"train": {"file": "reviews.tsv", "text": 0, "label": 1}},
        "tokenizer": "word",
        "model": {"kind": "encoder", **TINY_MODEL},
        "train": {"steps": steps, "tokens_per_batch": 256, "save_every": 6, "precision": "float32",
                  "schedule": {"kind": "constant", "lr": 3e-3}},
    }  # fmt: skip


ANIMALS = ["dog", "cat", "cow", "hen", "fox"]
WORDS = [("good", "positive"), ("great", "positive"), ("bad", "negative"), ("dull", "negative")]


def write_recipe(folder: Path, tree: dict[str, Any]) -> Path:
    file = folder / "recipe.toml"
    file.write_text(dump_toml({"defaults": "fixed", **tree}))
    return file
