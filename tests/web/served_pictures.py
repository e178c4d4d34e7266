"""Tiny runs that read images, trained in a second each: one names colours, one writes about them."""

import io
import shutil
from pathlib import Path

import numpy as np
from PIL import Image

from regard import api
from regard.run.recipe import resolve_recipe
from regard.train.monitor import Watcher

MODEL = {"image": 8, "patch": 4, "width": 16, "depth": 1, "heads": 2}
TRAIN = {"steps": 4, "save_every": 4, "tokens_per_batch": 256, "precision": "float32", "device": "cpu"}


def encoded(colour: str, size: tuple[int, int] = (8, 8)) -> bytes:
    """A PNG of one colour."""
    return _png(Image.new("RGB", size, colour))


def noise(seed: int) -> bytes:
    """A PNG in which no two pixels are alike, so that neither are its patches."""
    return _png(Image.fromarray(np.random.default_rng(seed).integers(0, 256, (8, 8, 3), np.uint8)))


def train_pictures(folder: Path) -> dict[str, Path]:
    """One run of each task that reads images, and one whose folder holds no image any more."""
    rows = ["image\tcaption"]
    for colour in ("red", "blue"):
        (folder / "train" / colour).mkdir(parents=True)
        for number in range(12):
            file = folder / "train" / colour / f"{number}.png"
            file.write_bytes(encoded(colour) if number else noise(number))
            rows.append(f"{file}\tsomething {colour}")
    (folder / "captions.tsv").write_text("\n".join(rows) + "\n")
    labelled = {"images": str(folder / "train")}
    captions = {"file": str(folder / "captions.tsv"), "image": "image", "target": "caption"}
    trees = {
        "colours": {"task": "image_classification", "data": {"train": labelled, "valid": labelled},
                    "model": {"kind": "vision", **MODEL}, "train": TRAIN},
        "words": {"task": "image_description", "data": {"train": captions, "valid": captions}, "tokenizer": "word",
                  "model": {"kind": "vision-encoder-decoder", **MODEL}, "train": TRAIN},
    }  # fmt: skip
    for name, tree in trees.items():
        api.train(resolve_recipe(tree), out=folder / name, watcher=_Silent())
    shutil.copytree(folder / "colours", folder / "bare", symlinks=True)
    shutil.rmtree(folder / "bare" / "cache")
    return {name: folder / name for name in (*trees, "bare")}


class _Silent(Watcher):
    """Says nothing."""


def _png(image: Image.Image) -> bytes:
    stream = io.BytesIO()
    image.save(stream, "PNG")
    return stream.getvalue()
