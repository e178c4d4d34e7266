"""XLIFF 1.2 and 2.0 (.xlf, .xliff): targets that are missing, empty or marked as new are filled in."""

from dataclasses import dataclass

from typing_extensions import override

from regard.errors import DataError
from regard.text.documents.html import html_escape
from regard.text.documents.registry import Document, DocumentFormat, Edit, Languages, Lines, enclosed, space_before
from regard.text.documents.segments import Segment
from regard.text.documents.xml import Token, check_xml, inline_atoms, tokens, xml_encoding

UNITS = ("trans-unit", "segment")
NEW = ("new", "needs-translation", "initial")
"""States of a target that nobody has translated yet."""
ELSEWHERE = ("alt-trans", "matches", "glossary", "bin-unit")
"""Elements with sources and targets that are not the file's own."""
NATIVE = ("bpt", "ept", "ph", "it", "sub", "ut")
"""Inline elements that hold markup of the original file."""


class XliffFormat(DocumentFormat):
    name, suffixes = "xliff", (".xlf", ".xliff", ".sdlxliff", ".mxliff")

    @override
    def encoding(self, start: bytes) -> str:
        return xml_encoding(start)

    @override
    def encode(self, text: str, encoding: str, file: str) -> bytes:
        return text.encode(encoding, "xmlcharrefreplace")

    @override
    def parse(self, text: str, file: str, languages: Languages) -> Document:
        check_xml(text, file)
        return _Parser(text, file, languages).document()


@dataclass
class _Unit:
    """A unit, and the ranges of its source and target: start of the tag, of the content, its end, end of the tag."""

    is_translated: bool
    source: tuple[Token, Token] | None = None
    target: tuple[Token, Token] | None = None
    behind: int = 0
    """Where a target can be inserted."""


class _Parser:
    def __init__(self, text: str, file: str, languages: Languages) -> None:
        self.text, self.file, self.languages = text, file, languages
        self.lines, self.segments, self.edits = Lines(text), list[Segment](), list[Edit]()
        self.unit = _Unit(is_translated=True)

    def document(self) -> Document:
        stack, root = list[tuple[Token, bool]](), ""
        for token in tokens(self.text):
            if token.kind == "other":
                continue
            root = root or token.name
            if token.kind == "close":
                opened, _ = stack.pop()
                if not any(outer.name in ELSEWHERE for outer, _ in stack):
                    self._close(opened, token)
                continue
            off = {"no": True, "yes": False}.get(token.attributes.get("translate", ""), bool(stack and stack[-1][1]))
            self._language(token)
            if token.name in UNITS:
                self.unit = _Unit(off or token.attributes.get("state") == "final")
            if token.kind == "open":
                stack.append((token, off))
            elif not any(outer.name in ELSEWHERE for outer, _ in stack):
                self._close(token, token)
        if root != "xliff":
            raise DataError(self.file, f"expected <xliff>, got <{root}>")
        return Document(self.text, self.segments, self.edits)

    def _close(self, opened: Token, token: Token) -> None:
        """Notes the end of an element, or one that is empty."""
        if token.name == "source" and opened is not token:
            self.unit.source, self.unit.behind = (opened, token), token.end
        elif token.name == "seg-source":
            self.unit.behind = token.end
        elif token.name == "target":
            self.unit.target = (opened, token)
        elif token.name in UNITS:
            self._add(self.unit, opened)

    def _language(self, token: Token) -> None:
        """Adds the target language that a file must name beside targets."""
        names = {"file": ("source-language", "target-language"), "xliff": ("srcLang", "trgLang")}
        source, target = names.get(token.name, ("", ""))
        code = self.languages.target
        if source in token.attributes and target not in token.attributes and code:
            self.edits.append(Edit(token.end - 1, token.end - 1, -1, lambda _: f' {target}="{code}"'))

    def _add(self, unit: _Unit, opened: Token) -> None:
        if unit.is_translated or unit.source is None:
            return
        content = self.text[unit.source[0].end : unit.source[1].start]
        segment = Segment(inline_atoms(content, inline), self.lines.at(unit.source[0].start), html_escape)
        number, prefix = len(self.segments), unit.source[0].prefix
        if unit.target is None:
            space = space_before(self.text, unit.source[0].start)
            written = enclosed(f"{space}<{prefix}target>", f"</{prefix}target>")
            edit = Edit(unit.behind, unit.behind, number, written)
        else:
            start, end = unit.target
            state = start.attributes.get("state") or opened.attributes.get("state") or ""
            filled = start is not end and self.text[start.end : end.start].strip()
            if filled and state not in NEW:
                return
            if start is end:  # <target/>
                tag = self.text[start.start : start.end].rstrip("/>").rstrip()
                written = enclosed(f"{tag}>", f"</{prefix}target>")
                edit = Edit(start.start, start.end, number, written)
            else:
                edit = Edit(start.end, end.start, number)
        self.segments.append(segment)
        self.edits.append(edit)


def inline(token: Token) -> str:
    """How an inline element of XLIFF or TMX is treated."""
    if token.attributes.get("translate") == "no" or token.attributes.get("mtype") == "protected":
        return "protected"
    return {"g": "pair", "mrk": "pair", "pc": "pair", "hi": "pair", "bpt": "open", "ept": "close", "bx": "open",
            "ex": "close", "sc": "open", "ec": "close"}.get(token.name, "alone")  # fmt: skip
