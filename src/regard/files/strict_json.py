"""JSON that any reader understands and that gives back exactly what was written, NaN and infinities included.

Standard JSON has no word for them, so they are written as the strings "NaN", "Infinity" and "-Infinity"; a true string
of that spelling gets a backslash in front. Tuples come back as lists; whatever else JSON cannot hold is refused.
"""

import json
from math import isfinite, isnan

from regard.config.values import Tree, is_list, is_table

WORDS = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}


def to_json(value: object, *, indent: int | None = None) -> str:
    """The text of a value; TypeError names the path of what JSON cannot hold."""
    return json.dumps(_plain(value, "value"), indent=indent, allow_nan=False)


def from_json(text: str | bytes) -> object:
    """The value of a text; ValueError where the text is not what `to_json` writes."""
    try:
        return _restored(json.loads(text, parse_constant=_refuse))
    except RecursionError:
        raise ValueError("nested too deeply") from None


def table_from_json(text: str | bytes) -> Tree:
    """The object of a text; ValueError where it is none."""
    value = from_json(text)
    if is_table(value):
        return value
    raise ValueError(f"expected an object, got a {type(value).__name__}")


def _plain(value: object, path: str) -> object:
    if is_table(value):
        return {_key(key, path): _plain(item, f"{path}.{key}") for key, item in value.items()}
    if is_list(value):
        return [_plain(item, f"{path}[{i}]") for i, item in enumerate(value)]
    if isinstance(value, float) and not isfinite(value):
        return "NaN" if isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, str):
        return f"\\{value}" if value.lstrip("\\") in WORDS else value
    if value is None or isinstance(value, bool | int | float):
        return value
    raise TypeError(f"{path}: {type(value).__name__} cannot be written as JSON")


def _key(key: object, path: str) -> str:
    if isinstance(key, str):
        return key
    raise TypeError(f"{path}: the key {key!r} is no string, and would come back as one")


def _restored(value: object) -> object:
    if is_table(value):
        return {key: _restored(item) for key, item in value.items()}
    if is_list(value):
        return [_restored(item) for item in value]
    if isinstance(value, str) and value.lstrip("\\") in WORDS:
        return value[1:] if value.startswith("\\") else WORDS[value]
    return value


def _refuse(word: str) -> None:
    raise ValueError(f"{word} is not JSON")
