"""HTML, whole pages or fragments. A segment is what stands between two block elements.

Never translated: code, scripts, styles, comments, attributes, `translate="no"`, `class="notranslate"`.
"""

import re
from collections.abc import Iterator, Sequence
from html import escape, unescape
from html.parser import HTMLParser

from typing_extensions import override

from regard.text.documents.registry import Document, DocumentFormat, Edit, Languages, Lines
from regard.text.documents.segments import Atom, Protected, Segment, Tag, Text, has_words, raw_of, text_of

_names = str.split
INLINE = set(_names("""
    a abbr acronym b bdi bdo big cite data del dfn em font i ins label mark q rb rp rt ruby s small span strike strong
    sub sup time tt u wbr img input output
"""))  # fmt: skip
UNTOUCHED = set(_names("""
    code kbd samp var pre script style svg math textarea template noscript iframe object canvas audio video select
    xmp listing noembed noframes head
"""))  # fmt: skip
"""Elements whose content is never translated; but the title in a head is."""
INLINE_UNTOUCHED = {"code", "kbd", "samp", "var"}
VOID = set(_names("area base br col embed hr img input link meta param source track wbr"))
TOKEN = re.compile(r"&(?:#\d+|#[xX][\da-fA-F]+|[A-Za-z]\w*);|\s*[\r\n]\s*")
CLOSED_BY, MAX_UNCLOSED = {"<!--": "-->", "<![": "]", "<": ">"}, 1000
CHARSET = re.compile(rb"""<meta[^>]+charset\s*=\s*["']?\s*([\w.:-]+)""", re.IGNORECASE)


class HtmlFormat(DocumentFormat):
    name, suffixes = "html", (".html", ".htm", ".xhtml")

    @override
    def parse(self, text: str, file: str, languages: Languages) -> Document:
        return html_document(text)

    @override
    def encoding(self, start: bytes) -> str:
        declared = CHARSET.search(start)
        return declared.group(1).decode("ascii") if declared else "utf-8"

    @override
    def encode(self, text: str, encoding: str, file: str) -> bytes:
        return text.encode(encoding, "xmlcharrefreplace")


def html_document(text: str, offset: int = 0, lines: Lines | None = None) -> Document:
    """A page or a fragment, which may begin at an offset of a larger document."""
    lines = lines or Lines(text)
    segments, edits = list[Segment](), list[Edit]()
    if any(text.count(opening) > text.count(closing) + MAX_UNCLOSED for opening, closing in CLOSED_BY.items()):
        return Document(text, [], [])  # no HTML, and the parser would take quadratic time
    for start, atoms in _segments(_Scanner(text).events()):
        edits.append(Edit(offset + start, offset + start + len(raw_of(atoms)), len(segments)))
        segments.append(Segment(atoms, lines.at(offset + start), html_escape))
    return Document(text, segments, edits)


def html_escape(sign: str) -> str:
    return escape(sign, quote=False)


def text_atoms(raw: str) -> list[Atom]:
    """Character data: entities and line breaks are single characters."""
    atoms, behind = list[Atom](), 0
    for match in TOKEN.finditer(raw):
        sign = " " if match.group().isspace() else unescape(match.group())
        if behind < match.start():
            atoms.append(Text(raw[behind : match.start()], raw[behind : match.start()]))
        if len(sign) == 1:
            atoms.append(Text(sign, match.group()))
        else:  # unknown, or one of the few that stand for two characters
            atoms.append(Protected(match.group(), match.group()))
        behind = match.end()
    return [*atoms, Text(raw[behind:], raw[behind:])] if behind < len(raw) else atoms


class _Event:
    """A tag, a text or anything else, with its position."""

    def __init__(self, start: int, kind: str, name: str = "", protects: bool = False) -> None:
        self.start, self.kind, self.name, self.protects = start, kind, name, protects
        self.raw = ""


class _Scanner(HTMLParser):
    """Divides a text into events, whose `raw` together are the text."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=False)
        self._text = text
        self._line_starts = [0, *(match.end() for match in re.finditer("\n", text))]
        self._events = list[_Event]()
        self.feed(text)
        self.close()

    def events(self) -> Sequence[_Event]:
        ends = [event.start for event in self._events[1:]]
        for event, end in zip(self._events, [*ends, len(self._text)], strict=True):
            event.raw = self._text[event.start : end]
        return self._events

    def _add(self, kind: str, name: str = "", protects: bool = False) -> None:
        line, column = self.getpos()
        start = self._line_starts[min(line, len(self._line_starts)) - 1] + column
        behind = self._events[-1].start if self._events else 0
        if not self._events and start:  # what the parser has passed over in silence
            self._events.append(_Event(0, "other"))
        self._events.append(_Event(max(start, behind), kind, name, protects))

    @override
    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        protects = (values.get("translate") or "").lower() == "no" or "notranslate" in (
            values.get("class") or ""
        ).split()
        self._add("alone" if tag in VOID else "open", tag, protects)

    @override
    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._add("alone", tag)

    @override
    def handle_endtag(self, tag: str) -> None:
        self._add("close", tag)

    @override
    def handle_data(self, data: str) -> None:
        self._add("text")

    @override
    def handle_entityref(self, name: str) -> None:
        self._add("text")

    @override
    def handle_charref(self, name: str) -> None:
        self._add("text")

    @override
    def handle_comment(self, data: str) -> None:
        self._add("comment")

    @override
    def handle_decl(self, decl: str) -> None:
        self._add("other")

    @override
    def handle_pi(self, data: str) -> None:
        self._add("other")

    @override
    def unknown_decl(self, data: str) -> None:
        self._add("other")


def _segments(events: Sequence[_Event]) -> Iterator[tuple[int, list[Atom]]]:
    """Position and atoms of each segment."""
    run, start, index = list[Atom](), 0, 0
    while index < len(events):
        event = events[index]
        stop, atoms = _atoms(events, index)
        if atoms is None:
            if has_words(run):
                yield _trimmed(start, run)
            run = []
        else:
            if not run:
                start = event.start
            run += atoms
        index = stop
    if has_words(run):
        yield _trimmed(start, run)


def _atoms(events: Sequence[_Event], index: int) -> tuple[int, list[Atom] | None]:
    """The index behind an event, or behind the element it opens, and its atoms; None where a segment ends."""
    event = events[index]
    if event.kind == "text":
        stop = index
        while stop < len(events) and events[stop].kind == "text":
            stop += 1
        return stop, text_atoms("".join(one.raw for one in events[index:stop]))
    if event.kind == "comment":
        return index + 1, [Tag(event.raw)]
    if event.kind == "open" and (event.protects or event.name in UNTOUCHED):
        stop = _element_end(events, index)
        inside = events[index:stop]
        if event.name == "head" and not event.protects:
            return index + 1 if any(one.name == "title" for one in inside) else stop, None
        if event.name in INLINE_UNTOUCHED or event.name in INLINE:
            visible = unescape("".join(one.raw for one in inside if one.kind == "text"))
            return stop, [Protected(visible, "".join(one.raw for one in inside))]
        return stop, None
    if event.kind in ("open", "close", "alone") and event.name in INLINE:
        kind = "open" if event.kind == "open" else "close" if event.kind == "close" else "alone"
        return index + 1, [Tag(event.raw, kind, event.name)]
    return index + 1, None


def _element_end(events: Sequence[_Event], index: int) -> int:
    """The index behind the end tag of an element, or of the document."""
    depth = 0
    for stop in range(index, len(events)):
        if events[stop].name == events[index].name:
            depth += {"open": 1, "close": -1}.get(events[stop].kind, 0)
        if depth == 0:
            return stop + 1
    return len(events)


def _trimmed(start: int, atoms: list[Atom]) -> tuple[int, list[Atom]]:
    """A segment without the white space around it."""
    while isinstance(atoms[0], Text) and not atoms[0].text.strip():
        start += len(atoms[0].raw)
        atoms = atoms[1:]
    while isinstance(atoms[-1], Text) and not atoms[-1].text.strip():
        atoms = atoms[:-1]
    assert text_of(atoms)
    return start, atoms
