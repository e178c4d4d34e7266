"""Examples encoded once, kept in files that are mapped into memory, and found again by what they were made from.

    fields = {"source": TextField(tokenizer), "target": TextField(tokenizer, max_length=256)}
    store = open_store(rows, fields, cache=Path("cache"), files=[Path("train.en"), Path("train.de")])
    store.gather("source", np.array([3, 1, 2]))     # the tokens of three examples

The folder of a store is named by a SHA-256 over the contents of the files, the tokenizers, all settings and the code
that encodes; as long as these are the same, the store is used again. It holds raw arrays and one JSON file with their
sizes and checksums:

    store.json      source.offsets  source.tokens      label.labels      examples.lines
    or, where text is cut differently in each epoch:   source.offsets  source.text  source.rooms
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int, Int64, Integer, UInt8

from regard.data.collate import Ragged, take
from regard.data.content_hash import code_sha256, file_sha256, tree_sha256
from regard.data.fields import AnyField, TextField
from regard.data.store_writer import DESCRIPTION, FORMAT, LINES, Row, description_sha256, write_store
from regard.errors import ConfigError, DataError, nearest


def open_store(
    rows: Callable[[], Iterable[Row]],
    fields: Mapping[str, AnyField],
    labels: Sequence[str] = (),
    *,
    cache: Path,
    files: Sequence[Path] = (),
    settings: Mapping[str, Any] | None = None,
) -> "Store":
    """The store of the rows: the one in the cache if it was made from the same, otherwise a new one.

    `files` are what `rows` reads, and `settings` (plain values) how it reads them: together they are all that the rows
    depend on. What a length limit left out or cut is in `skipped` and `cut` of the store, for the caller to say.
    """
    key = content_key(fields, labels, files, settings or {})
    folder = cache / key
    if not (folder / DESCRIPTION).exists():
        write_store(folder, rows(), fields, labels, key)
    return Store(folder, fields, key)


def content_key(
    fields: Mapping[str, AnyField], labels: Sequence[str], files: Sequence[Path], settings: Mapping[str, Any]
) -> str:
    """SHA-256 of everything that decides what a store holds."""
    parts = {
        "format": FORMAT,
        "code": code_sha256("data", "text", "files"),
        "fields": {name: field.settings() for name, field in fields.items()},
        "labels": list(labels),
        "files": [file_sha256(file) for file in files],
        "settings": settings,
    }
    return tree_sha256(parts)


class Store:
    """Encoded examples: `lengths` to plan batches with, `gather` for their tokens, `labels`, and what was left out."""

    def __init__(self, folder: Path, fields: Mapping[str, AnyField], key: str) -> None:
        self.folder = folder
        self.file = ""
        """What messages call the file of the examples; empty where nobody has said it."""
        self.fields = dict(fields)
        description = _read_description(folder, key)
        self._files: dict[str, dict[str, Any]] = description["files"]
        self._count: int = description["examples"]
        self.skipped: dict[str, int] = description["skipped"]
        """How many examples were left out, by reason."""
        self.cut: dict[str, int] = description["cut"]
        """How many texts were cut at the end, by reason."""
        self.first: dict[str, tuple[str, int]] = description.get("first", {})
        """The field and the line of the first example that was left out or cut, by reason."""
        self._rows: str = description["rows"]
        self._arrays = {name: self._map(name) for name in self._files}

    def __len__(self) -> int:
        return self._count

    @property
    def fingerprint(self) -> dict[str, Any]:
        """Number and SHA-256 of the examples as they were read, wherever they lie."""
        return {"examples": len(self), "sha256": self._rows}

    @cached_property
    def lengths(self) -> dict[str, Int64[np.ndarray, " examples"]]:
        """Tokens of each example by field; where text is cut at random, the most tokens it can have."""
        return {name: self._lengths(name) for name in self.fields}

    @cached_property
    def labels(self) -> dict[str, Int64[np.ndarray, " examples"]]:
        """The labels of each example by field."""
        return {name.removesuffix(".labels"): array for name, array in self._arrays.items() if name.endswith(".labels")}

    @cached_property
    def lines(self) -> Int64[np.ndarray, " examples"]:
        """The line of its file in which each example stood; 0 where that is not known."""
        return np.asarray(self._arrays[LINES])

    def gather(self, field: str, examples: Int[np.ndarray, " examples"], *, seed: int = 0, epoch: int = 0) -> Ragged:
        """The tokens of some examples; seed and epoch matter only where text is cut at random."""
        offsets = self._arrays[f"{field}.offsets"]
        starts, lengths = offsets[examples], offsets[examples + 1] - offsets[examples]
        if self.fields[field].sampler is None:
            return take(self._arrays[f"{field}.tokens"], starts, lengths)
        data = take(self._arrays[f"{field}.text"], starts, lengths)
        return self._draw(field, examples, data, f"{seed} {epoch} {field}")

    def images(
        self, examples: Int[np.ndarray, " examples"], *, seed: int = 0, epoch: int = 0
    ) -> dict[str, UInt8[np.ndarray, "examples height width channels"]]:
        """The pixels of some examples by field: none here; `regard.data.images` has a store with images."""
        return {}

    def stream(self, field: str) -> Integer[np.ndarray, " tokens"]:
        """All tokens of a field, example after example."""
        if field not in self.fields:
            raise ConfigError(
                "data.batching.field", f"the examples have no field '{field}'; {nearest(field, self.fields)}"
            )
        if self.fields[field].sampler is not None:
            raise ConfigError(
                "tokenizer", "text that is cut at random in each epoch cannot be read as one fixed stream"
            )
        return self._arrays[f"{field}.tokens"]

    def _draw(self, field: str, examples: Int[np.ndarray, " examples"], data: Ragged, key: str) -> Ragged:
        ends = np.cumsum(data.lengths).tolist()
        text = data.tokens.tobytes()
        max_lengths = self._arrays[f"{field}.rooms"][examples].tolist()
        spans = zip(examples.tolist(), [0, *ends[:-1]], ends, max_lengths, strict=True) if ends else ()
        drawn = self.fields[field]
        assert isinstance(drawn, TextField)
        return Ragged.of(
            [drawn.draw(text[start:end].decode(), f"{key} {i}", max_length) for i, start, end, max_length in spans]
        )

    def _lengths(self, field: str) -> Int64[np.ndarray, " examples"]:
        max_lengths = self._arrays.get(f"{field}.rooms")
        return np.diff(self._arrays[f"{field}.offsets"]) if max_lengths is None else np.asarray(max_lengths)

    def _map(self, name: str) -> np.ndarray:
        """A file as an array; DataError where it is not the file that was written."""
        file, described = self.folder / name, self._files[name]
        dtype = np.dtype(described["dtype"]).newbyteorder("<")
        if not file.is_file() or file.stat().st_size != described["count"] * dtype.itemsize:
            raise _damaged(self.folder, f"{name} is missing or has the wrong size")
        if file_sha256(file) != described["sha256"]:
            raise _damaged(self.folder, f"the checksum of {name} is wrong")
        return np.memmap(file, dtype, mode="r") if described["count"] else np.zeros(0, dtype)


def _read_description(folder: Path, key: str) -> dict[str, Any]:
    try:
        description = json.loads((folder / DESCRIPTION).read_text(encoding="utf-8"))
        signed = description.pop("sha256")
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise _damaged(folder, f"{DESCRIPTION} cannot be read") from None
    if signed != description_sha256(description) or (description.get("format"), description.get("key")) != (
        FORMAT,
        key,
    ):
        raise _damaged(folder, f"the checksum of {DESCRIPTION} is wrong")
    return description


def _damaged(folder: Path, problem: str) -> DataError:
    return DataError(folder, f"this store of encoded examples is damaged ({problem}); delete the folder and run again")
