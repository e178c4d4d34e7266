"""Columns by name, index or dotted path; their values as text or label, and the examples that rows of them make."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BeforeValidator
from typing_extensions import TypeIs

from regard.data.examples import (
    DescribedPicture,
    Example,
    Labelled,
    LabelledPicture,
    MultiLabelled,
    Pair,
    Picture,
    SourceLocation,
    Text,
)
from regard.data.findings import Findings
from regard.data.images.files import read_image
from regard.errors import counted, nearest

Content = Literal["pairs", "labelled", "multi-labelled", "text", "images", "captions", "tagged"]
Record = tuple[object, SourceLocation]

SHOWN = 40  # characters of a cell in a sentence
MOST_LABELS = 10_000  # different values of a column; more are no labels but texts, and need not be remembered


def _column(value: object) -> object:
    is_name = isinstance(value, str) and value != "" and "\0" not in value  # it may be the name of a file
    is_number = isinstance(value, int) and not isinstance(value, bool) and value >= 0
    if not (is_name or is_number):
        raise ValueError("a name, or a column's number from 0")
    return value


Column = Annotated[str | int, BeforeValidator(_column)]


def is_record(value: object) -> TypeIs[Mapping[object, object]]:
    return isinstance(value, Mapping)


def is_list(value: object) -> TypeIs[list[object]]:
    return isinstance(value, list)


class ColumnError(ValueError):
    """A row has no usable value in a column; the message is the sentence for people."""


def pick(record: object, column: str | int) -> object:
    """The value at a column: a key, a number into a list, or a path such as `translation.en` or `target.0`.

    `*` stands for all values of a list: `turns.*.text` is the list of the texts of all turns.
    """
    if is_record(record) and column in record:
        return record[column]
    values, many = list[object]([record]), False
    for step in str(column).split("."):
        lists = [value for value in values if is_list(value)]
        if step == "*" and len(lists) == len(values):
            values, many = [item for items in lists for item in items], True
        else:
            values = [_step(value, step, column) for value in values]
    return values if many else values[0]


def column_index(column: str | int, names: Sequence[str] | None, width: int) -> int:
    """Where a table's column stands; `names` is None for a table without a header."""
    if isinstance(column, int):
        if column >= width:
            raise ColumnError(f"no column {column}: the table has {counted(width, 'column')}, counted from 0")
        return column
    if names is None or column not in names:
        raise ColumnError(f"no column '{column}'; {_suggestion(column, names) if names else 'the table has no header'}")
    if names.count(column) > 1:
        raise ColumnError(
            f"{names.count(column)} columns are called '{column}'; give the number of one, counted from 0"
        )
    return names.index(column)


def _suggestion(column: str, names: Sequence[str]) -> str:
    shown = nearest(column, [name[:SHOWN] if name.isprintable() else repr(name[:SHOWN])[1:-1] for name in names])
    if column.isdecimal():
        return f"{shown}; for the number of a column leave the quotes out"
    first_row = "; if this first row is no header, give the numbers of columns, from 0"
    return shown if shown.startswith("did") else shown + first_row


def as_text(value: object, column: str | int) -> str:
    """A text as it is; a list of texts joined by spaces (one of them is `column.0`)."""
    if isinstance(value, str):
        return value
    if is_list(value) and value:
        parts = [part for part in value if isinstance(part, str)]
        if len(parts) == len(value):
            return " ".join(parts)
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            raise ColumnError(f"column '{column}' is not UTF-8 text") from None
    raise ColumnError(f"column '{column}': expected text, got {_described(value)}")


def as_label(value: object, column: str | int) -> str:
    """A label as text: `1` for the numbers 1 and 1.0, `true` for true; white space around it is no part of it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, str | int) and str(value).strip():
        return str(value).strip()
    raise ColumnError(f"column '{column}': expected a label, got {_described(value)}")


def as_labels(value: object, column: str | int, separator: str = ",") -> tuple[str, ...]:
    """Several labels: a list of them, or a text with a sign between them; none where it is empty."""
    if value is None or value == "":
        return ()
    parts = value if is_list(value) else value.split(separator) if isinstance(value, str) else [value]
    labels = [as_label(part, column) for part in parts if not (isinstance(part, str) and not part.strip())]
    return tuple(dict.fromkeys(labels))


def _step(value: object, step: str, column: str | int) -> object:
    if is_record(value):
        if step in value:
            return value[step]
        hint = nearest(step, map(str, value)) if value else "the row is empty"
        raise ColumnError(f"no column '{column}'; {hint}")
    if is_list(value) and step.isdecimal():
        if int(step) < len(value):
            return value[int(step)]
        raise ColumnError(f"no column '{column}': the list has {len(value)} values, counted from 0")
    raise ColumnError(f"no column '{column}': '{step}' cannot be looked up in {_described(value)}")


def _described(value: object) -> str:
    if value is None:
        return "nothing (null)"
    if value == "":
        return "an empty text"
    if is_list(value):
        return "a list" if value else "an empty list"
    if is_record(value):
        return f"a table with {', '.join(map(str, list(value)[:5]))}"
    return repr(value)[:60] if isinstance(value, str | int | float) else f"a value of type {type(value).__name__}"


def pick_columns(
    records: Iterator[tuple[object, SourceLocation]], columns: list[str | int], findings: Findings
) -> Iterator[tuple[list[object], SourceLocation]]:
    """The values of some columns of each record; records without one of them are reported."""
    for record, location in records:
        try:
            values = [pick(record, column) for column in columns]
        except ColumnError as problem:
            findings.add_once("value", location.file, location.line, str(problem))
            continue
        yield values, location


def row_examples(
    rows: Iterator[tuple[list[str], SourceLocation]] | Iterator[tuple[list[object], SourceLocation]],
    content: Content,
    columns: list[str | int],
    findings: Findings,
    separator: str | None = None,
) -> Iterator[Example]:
    """The examples that rows of values make; rows without a usable value are reported."""
    for values, location in rows:
        try:
            example = _example(content, columns, values, location, separator or ",")
        except ColumnError as problem:
            findings.add_once("value", location.file, location.line, str(problem))
            continue
        yield example


def _example(
    content: Content, columns: list[str | int], values: Sequence[object], location: SourceLocation, separator: str
) -> Example:
    if content in ("images", "captions"):
        picture = _picture(values[0], columns[0], location)
        if content == "images":
            return LabelledPicture(picture, as_label(values[1], columns[1]), location)
        return DescribedPicture(picture, as_text(values[1], columns[1]), location)
    text = as_text(values[0], columns[0])
    match content:
        case "pairs":
            return Pair(text, as_text(values[1], columns[1]), location)
        case "labelled":
            return Labelled(text, as_label(values[1], columns[1]), location)
        case "multi-labelled":
            labels = as_labels(values[1], columns[1], separator)
            return MultiLabelled(text, ", ".join(labels), location, labels)
        case _:
            return Text(text, location)


def _picture(value: object, column: str | int, location: SourceLocation) -> Picture:
    """The image in a cell: its bytes, bytes in the `bytes` of a record as Hugging Face has them, or a file's name."""
    if is_record(value):
        value = value.get("bytes") or value.get("path")
    if isinstance(value, bytes):
        return Picture.held(Path(location.file), value, f"row {location.line:,}")
    if not isinstance(value, str) or not value:
        kind = "nothing" if value is None or value == "" else f"a value of type {type(value).__name__}"
        raise ColumnError(f"column '{column}': expected an image's bytes or its file's name, got {kind}")
    file = Path(location.file).parent / Path(value).expanduser()
    if not file.is_file():
        raise ColumnError(f"no such image: {file}; names start at the folder of the table")
    return Picture(file, partial(read_image, file))


def column_texts(record: object, path: str = "") -> Iterator[tuple[str, str]]:
    """The texts in a record, also nested ones, by their dotted paths; other values are left out."""
    try:
        if path:
            yield path, as_text(record, path)
            return
    except ColumnError:
        pass
    items = record.items() if is_record(record) else enumerate(record) if is_list(record) else ()
    for key, value in items:
        yield from column_texts(value, f"{path}.{key}" if path else str(key))
