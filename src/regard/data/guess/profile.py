"""What the columns of a table hold, by statistics: how long, how different, how often repeated."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice, takewhile
from pathlib import Path

from regard.data.columns import MOST_LABELS, ColumnError, Record, as_label, as_text, is_list, is_record
from regard.data.findings import Findings
from regard.data.images.files import SUFFIXES
from regard.data.lines import lines
from regard.data.readers.registry import FORMATS, RecordFormat, format_of
from regard.data.readers.tables import SAMPLE, Rows, column_count, looks_like_header, table_cells
from regard.errors import DataError

MOST_ROWS = 1_000_000  # rows that are looked at
LONGEST_NAME = 255  # characters of a file's name
PEEKED = 50  # lines that tell the format of a file whose name does not
MOST_CLASSES = 1000  # more different values are no labels
MOST_ITEMS = 4  # records in a list that are columns of their own
MOST_LABEL_WORDS = 4  # of a label, on average
MOST_EMPTY = 0.05  # share of rows in which a label may be missing
FEW, OFTEN = 20, 10  # different values, or times that each occurs, that make labels whatever the column is called
SAMPLES = 3
SEPARATORS = ("|", ";", ",")
"""What may stand between the labels of a row."""
MOST_PER_ROW = 5
"""Labels of a row, on average."""
SEVERAL = 0.2
"""Share of rows that have more than one label, where labels stand between signs."""
MANY, LONG_PREFIX = 20, 8  # values of which all begin with so many equal characters are no texts to learn from
_NUMBER = re.compile(r"[+-]?\d+(?:[.,]\d+)?(?:[eE][+-]?\d+)?")
_CODE = re.compile(r"[!-~]*[\d/:@#][!-~]*")  # one word with digits or signs: ids, dates, addresses


@dataclass
class ColumnProfile:
    """Statistics of one column."""

    name: str | int
    rows: int = 0
    filled: int = 0
    words: int = 0
    numbers: int = 0
    codes: int = 0
    images: int = 0
    """Values that are images: their bytes, or the name of a file that exists."""
    others: int = 0
    """Values that are neither texts nor labels, such as lists of numbers."""
    values: Counter[str] = field(default_factory=Counter)
    """How often each value occurs; no new ones are counted after `MOST_LABELS`."""
    samples: list[str] = field(default_factory=list)
    prefix: str | None = None
    """How all values begin."""
    lists: int = 0
    """Values that are lists of labels."""
    parts: dict[str, Counter[str]] = field(default_factory=dict)
    """How often each label occurs where values are lists, and where they are cut at a sign."""
    cut: Counter[str] = field(default_factory=Counter)
    """How many values each sign cuts."""
    repeated: int = 0
    """Lists in which a value occurs twice, as words of a text do."""

    def add(self, value: object, folder: Path) -> None:
        """Counts one value; names of images start at `folder`."""
        self.rows += 1
        self._add_parts(value)
        if value is None or value == "":
            return
        self.filled += 1
        if _is_image(value, folder):
            self.images += 1
            return
        try:
            text = as_label(value, self.name) if isinstance(value, bool | int | float) else as_text(value, self.name)
        except ColumnError:
            self.others += 1
            return
        self.words += len(text.split())
        self.numbers += _NUMBER.fullmatch(text.strip()) is not None
        self.codes += _CODE.fullmatch(text.strip()) is not None
        if text in self.values or len(self.values) < MOST_LABELS:
            self.values[text] += 1
        self.prefix = text if self.prefix is None else _common(self.prefix, text)
        if len(self.samples) < SAMPLES:
            self.samples.append(text)

    def _add_parts(self, value: object) -> None:
        """Counts the labels of a value that may have several."""
        if is_list(value) and all(isinstance(part, str | int) for part in value):
            self.lists += 1
            self.repeated += len(set(map(str, value))) < len(value)
            self._count_parts("", [str(part) for part in value])
        elif isinstance(value, str):
            for sign in SEPARATORS if value else ():
                parts = [part.strip() for part in value.split(sign)]
                self.cut[sign] += len(parts) > 1
                self._count_parts(sign, parts)

    def _count_parts(self, sign: str, parts: Sequence[str]) -> None:
        counts = self.parts.setdefault(sign, Counter())
        counts.update(part for part in parts if part in counts or len(counts) < MOST_LABELS)

    @property
    def separator(self) -> str:
        """The sign between several labels; empty where they are lists."""
        return "" if self.lists else next((sign for sign, _ in self.cut.most_common(1)), "")

    @property
    def has_several_labels(self) -> bool:
        """Whether its values are lists, or texts with a sign between, of few short labels that repeat in other rows."""
        counts = self.parts.get(self.separator, Counter[str]())
        occurrences, different = sum(counts.values()), len(counts)
        words = sum(len(label.split()) * count for label, count in counts.items()) / max(occurrences, 1)
        if self.lists:
            joined = self.lists == self.filled and not self.repeated
        else:  # signs that combine labels, and do not only stand in their names
            joined = self.cut[self.separator] >= max(2, SEVERAL * self.filled) and different < len(self.values)
        return (
            joined
            and 2 <= different <= MOST_CLASSES
            and occurrences >= 2 * different
            and occurrences <= MOST_PER_ROW * max(self.filled, 1)
            and words <= MOST_LABEL_WORDS / 2
        )

    @property
    def mean_words(self) -> float:
        return self.words / max(self.filled, 1)

    @property
    def is_image(self) -> bool:
        return self.images > 0 and self.images == self.filled

    @property
    def is_label(self) -> bool:
        """Whether few short values repeat, one in nearly every row."""
        return self._repeats and self.filled >= (1 - MOST_EMPTY) * self.rows

    @property
    def _repeats(self) -> bool:
        different = len(self.values)
        return (
            not (self.images or self.others)
            and 2 <= different <= MOST_CLASSES
            and self.filled >= 2 * different
            and self.mean_words <= MOST_LABEL_WORDS
        )

    @property
    def repeats_often(self) -> bool:
        """Whether its values are so few that they are hardly texts, however short, and be they missing in some rows."""
        return self._repeats and (len(self.values) <= FEW or self.filled >= OFTEN * len(self.values))

    @property
    def is_text(self) -> bool:
        """Whether it holds texts: no numbers, ids, dates or addresses, nor what all rows share, as a licence."""
        alike = self.filled >= MANY and (len(self.values) == 1 or len(self.prefix or "") >= LONG_PREFIX)
        return not (self.images or self.others or alike) and 2 * (self.filled - self.codes) > self.filled > 0

    def described(self, chosen_as_text: bool = False) -> str:
        """The column in a few words, such as `2 different values: neg, pos`.

        A column that is `chosen_as_text`, be it because no other is left, is described as the text that it is then.
        """
        if not self.filled:
            return "empty"
        if self.is_image:
            return "images"
        if self.has_several_labels and not chosen_as_text:
            counts = self.parts[self.separator]
            shown = ", ".join(label[:20] for label, _ in counts.most_common(4))
            return f"several of {len(counts)} labels a row: {shown}{', …' if len(counts) > 4 else ''}"
        if self.others:
            return "values that are neither text nor label"
        if chosen_as_text:
            return self._described_as_text()
        if self.is_label:
            shown = [value[:20] for value, _ in self.values.most_common(4)]
            more = ", …" if len(self.values) > len(shown) else ""
            return f"{len(self.values)} different values: {', '.join(shown)}{more}"
        if len(self.values) == 1:
            return "always the same value"
        if not self.is_text:
            if self.numbers == self.filled:
                return "numbers"
            return "numbers, dates, ids or addresses" if 2 * self.codes >= self.filled else "texts that begin alike"
        return self._described_as_text()

    def _described_as_text(self) -> str:
        return f"text, {self.mean_words:.0f} words on average" if self.mean_words >= 1.5 else "single words"


@dataclass
class Table:
    """A table as it was found: what is needed to read it, and the statistics of its columns."""

    file: Path
    format: str
    delimiter: str
    """Of a .csv file, where it is no comma; else empty."""
    header: bool | None
    """Whether its first row names the columns; None where such rows do not exist."""
    columns: dict[str | int, ColumnProfile]
    sample: Sequence[Sequence[str]] = ()
    """The cells of the first rows of a .tsv or .csv file, of a header too."""

    @property
    def rows(self) -> int:
        return max((column.rows for column in self.columns.values()), default=0)

    @property
    def settings(self) -> dict[str, object]:
        """What a recipe must say beside the file's name, so that it is read like this."""
        settings: dict[str, object] = {} if format_of(self.file) == self.format else {"format": self.format}
        return settings | ({"delimiter": self.delimiter} if self.delimiter else {})


def read_table(file: Path, named: Sequence[str] = ()) -> Table:
    """The statistics of a table; `named`: columns that the user names, which may stand in its first row."""
    format, delimiter = sniff_format(file)
    reader, table = FORMATS[format], Table(file, format, delimiter, None, {})
    if isinstance(reader, RecordFormat):
        table = _profile_records(table, reader.records(file, None, Findings()))
    else:
        cells = table_cells(file, "\t" if format == "tsv" else delimiter or ",", Findings())
        table = _profile_cells(table, cells, named)
    if not table.rows:
        raise DataError(file, "a header and no examples below it" if table.header else "no examples")
    return table


def sniff_format(file: Path) -> tuple[str, str]:
    """The format of a file by its name and its first lines, and the delimiter of a .csv that is no comma."""
    try:
        named = format_of(file)
    except ValueError as problem:
        raise DataError(file, str(problem)) from None
    if named not in ("text", "tsv", "csv"):
        return named, ""
    first_lines = [text for _, text, _ in islice(lines(file, Findings(), crlf_is_odd=False), PEEKED) if text.strip()]
    if named == "text":
        return next((name for name, format in FORMATS.items() if format.matches(first_lines)), "text"), ""
    usual = "\t" if named == "tsv" else ","
    separator = next((sign for sign in (usual, "\t", ";", "|", ",") if column_count(first_lines, sign)), usual)
    return ("tsv", "") if separator == "\t" else ("csv", "" if separator == "," else separator)


def _profile_cells(table: Table, rows: Rows, named: Sequence[str]) -> Table:
    first = next((cells for cells, _ in rows), list[str]())
    sample = list(islice(rows, SAMPLE))
    table.sample = [first, *(cells for cells, _ in sample)] if first else []
    table.header = bool(first) and (_is_header(first, [cells for cells, _ in sample]) or bool({*named} & {*first}))
    names = [name if table.header and name.strip() and first.count(name) == 1 else i for i, name in enumerate(first)]
    table.columns = {name: ColumnProfile(name) for name in names}
    body = chain([] if table.header else [first], (cells for cells, _ in chain(sample, rows)))
    for cells in islice((cells for cells in body if cells), MOST_ROWS):
        for profile, cell in zip(table.columns.values(), cells, strict=True):
            profile.add(cell, table.file.parent)
    return table


def _is_header(first: Sequence[str], others: Sequence[Sequence[str]]) -> bool:
    """As the readers judge it, but for cells without a name, as above a column of row numbers."""
    named = [index for index, cell in enumerate(first) if cell.strip()]
    below = [[row[index] for index in named] for row in others]
    return looks_like_header([first[index] for index in named], below, range(len(named)))


def _profile_records(table: Table, records: Iterator[Record]) -> Table:
    number = 0
    for number, (record, _) in enumerate(islice(records, MOST_ROWS), start=1):
        for name, value in _leaves(record):
            profile = table.columns.setdefault(name, ColumnProfile(name, rows=number - 1))
            profile.add(value, table.file.parent)
    for profile in table.columns.values():
        profile.rows = number
    return table


def _leaves(record: object, path: str = "") -> Iterator[tuple[str | int, object]]:
    """The values of a record by their dotted paths, as recipes name columns."""
    if is_record(record) and not (path and _holds_image(record)):
        for key, value in record.items():
            yield from _leaves(value, f"{path}.{key}" if path else str(key))
    elif path and is_list(record) and record and is_record(record[0]):  # as the messages of a conversation
        for index, value in enumerate(record[:MOST_ITEMS]):
            yield from _leaves(value, f"{path}.{index}")
    elif path:
        yield path, record
    elif is_list(record):
        yield from enumerate(record)


def _common(one: str, other: str) -> str:
    equal = takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False))
    return "".join(sign for sign, _ in equal)


def _holds_image(value: object) -> bool:
    return is_record(value) and "bytes" in value and isinstance(value["bytes"], bytes | None)


def _is_image(value: object, folder: Path) -> bool:
    if isinstance(value, bytes):
        return value.startswith((b"\x89PNG", b"\xff\xd8", b"GIF8", b"BM", b"RIFF", b"II*\0", b"MM\0*"))
    if _holds_image(value):
        return True
    if not isinstance(value, str) or len(value) > LONGEST_NAME or not value.lower().endswith((*SUFFIXES,)):
        return False
    return value.isprintable() and (folder / value).is_file()
