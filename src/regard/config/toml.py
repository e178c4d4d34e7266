"""TOML in and out."""

import tomllib
from pathlib import Path
from typing import Any

import tomli_w

from regard.errors import DataError

LARGEST_RECIPE = 1_000_000  # bytes; a recipe is read by people


def read_toml(file: Path) -> dict[str, Any]:
    """The tree in a TOML file."""
    try:
        with file.open("rb") as stream:
            text = stream.read(LARGEST_RECIPE + 1)
        if len(text) > LARGEST_RECIPE:
            raise DataError(file, f"a recipe of more than {LARGEST_RECIPE:,} bytes; is this the right file?")
        return tomllib.loads(text.decode())
    except FileNotFoundError:
        raise DataError(file, "no such file") from None
    except IsADirectoryError:
        raise DataError(file, "expected a TOML file, got a folder") from None
    except PermissionError:
        raise DataError(file, "may not be read (permission denied)") from None
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise DataError(file, "not UTF-8 text", line) from None
    except tomllib.TOMLDecodeError as error:
        raise DataError(file, f"not valid TOML: {error}") from None
    except RecursionError:
        raise DataError(file, "nested too deeply to be a recipe") from None


def dump_toml(tree: dict[str, Any]) -> str:
    """The tree as TOML text."""
    return tomli_w.dumps(tree)
