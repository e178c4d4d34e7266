"""Files of Hugging Face folders that anyone may have written, read with care."""

import json
from pathlib import Path
from typing import Any

from regard.errors import DataError
from regard.text.tokenizer_file import LARGEST_FILE


def read_table(file: Path) -> dict[str, Any]:
    """The table in a JSON file that anyone may have written."""
    try:
        tree = json.loads(read_small(file))
    except (ValueError, RecursionError) as error:
        raise DataError(file, f"not JSON: {error}") from None
    if not isinstance(tree, dict):
        raise DataError(file, "expected a table")
    return tree


def read_small(file: Path) -> str:
    """The text of a file that is no larger than vocabularies are."""
    if file.stat().st_size > LARGEST_FILE:
        raise DataError(file, f"more than {LARGEST_FILE:,} bytes; is this the right file?")
    try:
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise DataError(file, f"byte {error.start} is not UTF-8") from None
