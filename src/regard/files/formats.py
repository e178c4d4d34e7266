"""How a file is compressed, by its name."""

from pathlib import PurePath
from typing import Literal

Compression = Literal["gzip", "zstd"]

COMPRESSIONS: dict[str, Compression] = {".gz": "gzip", ".zst": "zstd"}


def compression_of(file: str | PurePath) -> Compression | None:
    """How a file is compressed, by the end of its name."""
    return COMPRESSIONS.get(PurePath(file).suffix.lower())


def uncompressed_name(file: str | PurePath) -> PurePath:
    """`train.en` for `train.en.gz`."""
    file = PurePath(file)
    return file.with_suffix("") if compression_of(file) else file
