"""Tables of text: tab-separated without quotes, and comma-separated with them."""

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path

from regard.data.columns import ColumnError, column_index
from regard.data.examples import Place
from regard.data.findings import Findings
from regard.data.text import LONGEST_LINE, lines


def table_rows(
    rows: Iterator[tuple[list[str], Place]], columns: Sequence[str | int], header: bool, findings: Findings
) -> Iterator[tuple[list[str], Place]]:
    """The asked columns of each row; the first row names the columns where there is a `header`."""
    first = next(rows, None)
    if first is None:
        return
    row, place = first
    try:
        indices = [column_index(column, row if header else None, len(row)) for column in columns]
    except ColumnError as problem:
        findings.add_once("column", place.file, place.line, str(problem))
        return
    if not header:
        yield [row[index] for index in indices], place
    for row, place in rows:
        yield [row[index] for index in indices], place


def table_cells(file: Path, delimiter: str, findings: Findings) -> Iterator[tuple[list[str], Place]]:
    """All cells of each row of a `.tsv` (tab) or `.csv` (comma) file; empty lines are passed over and counted."""
    rows = _comma_separated(file, findings) if delimiter == "," else _tab_separated(file, findings)
    width = 0
    for number, cells in rows:
        width = width or len(cells)
        if not cells:
            findings.add_once("empty", file, number, "an empty line, passed over")
        elif len(cells) != width:
            findings.add_once(
                "columns", file, number, f"expected {width} columns as in the first row, got {len(cells)}"
            )
        else:
            yield cells, Place(str(file), number)


def _tab_separated(file: Path, findings: Findings) -> Iterator[tuple[int, list[str]]]:
    for number, text, _ in lines(file, findings):
        yield number, text.split("\t") if text else []


def _comma_separated(file: Path, findings: Findings) -> Iterator[tuple[int, list[str]]]:
    """Rows with the line each begins at; a quoted cell may run over several lines."""
    csv.field_size_limit(LONGEST_LINE)
    reader = csv.reader((text + end for _, text, end in lines(file, findings, crlf_is_odd=False)), strict=True)
    while True:
        number = reader.line_num + 1
        try:
            yield number, next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            what = "a quote is opened here and never closed" if "end of data" in str(error) else f"not CSV: {error}"
            findings.add_once("columns", file, number, what)
