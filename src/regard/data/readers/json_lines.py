"""JSON Lines: a JSON value in each line."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from typing_extensions import override

from regard.data.columns import ColumnError, Record
from regard.data.examples import SourceLocation
from regard.data.findings import Findings
from regard.data.lines import lines
from regard.data.readers.registry import RecordFormat


class JsonLinesFormat(RecordFormat):
    name, suffixes = "jsonl", (".jsonl", ".ndjson")
    line_based = True

    @override
    def matches(self, lines: Sequence[str]) -> bool:
        try:
            return bool(lines) and all(isinstance(json.loads(text), dict) for text in lines)
        except (ValueError, RecursionError):
            return False

    @override
    def records(self, file: Path, columns: Sequence[str | int] | None, findings: Findings) -> Iterator[Record]:
        """The value in each line; empty lines are skipped and counted."""
        for number, text, _ in lines(file, findings):
            if not text.strip():
                findings.add_once("empty", file, number, "an empty line, passed over")
                continue
            try:
                value = json.loads(text, object_pairs_hook=_object)
            except ColumnError as problem:
                findings.add_once("json", file, number, str(problem))
                continue
            except (ValueError, RecursionError) as error:
                findings.add_once("json", file, number, f"not JSON: {error}; expected one whole value a line")
                continue
            yield value, SourceLocation(str(file), number)


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """An object; ColumnError for a duplicate key, of which all values but the last would be lost."""
    values = dict(pairs)
    if len(values) < len(pairs):
        keys = [key for key, _ in pairs]
        duplicate = next(key for key in keys if keys.count(key) > 1)
        raise ColumnError(f"the key '{duplicate}' stands twice in one object")
    return values
