"""Trees of plain values, as TOML and JSON hold them: what a parser returns is unknown until it is asked.

tree = read_toml(file)
task = tree.get("task")
kind = task.get("kind") if is_table(task) else task
"""

import tomllib
from collections.abc import Mapping
from pathlib import Path

import tomli_w
from typing_extensions import TypeIs

from regard.errors import DataError, readable

LARGEST_RECIPE = 1_000_000  # bytes; a recipe is read by people
LONGEST_LINE = 10_000  # bytes; the library's time grows with the square of a key's length

TASK = "translation"
"""The task of a recipe that names none."""
Tree = dict[str, object]
"""A table of TOML or an object of JSON."""


def is_table(value: object) -> TypeIs[Tree]:
    """Whether a parsed value is a table, whose keys are texts."""
    return isinstance(value, dict)


def is_list(value: object) -> TypeIs[list[object] | tuple[object, ...]]:
    """Whether a value is a list, or a tuple, which is written as one."""
    return isinstance(value, list | tuple)


def table_of(tree: object, key: str) -> Tree:
    """The table under a key; an empty one where there is none."""
    value = tree.get(key) if is_table(tree) else None
    return value if is_table(value) else {}


def task_of(recipe: Tree) -> str:
    """The kind of a recipe's task, of which a recipe may give the name alone."""
    task = recipe.get("task", TASK)
    return str(task.get("kind", TASK) if is_table(task) else task)


def read_toml(file: Path) -> Tree:
    with readable(file, "a TOML file"), file.open("rb") as stream:
        text = stream.read(LARGEST_RECIPE + 1)
    _refuse_large(file, text)
    try:
        return tomllib.loads(text.decode())
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise DataError(file, "not UTF-8 text", line) from None
    except ValueError as error:  # also a number of thousands of digits, which is no TOMLDecodeError
        raise DataError(file, f"not valid TOML: {error}") from None
    except RecursionError:
        raise DataError(file, "nested too deeply to be a recipe") from None


def _refuse_large(file: Path, text: bytes) -> None:
    if len(text) > LARGEST_RECIPE:
        raise DataError(file, f"a recipe of more than {LARGEST_RECIPE:,} bytes; is this the right file?")
    for number, line in enumerate(text.split(b"\n"), 1):
        if len(line) > LONGEST_LINE:
            raise DataError(file, f"a line of more than {LONGEST_LINE:,} bytes; is this the right file?", number)


def dump_toml(tree: Mapping[str, object]) -> str:
    return tomli_w.dumps(tree)
