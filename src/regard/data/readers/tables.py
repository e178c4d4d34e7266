"""Tables of text: tab-separated without quotes, and separated by commas or other signs with them."""

import csv
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from pathlib import Path

from regard.data.examples import SourceLocation
from regard.data.findings import Findings
from regard.data.readers.columns import ColumnError, column_index
from regard.data.readers.headers import SAMPLE, looks_like_header, other_delimiter
from regard.data.readers.lines import LONGEST_LINE, lines
from regard.errors import counted

SHOWN = 40  # characters of a cell in a sentence
Rows = Iterator[tuple[list[str], SourceLocation]]


def table_rows(
    rows: Rows, columns: Sequence[str | int], header: bool | None, findings: Findings, label: str | int | None = None
) -> Rows:
    """The named columns of each row. `header`: whether the first row names the columns; None: nobody has said it.

    A first row that looks like a header, though nobody has said so, is an error: as an example it would be wrong.
    """
    first = next(rows, None)
    if first is None:
        return
    row, location = first
    try:
        indices = [column_index(column, row if header else None, len(row)) for column in columns]
    except ColumnError as problem:
        findings.add_once("column", location.file, location.line, f"{problem}{_hint(row)}")
        return
    sample = list(islice(rows, SAMPLE))
    if header is None:
        chosen = [[cells[index] for index in indices] for cells in (row, *(cells for cells, _ in sample))]
        labels = [] if label is None else [columns.index(label)]
        if looks_like_header(chosen[0], chosen[1:], labels) or _names_elsewhere(row):
            findings.add_once("header", location.file, location.line, _undeclared(row, columns))
            header = True
    if header and not sample:
        findings.add_once("nothing", location.file, location.line, "a header and no examples below it")
    if not header:
        yield [row[index] for index in indices], location
    for row, location in chain(sample, rows):
        yield [row[index] for index in indices], location


def named_rows(rows: Rows, findings: Findings) -> Iterator[tuple[dict[str, str], SourceLocation]]:
    """All cells of each row by the names of their columns: those of the header if there is one, or their numbers."""
    first = next(rows, None)
    if first is None:
        return
    sample = list(islice(rows, SAMPLE))
    if hint := _hint(first[0]):
        counts = {cells[0].count(other_delimiter(first[0])) for cells, _ in sample}
        if _names_elsewhere(first[0]) or (len(sample) > 1 and counts == {first[0][0].count(other_delimiter(first[0]))}):
            findings.add_once("columns", first[1].file, first[1].line, hint.removeprefix("; "))
    is_header = looks_like_header(first[0], [cells for cells, _ in sample], range(len(first[0])))
    names = first[0] if is_header and len(set(first[0])) == len(first[0]) else list(map(str, range(len(first[0]))))
    for cells, location in chain([] if is_header else [first], sample, rows):
        yield dict(zip(names, cells, strict=True)), location


def _names_elsewhere(row: Sequence[str]) -> bool:
    """Whether a single cell holds the names of several columns between other signs than ours."""
    sign = other_delimiter(row)
    return bool(sign) and looks_like_header(row[0].split(sign), [], [])


def _undeclared(row: Sequence[str], columns: Sequence[str | int]) -> str:
    shown = ", ".join(f"'{cell[:SHOWN]}'" for cell in row)
    return (
        f"the first row looks like a header ({shown}): if it is one, name the columns instead of numbering them or say "
        f"header = true; if it is an example, header = false{_hint(row)}"
    )


def _hint(row: Sequence[str]) -> str:
    sign = other_delimiter(row)
    name = {"\t": "tabs", ";": "semicolons", ",": "commas"}.get(sign, f"'{sign}'")
    setting = {"\t": "format = 'tsv'", ",": "format = 'csv'"}.get(sign, f"format = 'csv' and delimiter = '{sign}'")
    return f"; its columns seem to be separated by {name}: in a recipe, say {setting}" if sign else ""


def table_cells(file: Path, delimiter: str, findings: Findings) -> Iterator[tuple[list[str], SourceLocation]]:
    """All cells of each row; with tabs nothing is quoted, as in `.tsv`, with other signs cells may be, as in `.csv`.

    Empty lines are passed over and counted.
    """
    rows = _tab_separated(file, findings) if delimiter == "\t" else _quoted(file, delimiter, findings)
    width, hint = 0, ""
    for number, cells in rows:
        if not width:
            width, hint = len(cells), _hint(cells)
        if not cells:
            findings.add_once("empty", file, number, "an empty line, passed over")
        elif len(cells) != width:
            problem = f"expected {counted(width, 'column')} as in the first row, got {len(cells)}"
            findings.add_once("columns", file, number, f"{problem}{hint}")
        else:
            yield cells, SourceLocation(str(file), number)


def _tab_separated(file: Path, findings: Findings) -> Iterator[tuple[int, list[str]]]:
    for number, text, _ in lines(file, findings):
        yield number, text.split("\t") if text else []


def _quoted(file: Path, delimiter: str, findings: Findings) -> Iterator[tuple[int, list[str]]]:
    """Rows with the line each begins at; a quoted cell may run over several lines."""
    csv.field_size_limit(LONGEST_LINE)
    text_lines = (text + end for _, text, end in lines(file, findings, crlf_is_odd=False))
    reader = csv.reader(text_lines, delimiter=delimiter, strict=True)
    while True:
        number = reader.line_num + 1
        try:
            yield number, next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            what = "a quote is opened here and never closed" if "end of data" in str(error) else f"not CSV: {error}"
            findings.add_once("columns", file, number, what)
