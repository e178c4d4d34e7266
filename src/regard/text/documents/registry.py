"""The formats of documents: each is a class that registers itself, one module a format.

A format finds the texts of a file (segments) and where their translations go (edits); all other characters stay.

    class PropertiesFormat(DocumentFormat):
        name, suffixes = "properties", (".properties",)

        def parse(self, text, file, languages):
            ...  # return Document(text, segments, edits)
"""

import codecs
import re
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import ClassVar, NamedTuple

from regard.errors import DataError
from regard.text.documents.segments import Request, Results, Segment, Spans, Text, translate_segments

MAX_BYTES = 64 << 20
"""Documents are held in memory; a translation memory of this size is training data."""
BOMS = {codecs.BOM_UTF8: "utf-8", codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}


class Languages(NamedTuple):
    """Codes of the languages of a translation; empty where they are not known."""

    source: str = ""
    target: str = ""


@dataclass(frozen=True)
class Edit:
    """The characters of a document that the translation of a segment replaces."""

    start: int
    end: int
    segment: int
    """Its index; -1: the text does not depend on a segment."""
    written: Callable[[str], str] = str
    """What is written for a translation."""


@dataclass(frozen=True)
class Document:
    text: str
    segments: Sequence[Segment]
    edits: Sequence[Edit]

    def translation(self, spans: Spans) -> Generator[list[Request], Results, str]:
        """Yields the texts that a model must translate; returns the text of the translated document."""
        outputs = yield from translate_segments(self.segments, spans)
        parts, behind = list[str](), 0
        for edit in sorted(self.edits, key=lambda edit: edit.start):
            parts += [self.text[behind : edit.start], edit.written(outputs[edit.segment] if edit.segment >= 0 else "")]
            behind = edit.end
        return "".join([*parts, self.text[behind:]])


class DocumentFormat(ABC):
    """How documents of one format are named, decoded and divided into segments."""

    name: ClassVar[str]
    suffixes: ClassVar[tuple[str, ...]]
    by_lines: ClassVar[bool] = False
    """Whether `regard translate` reads such files line by line, so that only the server has them as documents."""

    def __init_subclass__(cls) -> None:
        if "name" in vars(cls):
            DOCUMENTS[cls.name] = cls()

    @abstractmethod
    def parse(self, text: str, file: str, languages: Languages) -> Document:
        """The segments of a document; DataError with its line for one that is damaged or hostile."""

    def encoding(self, start: bytes) -> str:
        """The encoding that the first bytes of a document declare."""
        return "utf-8"

    def encode(self, text: str, encoding: str, file: str) -> bytes:
        try:
            return text.encode(encoding)
        except UnicodeEncodeError as error:
            sign = error.object[error.start]
            raise DataError(file, f"the translation has '{sign}', which {encoding} cannot encode; convert the file "
                            "to UTF-8 first") from None  # fmt: skip

    def translation(
        self, content: bytes, file: str, spans: Spans, languages: Languages
    ) -> Generator[list[Request], Results, bytes]:
        """Yields the texts that a model must translate; returns the bytes of the translated document."""
        if len(content) > MAX_BYTES:
            raise DataError(file, f"has {len(content):,} bytes; a document has at most {MAX_BYTES:,}")
        bom = next((bom for bom in BOMS if content.startswith(bom)), b"")
        encoding = BOMS[bom] if bom else self.encoding(content[:2048])
        text = _decode(content[len(bom) :], encoding, file)
        translated = yield from self.parse(text, file, languages).translation(spans)
        return bom + self.encode(translated, encoding, file)


DOCUMENTS: dict[str, DocumentFormat] = {}


def document_format(file: str | PurePath) -> DocumentFormat | None:
    """The format of a document by its name."""
    suffix = PurePath(file).suffix.lower()
    return next((format for format in DOCUMENTS.values() if suffix in format.suffixes), None)


def _decode(content: bytes, encoding: str, file: str) -> str:
    try:
        text = content.decode(encoding)
        if text.encode(encoding) == content:
            return text
        problem, line = f"its bytes are no regular {encoding}; convert the file to UTF-8 first", None
    except LookupError:
        problem, line = f"declares an unknown encoding, '{encoding}'; convert the file to UTF-8 first", None
    except UnicodeError as error:
        at = error.start if isinstance(error, UnicodeDecodeError) else 0
        problem, line = f"not {encoding}; convert it: iconv -f latin1 -t utf-8", content.count(b"\n", 0, at) + 1
    raise DataError(file, problem, line)


class Lines:
    """The number of the line at each position of a text."""

    def __init__(self, text: str) -> None:
        self._ends = [match.end() for match in re.finditer("\n", text)]

    def at(self, position: int) -> int:
        return bisect_right(self._ends, position) + 1


def enclosed(before: str, after: str) -> Callable[[str], str]:
    """Writes a translation between two texts."""
    return lambda raw: f"{before}{raw}{after}"


def space_before(text: str, position: int) -> str:
    """The white space before a position."""
    start = position
    while start and text[start - 1].isspace():
        start -= 1
    return text[start:position]


class PlainTextFormat(DocumentFormat):
    """Lines of text."""

    name, suffixes = "text", (".txt",)
    by_lines = True

    def parse(self, text: str, file: str, languages: Languages) -> Document:
        lines, segments, edits = Lines(text), list[Segment](), list[Edit]()
        for match in re.finditer(r"[^\r\n]+", text):
            edits.append(Edit(match.start(), match.end(), len(segments)))
            segments.append(Segment([Text(match.group(), match.group())], lines.at(match.start())))
        return Document(text, segments, edits)
