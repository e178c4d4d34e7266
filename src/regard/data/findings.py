"""What is wrong with data, gathered while it is read: errors stop training, warnings are counted and said."""

from collections import Counter
from dataclasses import dataclass
from typing import Literal, NamedTuple

from regard.errors import DataError

Severity = Literal["error", "warning"]
KindName = Literal[
    "unreadable", "encoding", "nul", "alignment", "column", "columns", "header", "json", "conllu", "tree", "value",
    "image", "label", "division", "nothing", "bom", "crlf", "empty", "separator", "odd", "long", "duplicate",
    "leak", "overlap", "similar",
]  # fmt: skip


class Kind(NamedTuple):
    """A kind of finding: how bad it is, and how one and several of it are called."""

    severity: Severity
    one: str
    many: str


KINDS: dict[KindName, Kind] = {
    "unreadable": Kind("error", "unreadable file", "unreadable files"),
    "encoding": Kind("error", "line that is not UTF-8", "lines that are not UTF-8"),
    "nul": Kind("error", "text with a NUL character", "texts with a NUL character"),
    "alignment": Kind("error", "file with lines that have no partner", "files with lines that have no partner"),
    "column": Kind("error", "missing column", "missing columns"),
    "columns": Kind("error", "row that does not fit its table", "rows that do not fit their table"),
    "header": Kind("error", "first row that looks like a header", "first rows that look like a header"),
    "json": Kind("error", "line that is not JSON", "lines that are not JSON"),
    "conllu": Kind("error", "line that is not CoNLL-U", "lines that are not CoNLL-U"),
    "tree": Kind("error", "sentence whose heads are no tree", "sentences whose heads are no tree"),
    "value": Kind("error", "row without a usable value", "rows without a usable value"),
    "label": Kind("error", "label unknown in the training data", "labels unknown in the training data"),
    "image": Kind("error", "image that cannot be read", "images that cannot be read"),
    "division": Kind("error", "source that cannot be divided", "sources that cannot be divided"),
    "nothing": Kind("error", "source without examples", "sources without examples"),
    "bom": Kind("warning", "byte order mark", "byte order marks"),
    "crlf": Kind("warning", "Windows line end", "Windows line ends"),
    "empty": Kind("warning", "empty line", "empty lines"),
    "separator": Kind("warning", "text with a hidden line separator", "texts with a hidden line separator"),
    "odd": Kind("warning", "text with odd characters", "texts with odd characters"),
    "long": Kind("warning", "over-long text", "over-long texts"),
    "duplicate": Kind("warning", "duplicate", "duplicates"),
    "leak": Kind("warning", "leak from the training data", "leaks from the training data"),
    "overlap": Kind("warning", "example that two held-out splits share", "examples that two held-out splits share"),
    "similar": Kind("warning", "label that differs little from another", "labels that differ little from another"),
}


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong, and where."""

    file: str
    line: int | None
    severity: Severity
    what: str
    kind: KindName

    @property
    def where(self) -> str:
        """`train.en:17`, or the file alone where no line is to blame."""
        return f"{self.file}:{self.line}" if self.line else self.file

    def __str__(self) -> str:
        """`train.en:17: the source is empty`."""
        return f"{self.where}: {self.what}"


@dataclass(frozen=True)
class Summary:
    """How often one kind of finding was met."""

    kind: KindName
    severity: Severity
    count: int
    first: Finding

    def __str__(self) -> str:
        """`3 empty lines (first at train.en:17)`."""
        name = KINDS[self.kind].one if self.count == 1 else KINDS[self.kind].many
        first = "at" if self.count == 1 else "first at"
        return f"{self.count:,} {name} ({first} {self.first.where})"


class Findings:
    """Where readers report: every finding is counted, the first `keep` of each kind are kept.

    `strict`, as in training, raises DataError at the first error; otherwise reading continues.
    """

    def __init__(self, strict: bool = True, keep: int = 20) -> None:
        self.strict = strict
        self.keep = keep
        self.counts: Counter[KindName] = Counter()
        self.unreadable: set[str] = set()
        self.faulty: set[str] = set()
        """Files with errors."""
        self._first: dict[KindName, list[Finding]] = {}
        self._reached: dict[tuple[KindName, str], int] = {}

    def add(self, kind: KindName, file: object, line: int | None, what: str) -> None:
        severity = KINDS[kind].severity
        self.counts[kind] += 1
        if kind == "unreadable":
            self.unreadable.add(str(file))
        if severity == "error":
            self.faulty.add(str(file))
        first = self._first.setdefault(kind, [])
        if len(first) < self.keep:
            first.append(Finding(str(file), line, severity, what, kind))
        if self.strict and severity == "error":
            raise DataError(file, what, line)

    def add_once(self, kind: KindName, file: object, line: int | None, what: str) -> None:
        """Reports a finding unless an earlier reading of the same file, from first line to last, has done so."""
        reached = self._reached.get((kind, str(file)), -1)
        if (line or 0) > reached:
            self._reached[kind, str(file)] = line or 0
            self.add(kind, file, line, what)

    @property
    def items(self) -> list[Finding]:
        """The findings kept, errors first."""
        return [finding for kind in KINDS for finding in self._first.get(kind, [])]

    @property
    def errors(self) -> int:
        """How many of the findings would stop training."""
        return sum(count for kind, count in self.counts.items() if KINDS[kind].severity == "error")

    def summaries(self) -> list[Summary]:
        """One line for each kind met, errors first."""
        return [
            Summary(kind, KINDS[kind].severity, self.counts[kind], self._first[kind][0])
            for kind in KINDS
            if self.counts[kind]
        ]
