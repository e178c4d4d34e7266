"""Tables of text: tab-separated without quotes (.tsv), and separated by commas or other signs with them (.csv).

Whether the first row names the columns is decided by the rows below it: a header that is read as an example would be a
class of its own.
"""

import csv
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from pathlib import Path

from typing_extensions import override

from regard.config import refuse
from regard.data.columns import ColumnError, column_index, row_examples
from regard.data.examples import Example, Row, SourceLocation
from regard.data.findings import Findings
from regard.data.lines import LONGEST_LINE, lines
from regard.data.readers.registry import FileFormat, FileSource
from regard.errors import counted

SHOWN = 40  # characters of a cell in a sentence
Rows = Iterator[tuple[list[str], SourceLocation]]
SAMPLE = 200  # rows that are looked at
DELIMITERS = (";", "\t", "|", ",")
_NAMES = """
text texts sentence sentence1 sentence2 review reviews comment comments content contents body title headline tweet
message document doc passage paragraph question answer query context premise hypothesis instruction utterance
label labels class classes category categories sentiment polarity target source src tgt trg input output prompt
completion response summary article highlights abstract translation original reference description caption
id idx index number no nr row score rating stars grade topic intent emotion tag tags upos xpos language lang split
file files filename image images picture path url date name value column words tokens
english german french spanish italian portuguese dutch czech russian chinese japanese korean polish swedish danish
finnish turkish arabic hindi deutsch englisch satz kategorie klasse bewertung texte phrase
en de fr es it pt nl cs ru zh ja ko pl sv da fi tr ar hi uk ro hu el he
"""
NAMES = frozenset(_NAMES.split())
"""What columns are often called."""
_NAME = re.compile(r"[^\W\d][\w .#/()-]{0,39}[?:*%]?")
_NUMBER = re.compile(r"[+-]?\d+(?:[.,]\d+)?(?:[eE][+-]?\d+)?")


class SeparatedFormat(FileFormat):
    """Rows of cells between separators."""

    line_based = True

    def separator(self, source: FileSource) -> str:
        return "\t"

    @override
    def check(self, source: FileSource) -> None:
        named = [column for column in source.columns if isinstance(column, str)]
        if source.header is False and named:
            raise refuse("header", f"without a header no column is called '{named[0]}'; give its number from 0")

    @override
    def examples(self, source: FileSource, file: Path, findings: Findings) -> Iterator[Example]:
        header = True if source.header is None and source.has_header else source.header
        cells = table_cells(file, self.separator(source), findings)
        rows = table_rows(cells, source.columns, header, findings, source.label)
        return row_examples(rows, source.content, source.columns, findings, source.separator)

    @override
    def untyped_examples(self, file: Path, findings: Findings) -> Iterator[Row]:
        cells = table_cells(file, "\t" if self.name == "tsv" else ",", findings)
        for row, location in named_rows(cells, findings):
            yield Row({f"column {name}": cell for name, cell in row.items()}, location)


class TsvFormat(SeparatedFormat):
    name, suffixes = "tsv", (".tsv",)

    @override
    def matches(self, lines: Sequence[str]) -> bool:
        return column_count(lines, "\t") > 0


class CsvFormat(SeparatedFormat):
    name, suffixes = "csv", (".csv",)

    @override
    def separator(self, source: FileSource) -> str:
        return source.delimiter or ","


def column_count(lines: Sequence[str], separator: str) -> int:
    """Into how many columns a separator splits all lines; 0 where it does not. Quoted text, of several lines too, is
    not split."""
    if separator == "\t":
        counts = {text.count(separator) + 1 for text in lines}
    else:
        rows = [len(cells) for cells in csv.reader(lines, delimiter=separator)]
        counts = {*(rows if len(rows) == 1 else rows[:-1])}  # the last may continue in the next line
    return counts.pop() if len(counts) == 1 and counts != {1} else 0


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


def looks_like_header(first: Sequence[str], others: Sequence[Sequence[str]], labels: Sequence[int]) -> bool:
    """Whether a row names columns, as the rows below it tell; `labels`: columns that may hold labels.

    It does where its cells are usual names; where it has a word above a column of numbers; where its label occurs
    nowhere else and stands beside a single word above whole sentences.
    """
    if not first or not all(_NAME.fullmatch(cell.strip()) for cell in first):
        return False
    columns = [[row[index] for row in others] for index in range(len(first))]
    if any(cell in below for cell, below in zip(first, columns, strict=True)):
        return False
    classes = [columns[index] for index in labels]
    return (
        (_has_usual_names(first, bool(labels)) and (len(first) > 1 or _are_sentences(columns[0])))
        or any(len(below) > 1 and all(map(_is_number, below)) for below in classes)
        or _stands_above_sentences(first, columns, classes)
    )


def other_delimiter(row: Sequence[str]) -> str:
    """The sign that probably separates the columns of a row that was read as a single one; empty if none does."""
    if len(row) != 1:
        return ""
    return next((sign for sign in DELIMITERS if len(row[0].split(sign)) > 1), "")


def _has_usual_names(cells: Sequence[str], labelled: bool) -> bool:
    usual = [_is_usual(cell.strip()) for cell in cells]
    return any(usual) if labelled else all(usual)


def _is_usual(cell: str) -> bool:
    """A usual name, or one made of them: `review_text`, `Review Text`, `sentenceId`."""
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", cell).casefold()
    parts = [part for part in re.split(r"[\W_]+", spaced) if part]
    if spaced in NAMES:
        return True
    return len(parts) > 1 and (all if " " in cell else any)(part in NAMES and len(part) > 2 for part in parts)


def _is_number(cell: str) -> bool:
    return _NUMBER.fullmatch(cell.strip()) is not None


def _stands_above_sentences(
    first: Sequence[str], columns: Sequence[Sequence[str]], classes: Sequence[Sequence[str]]
) -> bool:
    """Single words above a column of sentences and a column of few different values, each of which repeats."""
    if any(len(cell.split()) > 1 for cell in first):
        return False
    repeat = any(len(below) > 3 and min(Counter(below).values()) > 1 for below in classes)
    return repeat and any(map(_are_sentences, columns))


def _are_sentences(cells: Sequence[str]) -> bool:
    """Whether most cells have several words."""
    return 2 * sum(len(cell.split()) > 1 for cell in cells) > len(cells)
