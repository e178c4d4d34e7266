"""Tiny runs, trained in a second each, and servers over them on free ports of this machine."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from regard import api
from regard.run.recipe import resolve_recipe
from regard.web import ServeConfig, make_app
from regard.web.app import free_port, serve_until
from regard.web.app import guarded as guard
from regard.web.engine import Engine
from regard.web.guard import Guard
from regard.web.prometheus import ServerMetrics
from regard.web.registry import ModelRegistry, ServedRun

TINY = {"width": 16, "depth": 1, "heads": 2}
TRAIN = {"steps": 6, "tokens_per_batch": 256, "save_every": 6, "precision": "float32", "compile": "off"}
TRANSLATION = {
    "task": "translation",
    "data": {"train": {"street": "train", "limit": 200}},
    "tokenizer": {"kind": "bpe", "size": 400},
    "model": {"kind": "encoder-decoder", **TINY},
    "search": {"kind": "beam", "size": 2, "max_length": 12},
    "train": TRAIN,
}
WORDS = [("good", "positive"), ("great", "positive"), ("bad", "negative"), ("dull", "negative")]


def language_model(folder: Path, kind: str = "char") -> dict[str, Any]:
    animals = ["dog", "cat", "cow", "hen", "fox"]
    text = "".join(f"the {one} sees the {other} and <script>alert('é')\n" for one in animals for other in animals)
    (folder / "text.txt").write_text(text * 4, encoding="utf-8")
    return {
        "task": "language_model",
        "data": {"train": {"file": str(folder / "text.txt")}, "batching": {"kind": "stream", "context": 32}},
        "tokenizer": {"kind": kind, **({"size": 300} if kind == "bpe" else {})},
        "model": {"kind": "decoder", **TINY},
        "train": {**TRAIN, "steps": 60, "schedule": {"kind": "constant", "lr": 1e-2}},
    }


def classification(folder: Path) -> dict[str, Any]:
    rows = [f"a {word} film number {number}\t{label}" for number in range(20) for word, label in WORDS]
    (folder / "reviews.tsv").write_text("\n".join(rows) + "\n")
    return {
        "task": "classification",
        "data": {"train": {"file": str(folder / "reviews.tsv"), "text": 0, "label": 1}},
        "tokenizer": "word",
        "model": {"kind": "encoder", **TINY},
        "train": TRAIN,
    }


def train_all(folder: Path) -> dict[str, Path]:
    """One run of each task, by the name it is served under."""
    recipes = {"street": TRANSLATION, "letters": language_model(folder), "films": classification(folder)}
    recipes["pieces"] = language_model(folder, "bpe")
    for name, tree in recipes.items():
        api.train(resolve_recipe(tree), out=folder / name, watcher=_Silent())
    return {name: folder / name for name in recipes}


class _Silent(api.Watcher):
    """Says nothing."""


@contextmanager
def serving(app: Guard, config: ServeConfig) -> Iterator[str]:
    """The address of a real server, which is stopped afterwards as SIGTERM would."""
    began, life = threading.Event(), {}

    async def run() -> None:
        life["told"], life["loop"] = asyncio.Event(), asyncio.get_running_loop()

        def ready(address: str) -> None:
            life["address"] = address
            began.set()

        await serve_until(life["told"], app, config, free_port(config.host, config.port), ready)

    thread = threading.Thread(target=lambda: asyncio.run(run()), daemon=True)
    thread.start()
    assert began.wait(20)
    try:
        yield life["address"]
    finally:
        life["loop"].call_soon_threadsafe(life["told"].set)
        thread.join(20)
        assert not thread.is_alive()


def guarded(folders: dict[str, Path], **settings: Any) -> tuple[Guard, ServeConfig]:
    config = ServeConfig(port=0, **settings)
    return make_app(folders, config, device="cpu"), config


def with_engine(name: str, folder: Path, engine: Engine, **settings: Any) -> tuple[Guard, ServeConfig]:
    """A server whose model is replaced by something a test controls."""
    config, metrics = ServeConfig(port=0, **settings), ServerMetrics()
    registry = ModelRegistry([ServedRun(name, api.load(folder, "cpu"), config, metrics, engine=engine)])
    return guard(registry, metrics, config), config
