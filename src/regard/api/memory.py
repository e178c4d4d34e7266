"""Data from memory: rows of any usual kind, written as a file so that training, resuming and tests read one format.

Nothing here is imported for its type: tables are told by what they offer (the Arrow C stream, `to_dict`,
`column_names`), so that pandas, polars and Hugging Face datasets work and none of them is needed.
"""

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from regard.data.columns import Content
from regard.errors import ConfigError
from regard.files.atomic import atomic_writer

Row = Mapping[str, object]
SPLIT_NAMES = {
    "train": "train",
    "valid": "valid",
    "validation": "valid",
    "dev": "valid",
    "val": "valid",
    "test": "test",
}
COLUMNS: dict[Content, tuple[str, ...]] = {"pairs": ("source", "target"), "labelled": ("text", "label")}
LONGEST_NAME = 500
UNNAMED = ("first", "second")
"""Columns of rows of two values where the task does not say what they are."""
EXPECTED = (
    "expected a list of (source, target), of (text, label) or of texts, a dict of columns, a table of Arrow or "
    "pandas, a Hugging Face dataset, the names of files, or a recipe"
)


def as_splits(data: object) -> dict[str, object]:
    """Data by split: a mapping of train, valid and test as it is, anything else is the training data."""
    if isinstance(data, Mapping) and data and {str(name) for name in data} <= SPLIT_NAMES.keys():
        return {SPLIT_NAMES[str(name)]: part for name, part in data.items()}
    return {"train": data}


def write_rows(data: object, file: Path, content: Content | None, name: str = "data") -> list[str]:
    """Writes rows as JSON Lines and returns the columns of the first.

    `content` tells what rows of two values are, `name` is what messages call the data.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    count, columns = 0, list[str]()
    with atomic_writer(file) as stream:
        for row in rows_of(data, content, name):
            count, columns = count + 1, columns or [*row]
            try:
                line = json.dumps({key: _plain(value) for key, value in row.items()}, ensure_ascii=False)
                stream.write(f"{line}\n".encode())
            except (TypeError, ValueError) as problem:
                raise ConfigError(name, f"row {count:,}: {_why(problem)}") from None
        if not count:
            raise ConfigError(name, "no rows")
    return columns


def roles_of(columns: Sequence[str], content: Content | None) -> dict[str, str]:
    """The columns by role, where they are called by their roles; none where they must be guessed."""
    roles = COLUMNS.get(content, ("text",)) if content else ("text",) if [*columns] == ["text"] else ()
    return {role: role for role in roles} if {*roles} <= {*columns} else {}


def rows_of(data: object, content: Content | None, name: str = "data") -> Iterator[Row]:
    """The rows of a table or of a list; ConfigError for what is neither."""
    if hasattr(data, "__arrow_c_stream__"):
        return _arrow_rows(data)
    if hasattr(data, "column_names") and isinstance(data, Iterable):
        return _dataset_rows(data)
    if hasattr(data, "columns") and callable(to_dict := getattr(data, "to_dict", None)):
        return iter(cast(Iterable[Row], to_dict("records")))
    if isinstance(data, Mapping):
        return _column_rows(cast(Mapping[object, object], data), name)
    if isinstance(data, str | bytes) or not isinstance(data, Iterable):
        raise ConfigError(name, f"{EXPECTED}; got a value of type {type(data).__name__}")
    return _listed_rows(cast(Iterable[object], data), COLUMNS.get(content, UNNAMED) if content else UNNAMED, name)


def _arrow_rows(table: Any) -> Iterator[Row]:  # noqa: ANN401
    import pyarrow as pa  # here, as it is slow to load and few programs need it

    for batch in pa.RecordBatchReader.from_stream(table):
        for row in cast(list[dict[str, object]], batch.to_pylist()):
            yield {key: value for key, value in row.items() if not key.startswith("__index_level_")}


def _dataset_rows(rows: Iterable[Any]) -> Iterator[Row]:
    """Rows of a Hugging Face dataset; classes stored as numbers come as their names."""
    features = getattr(rows, "features", None) or {}
    classes = {key: feature.names for key, feature in features.items() if getattr(feature, "names", None)}
    for row in rows:
        yield {
            key: classes[key][value] if key in classes and isinstance(value, int) and value >= 0 else value
            for key, value in row.items()
        }


def _column_rows(columns: Mapping[object, object], name: str) -> Iterator[Row]:
    lists: dict[str, list[object]] = {}
    for key, column in columns.items():
        if isinstance(column, str | bytes | Mapping) or not isinstance(column, Iterable):
            raise ConfigError(name, f"column {key!r}: expected a list, got a value of type {type(column).__name__}")
        lists[str(key)] = list(cast(Iterable[object], column))
    lengths = {key: len(column) for key, column in lists.items()}
    if len(set(lengths.values())) > 1:
        shown = ", ".join(f"{key}: {length:,}" for key, length in lengths.items())
        raise ConfigError(name, f"the columns have different lengths ({shown})")
    for values in zip(*lists.values(), strict=True):
        yield dict(zip(lists, values, strict=True))


def _listed_rows(rows: Iterable[object], columns: Sequence[str], name: str) -> Iterator[Row]:
    """Texts, pairs of values, or mappings; all of one kind."""
    first: str | None = None
    for number, row in enumerate(rows, start=1):
        kind, values = _listed_row(row, columns)
        first = first or kind
        if kind != first or values is None:
            got = kind if values is not None else f"{kind}; {EXPECTED}"
            raise ConfigError(name, f"row {number:,}: expected {first} as in row 1, got {got}" if number > 1 else
                              f"row {number:,}: cannot be read, got {got}")  # fmt: skip
        yield values


def _listed_row(row: object, columns: Sequence[str]) -> tuple[str, Row | None]:
    if isinstance(row, str):
        return "a text", {"text": row}
    if isinstance(row, Mapping):
        return "a row with names", {str(key): value for key, value in cast(Mapping[object, object], row).items()}
    if isinstance(row, tuple | list):
        values = cast(Sequence[object], row)
        return f"{len(values)} values", dict(zip(columns, values, strict=True)) if len(values) == 2 else None
    return f"a value of type {type(row).__name__}", None


def _plain(value: object) -> object:
    """A value as JSON has it: numbers of numpy as Python's, missing ones as null."""
    if hasattr(value, "tolist") and not isinstance(value, str):
        value = cast(Any, value).tolist()
    if isinstance(value, float) and math.isnan(value):
        return None
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in cast(Mapping[object, object], value).items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in cast(Sequence[object], value)]
    if value is None or isinstance(value, str | int | float):
        return value
    raise TypeError(f"expected text, a number or a label, got a value of type {type(value).__name__}")


def _why(problem: Exception) -> str:
    return "holds half a surrogate pair, which is no text" if isinstance(problem, UnicodeError) else str(problem)


def file_names(data: object) -> list[Path] | None:
    """The files that data names: one, two as `a.en,a.de`, or a list of them; None where it is something else.

    A list of texts is taken for names of files only where it looks like nothing else.
    """
    if isinstance(data, Path):
        return [data]
    if isinstance(data, str):
        if len(data) > LONGEST_NAME or "\n" in data:
            raise ConfigError("data", "expected rows, files or a recipe, got one long text; give texts as a list")
        first, comma, second = data.partition(",")
        return [Path(first), Path(second)] if comma and not Path(data).exists() else [Path(data)]
    if not isinstance(data, list | tuple) or not data:
        return None
    items = cast(Sequence[object], data)
    if all(isinstance(item, Path) for item in items):
        return [Path(str(item)) for item in items]
    names = [item for item in items if isinstance(item, str) and not any(sign.isspace() for sign in item)]
    if len(names) < len(items) or len(names) > 16 or not all(Path(item).suffix for item in names):
        return None
    return [Path(item) for item in names]


def write_again(data: object, file: Path, content: Content | None, name: str = "data") -> list[str]:
    """Checks that rows are those in a file, with which a run was begun, and returns the columns of the first."""
    again = file.with_name(f"again-{file.name}")
    try:
        columns = write_rows(data, again, content, name)
        if again.read_bytes() != file.read_bytes():
            raise ConfigError(name, f"other rows than those in {file}; choose another out=…, or data_changed=True")
        return columns
    finally:
        again.unlink(missing_ok=True)
