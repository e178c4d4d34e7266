"""Sweeps on a little of the embedded corpus; each run takes a second or two."""

from contextlib import contextmanager
from pathlib import Path
from typing import Any

from regard.config import dump_toml
from regard.train.monitor import Watcher

TINY: dict[str, Any] = {
    "defaults": "fixed",
    "task": "translation",
    "data": {
        "train": {"street": "train", "limit": 200},
        "valid": {"street": "valid", "limit": 20},
        "test": {"street": "test", "limit": 20},
    },
    "tokenizer": {"kind": "bpe", "size": 300},
    "model": {"kind": "encoder-decoder", "width": 16, "depth": 1, "heads": 2, "dropout": 0.0},
    "search": {"kind": "greedy", "max_length": 12},
    "train": {"steps": 110, "tokens_per_batch": 64, "save_every": 40, "log_every": 20, "precision": "float32",
              "schedule": {"kind": "constant", "lr": 3e-3}},
}  # fmt: skip
LSTM = ["model.kind=lstm-seq2seq", "model.width=16", "model.depth=1"]
BROKEN = ["train.schedule.lr=1e12", "train.clip=0"]


class Quiet(Watcher):
    """Notes what was said."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def step(self, line, progress): ...

    def measured(self, line): ...

    def say(self, sentence):
        self.said.append(sentence)

    @contextmanager
    def __call__(self):
        yield self


def write_sweep(folder: Path, variants: dict[str, Any], recipe: dict[str, Any] | None = None, **sweep: Any) -> Path:
    """A sweep file beside its base recipe."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "base.toml").write_text(dump_toml({"defaults": "fixed", **(recipe or TINY)}))
    file = folder / "sweep.toml"
    file.write_text(dump_toml({"base": "base.toml", **sweep, "variants": variants}))
    return file
