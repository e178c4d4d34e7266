"""Writing a store: examples are encoded a few hundred at a time, so memory does not grow with the data.

A store is written into a folder aside and renamed when it is whole: what stands under its name is never half done.
"""

import errno
import json
import os
import shutil
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from secrets import token_hex
from typing import Any

import numpy as np
from jaxtyping import Integer

from regard.data.collate import Ragged
from regard.data.fields import AnyField, TextField
from regard.errors import DataError, Failure

FORMAT = 2
DESCRIPTION = "store.json"
ROWS_AT_ONCE = 1024
CHUNKS_AHEAD = 2
"""Chunks that are read while one is encoded."""
CHARACTERS_AT_ONCE = 1_000_000
LINE = "line"
"""The key of a row under which it may have the line that its example stood in, from one."""
LINES = "examples.lines"

Row = Mapping[str, Any]
"""An example by the names of its fields: texts, lists of numbers, and labels, each one number."""


def write_store(
    folder: Path, rows: Iterable[Row], fields: Mapping[str, AnyField], labels: Sequence[str], key: str
) -> None:
    """Encodes all rows into a new folder; one that another process wrote meanwhile is left as it is."""
    with written_aside(folder) as aside:
        _write_files(aside, rows, fields, labels, key)


@contextmanager
def written_aside(folder: Path) -> Iterator[Path]:
    """A folder to write into that gets its name when all is written; one that stands there already stays."""
    aside = folder.with_name(f".{folder.name}.{token_hex(4)}")
    try:
        _make(aside)
        yield aside
        _put_in_place(aside, folder)
    except OSError as error:
        raise Failure(_refusal(error, aside)) from None
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _refusal(error: OSError, aside: Path) -> str:
    """What a disk that refuses to be written to leaves to be said."""
    why = "the disk is full" if error.errno in (errno.ENOSPC, errno.EDQUOT) else error.strerror or str(error)
    written = sum(file.stat().st_size for file in aside.glob("*"))
    return (
        f"{aside.parent}: {why}; the store of encoded examples needs more than the {written:,} bytes that were "
        f"written, and {shutil.disk_usage(aside.parent).free:,} are free"
    )


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True)
    except (PermissionError, NotADirectoryError, FileExistsError) as error:
        raise DataError(folder.parent, f"no folder can be made here ({error.strerror})") from None


def _put_in_place(aside: Path, folder: Path) -> None:
    try:
        aside.rename(folder)
    except OSError:
        if not (folder / DESCRIPTION).exists():
            raise


def _write_files(
    folder: Path, rows: Iterable[Row], fields: Mapping[str, AnyField], labels: Sequence[str], key: str
) -> None:
    writers = {name: _FieldWriter(folder, name, field) for name, field in fields.items()}
    label_files = {name: ArrayFile(folder / f"{name}.labels", np.int64) for name in labels}
    lines = ArrayFile(folder / LINES, np.int64)
    examples, skipped, cut, digest = 0, Counter[str](), Counter[str](), sha256()
    first: dict[str, tuple[str, int]] = {}
    for chunk, encoded in _encoded(chunks(rows, tuple(fields)), fields):
        digest.update("".join(f"{json.dumps(_content(row), default=_plain)}\n" for row in chunk).encode())
        selected = _count_overlong(chunk, encoded, fields, skipped, cut, first)
        for name, writer in writers.items():
            writer.write([chunk[i][name] for i in selected], [encoded[name][i] for i in selected])
        for name, file in label_files.items():
            file.write(np.array([chunk[i][name] for i in selected], np.int64))
        lines.write(np.array([chunk[i].get(LINE, 0) for i in selected], np.int64))
        examples += len(selected)
    files = [lines, *label_files.values(), *(file for writer in writers.values() for file in writer.files)]
    counts = {"examples": examples, "skipped": skipped, "cut": cut, "first": first, "rows": digest.hexdigest()}
    write_description(folder, key, counts, files)


def _encoded(
    chunks: Iterator[list[Row]], fields: Mapping[str, AnyField]
) -> Iterator[tuple[list[Row], dict[str, list[list[int]]]]]:
    """Chunks with their tokens; while one is encoded, on all cores, the next are read and the last is written."""

    def encode(chunk: list[Row]) -> dict[str, list[list[int]]]:
        return {name: field.encode([row[name] for row in chunk]) for name, field in fields.items()}

    waiting: deque[tuple[list[Row], Future[dict[str, list[list[int]]]]]] = deque()
    with ThreadPoolExecutor(1) as pool:
        try:
            for chunk in chunks:
                waiting.append((chunk, pool.submit(encode, chunk)))
                if len(waiting) > CHUNKS_AHEAD:
                    first, tokens = waiting.popleft()
                    yield first, tokens.result()
        except Exception:
            for _, tokens in waiting:
                tokens.result()  # what is wrong with earlier rows is said first
            raise
        for chunk, tokens in waiting:
            yield chunk, tokens.result()


def _content(row: Row) -> dict[str, Any]:
    """What a row holds, wherever its example stood."""
    return {name: value for name, value in row.items() if name != LINE}


def _plain(numbers: Any) -> Any:  # noqa: ANN401
    """Numbers of numpy as JSON has them."""
    return numbers.tolist()


def write_description(folder: Path, key: str, counts: Mapping[str, Any], files: Sequence["ArrayFile"]) -> None:
    """Ends a store: says what its files hold, and signs that."""
    described = {file.path.name: file.finish() for file in files}
    description = {"format": FORMAT, "key": key, **counts, "files": described}
    signed = {**description, "sha256": description_sha256(description)}
    (folder / DESCRIPTION).write_text(json.dumps(signed, indent=1), encoding="utf-8")
    _flush_to_disk(folder / DESCRIPTION)


def description_sha256(description: Mapping[str, Any]) -> str:
    """SHA-256 over what a store says about itself."""
    return sha256(json.dumps(description, sort_keys=True).encode()).hexdigest()


def chunks(rows: Iterable[Row], texts: Sequence[str]) -> Iterator[list[Row]]:
    """A few hundred rows at a time, fewer where their texts are long."""
    chunk: list[Row] = []
    characters = 0
    for row in rows:
        chunk.append(row)
        characters += sum(len(row[name]) for name in texts)
        if len(chunk) == ROWS_AT_ONCE or characters >= CHARACTERS_AT_ONCE:
            yield chunk
            chunk, characters = [], 0
    if chunk:
        yield chunk


def _count_overlong(
    rows: Sequence[Row],
    encoded: Mapping[str, list[list[int]]],
    fields: Mapping[str, AnyField],
    skipped: Counter[str],
    cut: Counter[str],
    first: dict[str, tuple[str, int]],
) -> list[int]:
    """The rows to keep; one that is left out is counted under the first field that is too long.

    `first` gets the field and the line of the first row that each reason was met in.
    """
    selected: list[int] = []
    for i, row in enumerate(rows):
        overlong = [name for name, tokens in encoded.items() if fields[name].is_overlong(tokens[i])]
        to_skip = [name for name in overlong if fields[name].overlong == "skip"]
        for name in to_skip[:1] or overlong:
            first.setdefault(_reason(name, fields), (name, int(row.get(LINE, 0))))
        if to_skip:
            skipped[_reason(to_skip[0], fields)] += 1
        else:
            cut.update(_reason(name, fields) for name in overlong)
            selected.append(i)
    return selected


def _reason(name: str, fields: Mapping[str, AnyField]) -> str:
    return f"{name} longer than {fields[name].max_length} tokens"


class ArrayFile:
    """A raw file of numbers that grows, with its checksum."""

    def __init__(self, path: Path, dtype: type[np.integer]) -> None:
        self.path = path
        self._dtype = np.dtype(dtype).newbyteorder("<")
        self._hash = sha256()
        self._count = 0
        path.touch()

    def write(self, numbers: Integer[np.ndarray, " numbers"]) -> None:
        data = numbers.astype(self._dtype).tobytes()
        with self.path.open("ab") as stream:
            stream.write(data)
        self._hash.update(data)
        self._count += len(numbers)

    def finish(self) -> dict[str, Any]:
        """Makes sure that the file is on the disk; says what it holds."""
        _flush_to_disk(self.path)
        return {"dtype": self._dtype.name, "count": self._count, "sha256": self._hash.hexdigest()}


def _flush_to_disk(file: Path) -> None:
    with file.open("rb+") as stream:
        os.fsync(stream.fileno())


class _FieldWriter:
    """The files of one field: where each example begins, and its tokens, or its text and the room to plan for it."""

    def __init__(self, folder: Path, name: str, field: AnyField) -> None:
        self._field = field
        self._end = 0
        self._offsets = ArrayFile(folder / f"{name}.offsets", np.int64)
        self._offsets.write(np.zeros(1, np.int64))
        token_type = np.uint16 if field.different <= 2**16 else np.uint32
        self._tokens = None if field.sampler else ArrayFile(folder / f"{name}.tokens", token_type)
        self._text = ArrayFile(folder / f"{name}.text", np.uint8) if field.sampler else None
        self._max_lengths = ArrayFile(folder / f"{name}.rooms", np.int64) if field.sampler else None
        self.files = [file for file in (self._offsets, self._tokens, self._text, self._max_lengths) if file]

    def write(self, texts: Sequence[Any], encoded: Sequence[list[int]]) -> None:
        shortened = [self._field.shorten(tokens) for tokens in encoded]
        if self._tokens:
            self._append(self._tokens, Ragged.of(shortened))
        if self._text and self._max_lengths and isinstance(self._field, TextField):
            max_lengths = [self._field.max_tokens(text, tokens) for text, tokens in zip(texts, shortened, strict=True)]
            self._max_lengths.write(np.array(max_lengths, np.int64))
            self._append(self._text, Ragged.of([text.encode() for text in texts]))

    def _append(self, file: ArrayFile, items: Ragged) -> None:
        file.write(items.tokens)
        self._offsets.write(self._end + np.cumsum(items.lengths))
        self._end += int(items.lengths.sum())
