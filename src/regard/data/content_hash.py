"""What stored results depend on, as SHA-256: the contents of files, the examples of a source, our own code.

A cache key is made from whole things (all settings of a source, all its contents, all code that reads it), never from
a list of what matters: nothing that is added later can be left out of it.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from hashlib import file_digest, sha256
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from regard import __version__
from regard.data.examples import Example, Picture, SourceLocation
from regard.data.lines import why_unreadable
from regard.data.source_reader import read_examples
from regard.data.sources import SourceConfig
from regard.errors import DataError

LIBRARIES = ("tokenizers", "pillow", "pyarrow", "numpy", "datasets")
"""Libraries that decode files or cut texts: another version may give other values."""


def file_sha256(file: Path) -> str:
    """SHA-256 of a file's contents: neither its time nor its size would show every change."""
    try:
        with file.open("rb") as stream:
            return file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise DataError(file, why_unreadable(file, error)) from None


def tree_sha256(tree: Mapping[str, Any]) -> str:
    """SHA-256 of plain values, in whatever order."""
    return sha256(json.dumps(tree, sort_keys=True).encode()).hexdigest()


def examples_sha256(examples: Iterable[Example]) -> str:
    """SHA-256 of all that examples hold, the contents of their images included; where they were read is left out."""
    digest = sha256()
    for example in examples:
        digest.update(json.dumps(_plain(example)).encode() + b"\n")
    return digest.hexdigest()


def source_sha256(source: SourceConfig, base: Path = Path()) -> str:
    """SHA-256 of all that a source reads. The embedded corpus is code, which `code_sha256` covers."""
    if source.origin == "street":
        return ""
    if source.origin == "hub" or source.content in ("images", "captions"):
        return examples_sha256(read_examples(source, base))
    return tree_sha256({"files": [file_sha256(file) for file in source.files(base)]})


@cache
def code_sha256(*packages: str | Path) -> str:
    """SHA-256 of the code of some of regard's packages, and of the libraries' versions."""
    root = Path(__file__).parents[1]
    digest = sha256(repr([__version__, *((name, _version(name)) for name in LIBRARIES)]).encode())
    for folder in (root / package for package in packages):
        for file in sorted(folder.rglob("*.py")):
            digest.update(f"{file.relative_to(folder)} {file_sha256(file)}\n".encode())
    return digest.hexdigest()


def _version(library: str) -> str | None:
    try:
        return version(library)
    except PackageNotFoundError:
        return None


def _plain(value: object) -> object:
    """Values for JSON: a dataclass as all its fields but its location, an image as the hash of its contents."""
    if isinstance(value, Picture):
        data = value.load()
        return sha256(data if isinstance(data, bytes) else repr(data.shape).encode() + data.tobytes()).hexdigest()
    if is_dataclass(value) and not isinstance(value, type):
        parts = {field.name: getattr(value, field.name) for field in fields(value)}
        return {name: _plain(part) for name, part in parts.items() if not isinstance(part, SourceLocation)}
    return value
