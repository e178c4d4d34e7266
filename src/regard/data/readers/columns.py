"""Columns by name, index or dotted path, and their values as text or label."""

from collections.abc import Mapping, Sequence
from typing import Annotated

from pydantic import BeforeValidator

from regard.errors import counted, nearest

SHOWN = 40  # characters of a cell in a sentence


def _column(value: object) -> object:
    is_name = isinstance(value, str) and value != "" and "\0" not in value  # it may be the name of a file
    is_number = isinstance(value, int) and not isinstance(value, bool) and value >= 0
    if not (is_name or is_number):
        raise ValueError("a name, or a column's number from 0")
    return value


Column = Annotated[str | int, BeforeValidator(_column)]


class ColumnError(ValueError):
    """A row has no usable value in a column; the message is the sentence for people."""


def pick(record: object, column: str | int) -> object:
    """The value at a column: a key, a number into a list, or a path such as `translation.en` or `target.0`.

    `*` stands for all values of a list: `turns.*.text` is the list of the texts of all turns.
    """
    if isinstance(record, Mapping) and column in record:
        return record[column]
    values, many = [record], False
    for step in str(column).split("."):
        if step == "*" and all(isinstance(value, list) for value in values):
            values, many = [each for value in values for each in value], True  # type: ignore[union-attr]
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
        raise ColumnError(f"no column '{column}'; {_known(column, names) if names else 'the table has no header'}")
    if names.count(column) > 1:
        raise ColumnError(
            f"{names.count(column)} columns are called '{column}'; give the number of one, counted from 0"
        )
    return names.index(column)


def _known(column: str, names: Sequence[str]) -> str:
    """What a table has in place of a column."""
    shown = nearest(column, [name[:SHOWN] if name.isprintable() else repr(name[:SHOWN])[1:-1] for name in names])
    if column.isdecimal():
        return f"{shown}; for the number of a column leave the quotes out"
    first_row = "; if this first row is no header, give the numbers of columns, from 0"
    return shown if shown.startswith("did") else shown + first_row


def as_text(value: object, column: str | int) -> str:
    """A text as it is; a list of texts joined by spaces (one of them is `column.0`)."""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and value and all(isinstance(part, str) for part in value):
        return " ".join(value)
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


def _step(value: object, step: str, column: str | int) -> object:
    if isinstance(value, Mapping):
        if step in value:
            return value[step]
        known = nearest(step, map(str, value)) if value else "the row is empty"
        raise ColumnError(f"no column '{column}'; {known}")
    if isinstance(value, list) and step.isdecimal():
        if int(step) < len(value):
            return value[int(step)]
        raise ColumnError(f"no column '{column}': the list has {len(value)} values, counted from 0")
    raise ColumnError(f"no column '{column}': '{step}' cannot be looked up in {_described(value)}")


def _described(value: object) -> str:
    match value:
        case None:
            return "nothing (null)"
        case "":
            return "an empty text"
        case list():
            return "an empty list" if not value else "a list"
        case Mapping():
            return f"a table with {', '.join(map(str, list(value)[:5]))}"
        case str() | int() | float():
            return repr(value)[:60]
        case _:
            return f"a value of type {type(value).__name__}"
