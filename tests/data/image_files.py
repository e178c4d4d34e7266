"""Small images of every kind of file, made for the tests."""

import gzip
import io
import struct
import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from PIL import Image


def png(pixels: np.ndarray, kind: str = "PNG") -> bytes:
    """An encoded image of pixels [height, width] or [height, width, channels]."""
    stream = io.BytesIO()
    Image.fromarray(pixels.astype(np.uint8)).save(stream, kind)
    return stream.getvalue()


def noise(number: int, size: int = 6, channels: int = 3) -> np.ndarray:
    """Pixels that differ from number to number."""
    shape = (size, size, channels) if channels > 1 else (size, size)
    return np.random.default_rng(number).integers(0, 256, shape, np.uint8)


def write_folders(folder: Path, counts: Mapping[str, int], size: int = 6) -> Path:
    """A folder for each class with that many images."""
    number = 0
    for name, count in counts.items():
        for own in range(count):
            file = folder / name / f"{own:03}.png"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(png(noise(number, size)))
            number += 1
    return folder


def write_zip(file: Path, members: Mapping[str, bytes]) -> Path:
    with zipfile.ZipFile(file, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return file


def write_idx(file: Path, numbers: np.ndarray, magic: int | None = None, count: int | None = None) -> Path:
    """An IDX file of images [count, height, width] or labels [count]; .gz by its name."""
    first = {3: 0x803, 1: 0x801}[numbers.ndim] if magic is None else magic
    sizes = (len(numbers) if count is None else count, *numbers.shape[1:])
    data = struct.pack(f">{1 + len(sizes)}I", first, *sizes) + numbers.astype(np.uint8).tobytes()
    file.write_bytes(gzip.compress(data) if file.suffix == ".gz" else data)
    return file
