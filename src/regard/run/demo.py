"""The recipe of the demo, as a tree: the embedded corpus needs no file beside the program."""

from collections.abc import Sequence
from typing import Any

from regard.run.recipe import Recipe, resolve_recipe

DEMO: dict[str, Any] = {
    "defaults": "fixed",
    "task": {"kind": "translation", "smoothing": 0.0},
    "data": {"train": {"street": "train"}, "valid": {"street": "valid"}, "test": {"street": "test"}},
    "tokenizer": {"kind": "bpe", "size": 3000, "prefix_space": True},
    "model": {
        "kind": "encoder-decoder",
        "width": 128,
        "depth": 3,
        "decoder_depth": 2,
        "heads": 4,
        "position": "rotary",
        "dropout": 0.0,
    },
    "train": {
        "steps": 2500,
        "tokens_per_batch": 640,
        "save_every": 625,
        "optimiser": "muon",
        "schedule": {"kind": "linear", "lr": 2e-3, "warmup": 100},
    },
}


def demo_recipe(overrides: Sequence[str] = ()) -> Recipe:
    """The demo with `key=value` settings on top."""
    return resolve_recipe(DEMO, overrides)
