"""TOML in and out."""

import tomllib
from pathlib import Path
from typing import Any

import tomli_w

from regard.errors import DataError

LARGEST_RECIPE = 1_000_000  # bytes; a recipe is read by people
LONGEST_LINE = 10_000  # bytes; the library's time grows with the square of a key's length


def read_toml(file: Path) -> dict[str, Any]:
    try:
        with file.open("rb") as stream:
            text = stream.read(LARGEST_RECIPE + 1)
        _refuse_large(file, text)
        return tomllib.loads(text.decode())
    except FileNotFoundError:
        raise DataError(file, "no such file") from None
    except IsADirectoryError:
        raise DataError(file, "expected a TOML file, got a folder") from None
    except PermissionError:
        raise DataError(file, "may not be read (permission denied)") from None
    except OSError as error:
        raise DataError(file, f"cannot be read ({error.strerror})") from None
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


def dump_toml(tree: dict[str, Any]) -> str:
    return tomli_w.dumps(tree)
