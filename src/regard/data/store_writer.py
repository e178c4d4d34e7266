"""Writing a store: examples are encoded a few hundred or thousand at a time, so memory does not grow with the data.

A store is written into a folder aside and renamed when it is whole: what stands under its name is never half done.
"""

import errno
import json
import os
import shutil
from collections import Counter, deque
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from hashlib import sha256
from itertools import groupby
from json.encoder import encode_basestring_ascii
from pathlib import Path
from secrets import token_hex
from typing import Any

import numpy as np
from jaxtyping import Int64, Integer

from regard.data.collate import Ragged
from regard.data.fields import AnyField, TextField
from regard.errors import DataError, Failure
from regard.text.word_cache import WordCache

FORMAT = 2
DESCRIPTION = "store.json"
ROWS_AT_ONCE = 1024
CHUNKS_AHEAD = 2
"""Chunks that are read while one is encoded."""
CHARACTERS_AT_ONCE = 1_000_000
LARGER = 16
"""How many times as much is encoded at once where words are cached: then few of them are new."""
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
def written_aside(folder: Path) -> Generator[Path]:
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
    examples, digest, overlong = 0, sha256(), _Overlong(fields)
    for chunk, encoded in _encoded(rows, fields):
        digest.update(_json_lines(chunk))
        line_numbers = np.fromiter((row.get(LINE, 0) for row in chunk), np.int64, len(chunk))
        selected = overlong.count(encoded, line_numbers)
        for name, writer in writers.items():
            texts = [row[name] for row in chunk] if fields[name].sampler else []
            writer.write(texts, encoded[name], selected)
        for name, file in label_files.items():
            file.write(np.array([row[name] for row in chunk], np.int64)[selected])
        lines.write(line_numbers[selected])
        examples += len(selected)
    files = [lines, *label_files.values(), *(file for writer in writers.values() for file in writer.files)]
    counts = {
        "examples": examples, "skipped": overlong.skipped, "cut": overlong.cut, "first": overlong.first,
        "rows": digest.hexdigest(),
    }  # fmt: skip
    write_description(folder, key, counts, files)


def _encoded(rows: Iterable[Row], fields: Mapping[str, AnyField]) -> Iterator[tuple[list[Row], dict[str, Ragged]]]:
    """Chunks with their tokens; while one is encoded, on all cores, the next are read and the last is written."""
    tokenizers = {field.tokenizer for field in fields.values() if isinstance(field, TextField)}
    caches = {tokenizer: WordCache.of(tokenizer) for tokenizer in tokenizers}

    def encode(chunk: list[Row]) -> dict[str, Ragged]:
        encoded: dict[str, Ragged] = {}
        for name, field in fields.items():
            values = [row[name] for row in chunk]
            cache = caches[field.tokenizer] if isinstance(field, TextField) else None
            encoded[name] = field.encode_many(values, cache)
        return encoded

    waiting: deque[tuple[list[Row], Future[dict[str, Ragged]]]] = deque()
    with ThreadPoolExecutor(1) as pool:
        try:
            for chunk in chunks(rows, tuple(fields), LARGER if all(caches.values()) else 1):
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


def _json_lines(rows: Sequence[Row]) -> bytes:
    """What rows hold, wherever their examples stood, as `json.dumps` writes it, a line each."""
    lines: list[str] = []
    for names, same in groupby(rows, key=tuple):
        some = list(same)
        columns = [[f"{_json(name)}: {_json(row[name])}" for row in some] for name in names if name != LINE]
        lines += [f"{{{', '.join(values)}}}\n" for values in zip(*columns, strict=True)]
    return "".join(lines).encode()


def _json(value: object) -> str:
    return encode_basestring_ascii(value) if isinstance(value, str) else json.dumps(value, default=_plain)


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


def chunks(rows: Iterable[Row], texts: Sequence[str], larger: int = 1) -> Iterator[list[Row]]:
    """A few hundred rows at a time, fewer where their texts are long; or so many times as much."""
    chunk: list[Row] = []
    characters, most_rows, most_characters = 0, larger * ROWS_AT_ONCE, larger * CHARACTERS_AT_ONCE
    for row in rows:
        chunk.append(row)
        for name in texts:
            characters += len(row[name])
        if len(chunk) == most_rows or characters >= most_characters:
            yield chunk
            chunk, characters = [], 0
    if chunk:
        yield chunk


class _Overlong:
    """Examples with too many tokens: how many were left out or cut, by reason, and the first of each."""

    def __init__(self, fields: Mapping[str, AnyField]) -> None:
        self._limits = {name: field for name, field in fields.items() if field.max_length is not None}
        self.skipped, self.cut = Counter[str](), Counter[str]()
        self.first: dict[str, tuple[str, int]] = {}
        """The field and the line of the first row that each reason was met in."""

    def count(self, encoded: Mapping[str, Ragged], lines: Int64[np.ndarray, " rows"]) -> Int64[np.ndarray, " selected"]:
        """The rows to keep; one that is left out is counted under the first field that is too long."""
        selected = np.ones(len(lines), bool)
        overlong = {name: encoded[name].lengths > field.max_length for name, field in self._limits.items()}
        for row in np.flatnonzero(np.any(list(overlong.values()), axis=0)) if overlong else ():
            names = [name for name, is_overlong in overlong.items() if is_overlong[row]]
            to_skip = [name for name in names if self._limits[name].overlong == "skip"]
            for name in to_skip[:1] or names:
                self.first.setdefault(self._reason(name), (name, int(lines[row])))
            if to_skip:
                self.skipped[self._reason(to_skip[0])] += 1
                selected[row] = False
            else:
                self.cut.update(map(self._reason, names))
        return np.flatnonzero(selected)

    def _reason(self, name: str) -> str:
        return f"{name} longer than {self._limits[name].max_length} tokens"


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

    def write(self, texts: Sequence[str], encoded: Ragged, selected: Int64[np.ndarray, " selected"]) -> None:
        """Appends the selected ones of some rows; their texts are needed where these are stored."""
        rows = self._field.shorten_all(encoded if len(selected) == len(encoded) else encoded.select(selected))
        if self._tokens:
            self._append(self._tokens, rows)
        if self._text and self._max_lengths and isinstance(self._field, TextField):
            indices: list[int] = selected.tolist()
            chosen = [texts[index] for index in indices]
            max_lengths = [self._field.max_tokens(text, row) for text, row in zip(chosen, rows.rows(), strict=True)]
            self._max_lengths.write(np.array(max_lengths, np.int64))
            self._append(self._text, Ragged.of([text.encode() for text in chosen]))

    def _append(self, file: ArrayFile, items: Ragged) -> None:
        file.write(items.tokens)
        self._offsets.write(self._end + np.cumsum(items.lengths))
        self._end += int(items.lengths.sum())
