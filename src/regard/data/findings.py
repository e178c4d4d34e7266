"""What is wrong with data, gathered while it is read: errors stop training, warnings are counted and said.

Readers report what they cannot read; `inspected` reports what is odd about the texts of examples that were read.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeVar

from regard.data.examples import Example, PairBlock, Row, SourceLocation, Text
from regard.errors import DataError

Severity = Literal["error", "warning"]
KindName = Literal[
    "unreadable", "encoding", "nul", "alignment", "column", "columns", "header", "json", "conllu", "tree", "value",
    "image", "label", "division", "nothing", "bom", "crlf", "empty", "separator", "odd", "long", "duplicate",
    "leak", "overlap", "similar", "untranslated", "fuzzy", "obsolete",
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
    "untranslated": Kind("warning", "untranslated entry, left out", "untranslated entries, left out"),
    "fuzzy": Kind("warning", "fuzzy entry, left out", "fuzzy entries, left out"),
    "obsolete": Kind("warning", "obsolete entry, left out", "obsolete entries, left out"),
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


LONGEST_TEXT = 10_000  # characters; longer is rarely one example, and often a missing line break
SEPARATORS = "\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"
"""Where str.splitlines and many tools break a line, though no line feed stands there."""

AnyExample = TypeVar("AnyExample", bound=Example | Row)

_SUSPECT = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f"  # controls
    "\u200b\u2028-\u202e\u2060-\u2069\ufeff"  # invisible: zero-width, separators, direction marks
    "\ufff0-\uffff\ue000-\uf8ff\ud800-\udfff]"  # replacement character, private use, half a surrogate pair
)


def suspects(text: str) -> Iterator[str]:
    return (match.group() for match in _SUSPECT.finditer(text))


def character_name(character: str) -> str:
    """`U+FFFD REPLACEMENT CHARACTER`."""
    name = unicodedata.name(character, "")
    return f"U+{ord(character):04X}{' ' if name else ''}{name}"


def inspect_example(example: Example | Row, findings: Findings) -> None:
    """Reports what is odd about an example; an empty line of a running text is not odd."""
    runs_on = isinstance(example, Text) and example.end
    for name, text, location in example.sides:
        if not runs_on and (not text or text.isspace()):
            findings.add("empty", location.file, location.line, f"the {name} is empty")
        if len(text) > LONGEST_TEXT:
            findings.add("long", location.file, location.line, f"the {name} has {len(text):,} characters")
        if _SUSPECT.search(text):
            _report(set(suspects(text)), name, location, findings)


def inspected(
    examples: Iterator[AnyExample], findings: Findings, file: object, part: str | None = None
) -> Iterator[AnyExample]:
    """The same examples, each inspected as it passes; that there are none is an error of its own."""
    errors, is_empty = findings.errors, True
    for example in examples:
        is_empty = False
        inspect_example(example, findings)
        yield example
    if is_empty and findings.errors == errors and str(file) not in findings.faulty:
        findings.add("nothing", file, None, f"no examples in {part}" if part else "no examples")


def inspected_blocks(blocks: Iterator[PairBlock], findings: Findings, file: object) -> Iterator[PairBlock]:
    """The same for many pairs at a time."""
    errors, is_empty = findings.errors, True
    for block in blocks:
        is_empty = is_empty and not len(block)
        if _is_odd(block.sources) or _is_odd(block.targets):
            for pair in block:
                inspect_example(pair, findings)
        yield block
    if is_empty and findings.errors == errors and str(file) not in findings.faulty:
        findings.add("nothing", file, None, "no examples")


def _is_odd(texts: list[str]) -> bool:
    """Whether there is anything to say about one of some texts."""
    if not all(texts) or any(map(str.isspace, texts)) or max(map(len, texts), default=0) > LONGEST_TEXT:
        return True
    return _SUSPECT.search("\n".join(texts)) is not None


def _report(suspicious: set[str], name: str, location: SourceLocation, findings: Findings) -> None:
    surrogates = {character for character in suspicious if "\ud800" <= character <= "\udfff"}
    separators = suspicious & set(SEPARATORS)
    odd = suspicious - surrogates - separators - {"\0"}
    problems: dict[KindName, str] = {}
    if "\0" in suspicious:
        problems["nul"] = "a NUL character: is it text, and UTF-8?"
    if surrogates:
        problems["encoding"] = "half a surrogate pair, which is not UTF-8"
    if separators:
        problems["separator"] = f"{_names(separators)}, where many tools break the line"
    if odd:
        problems["odd"] = _names(odd)
    for kind, problem in problems.items():
        findings.add(kind, location.file, location.line, f"the {name} holds {problem}")


def _names(characters: set[str]) -> str:
    return ", ".join(character_name(character) for character in sorted(characters))
