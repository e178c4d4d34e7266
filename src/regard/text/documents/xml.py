"""XML of translation tools, read safely: no entities, no DTD inside the file, limits on depth and length.

`XmlReader` streams elements for training data; `tokens` gives the positions of tags in a document that was checked.
"""

import re
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from html import unescape
from xml.parsers import expat

from regard.errors import DataError
from regard.text.documents.segments import Atom, Protected, Tag, Text

MAX_DEPTH = 100
MAX_TOKEN = 16 << 20
"""Bytes of a tag or comment, and of the text of one element that is kept."""
BLOCK = 1 << 16
DECLARED = re.compile(rb"""<\?xml[^>]*?\bencoding\s*=\s*["']([\w.:-]+)["']""")
TOKEN = re.compile(
    r"<!--.*?-->|<!\[CDATA\[(?P<cdata>.*?)\]\]>|<\?.*?\?>|<!(?:[^>\"']|\"[^\"]*\"|'[^']*')*>"
    r"|<(?P<close>/?)(?P<name>[^\s/>!?]+)(?P<attributes>(?:[^>\"']|\"[^\"]*\"|'[^']*')*?)(?P<empty>/?)>",
    re.DOTALL,
)
ATTRIBUTE = re.compile(r"""([^\s=]+)\s*=\s*(?:"([^"]*)"|'([^']*)')""")
ENTITY = re.compile(r"&(?:#\d+|#x[\da-fA-F]+|\w+);|\s*\n\s*")


@dataclass(frozen=True, slots=True)
class Token:
    """A tag, with its position in the document; comments and instructions have no name."""

    start: int
    end: int
    kind: str
    """open, close, empty, or other."""
    name: str
    """Without the prefix of its namespace."""
    prefix: str
    attributes: dict[str, str] = field(default_factory=dict)


def tokens(text: str) -> Iterator[Token]:
    """The tags of a well-formed document, and what else is in angle brackets."""
    for match in TOKEN.finditer(text):
        if match["name"] is None:
            yield Token(match.start(), match.end(), "other", "", "")
            continue
        kind = "close" if match["close"] else "empty" if match["empty"] else "open"
        prefix, colon, name = match["name"].rpartition(":")
        attributes = {one[1]: unescape(one[2] or one[3] or "") for one in ATTRIBUTE.finditer(match["attributes"])}
        yield Token(match.start(), match.end(), kind, name, prefix + colon, attributes)


def xml_encoding(start: bytes) -> str:
    declared = DECLARED.match(start.lstrip())
    return declared.group(1).decode("ascii") if declared else "utf-8"


def check_xml(text: str, file: str) -> None:
    """DataError for a document that is not well formed, or hostile."""
    reader = XmlReader(file)
    for _ in reader.read([text.encode()], "utf-8"):
        pass


Inline = Callable[[Token], str]
"""How a tag inside a text is treated: pair, code (an element whose content is native code), open, close or alone."""


def inline_atoms(text: str, inline: Inline) -> list[Atom]:
    """The content of an element: text, and tags with what they enclose."""
    atoms, behind, code = list[Atom](), 0, list[tuple[Token, str]]()
    for token in tokens(text):
        if not code:
            atoms += _text_atoms(text[behind : token.start])
            behind = token.start
        how = inline(token) if token.kind != "other" else "alone"
        is_code = how not in ("pair", "alone") or (how == "alone" and token.kind != "empty" and bool(token.name))
        if token.kind == "open" and (code or is_code):
            code.append((token, how))
        elif token.kind == "close" and code:
            opened, how = code.pop()
            if not code:
                atoms.append(_code(text[opened.start : token.end], opened, how))
                behind = token.end
        elif not code:
            atoms.append(_tag(text[token.start : token.end], token, how))
            behind = token.end
    return [*atoms, *_text_atoms(text[behind:])]


def _code(raw: str, token: Token, how: str) -> Atom:
    if how == "protected":
        return Protected(unescape(re.sub(r"<[^>]*>", "", raw)), raw)
    return Tag(raw, how, _pair_name(token)) if how in ("open", "close") else Tag(raw)


def _tag(raw: str, token: Token, how: str) -> Tag:
    if how == "pair" and token.kind != "empty":
        return Tag(raw, "close" if token.kind == "close" else "open", token.name)
    return Tag(raw, how, _pair_name(token)) if how in ("open", "close") else Tag(raw)


def _pair_name(token: Token) -> str:
    attributes = token.attributes
    return next((attributes[name] for name in ("rid", "startRef", "i", "id") if name in attributes), "")


def _text_atoms(raw: str) -> Iterator[Atom]:
    behind = 0
    for match in ENTITY.finditer(raw):
        if behind < match.start():
            yield Text(raw[behind : match.start()], raw[behind : match.start()])
        yield Text(" " if match.group().isspace() else unescape(match.group()), match.group())
        behind = match.end()
    if behind < len(raw):
        yield Text(raw[behind:], raw[behind:])


@dataclass(slots=True)
class Element:
    """An element that has ended: its text, without that of elements inside it that are `skipped`."""

    name: str
    attributes: dict[str, str]
    line: int
    text: str = ""


Event = tuple[str, Element]
"""`start` or `end`, and the element."""


class XmlReader:
    """Streams the elements of a file; memory does not grow with it."""

    def __init__(self, file: str, texts_of: Sequence[str] = (), skipped: Sequence[str] = ()) -> None:
        self.file, self.texts_of, self.skipped = file, set(texts_of), set(skipped)
        self._events = list[Event]()
        self._stack = list[Element]()
        self._texts = list[tuple[Element, list[str]]]()
        self._skipping = self._size = 0

    def read(self, blocks: Iterable[bytes], encoding: str | None = None) -> Generator[Event]:
        """Start and end of each element, in order; DataError with the line for what is refused."""
        parser = self._parser = expat.ParserCreate(encoding)
        parser.buffer_text = True
        parser.StartElementHandler, parser.EndElementHandler = self._start, self._end
        parser.CharacterDataHandler = self._characters
        parser.StartDoctypeDeclHandler = self._doctype
        parser.EntityDeclHandler = self._entity
        fed = 0
        try:
            for block in blocks:
                for start in range(0, len(block), BLOCK):
                    part = block[start : start + BLOCK]
                    parser.Parse(part, False)
                    fed += len(part)
                    if fed - parser.CurrentByteIndex > MAX_TOKEN:
                        self._refuse(f"a tag or comment of more than {MAX_TOKEN:,} bytes")
                    yield from self._events
                    self._events.clear()
            parser.Parse(b"", True)
            yield from self._events
        except expat.ExpatError as error:
            problem = expat.ErrorString(error.code)
            raise DataError(self.file, f"not well-formed XML ({problem})", error.lineno) from None
        except LookupError as error:
            raise DataError(self.file, f"declares an encoding that is not known ({error})", 1) from None

    def _refuse(self, problem: str) -> None:
        raise DataError(self.file, f"{problem}; such XML is refused", self._parser.CurrentLineNumber)

    def _entity(self, *_declaration: object) -> None:
        self._refuse("declares an entity")

    def _doctype(self, _name: str, _system: str | None, _public: str | None, has_subset: bool) -> None:
        if has_subset:
            self._refuse("has a DTD inside")

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        if len(self._stack) >= MAX_DEPTH:
            self._refuse(f"elements more than {MAX_DEPTH} deep")
        element = Element(name.rpartition(":")[2], attributes, self._parser.CurrentLineNumber)
        self._stack.append(element)
        self._skipping += element.name in self.skipped
        if element.name in self.texts_of:
            self._texts.append((element, []))
            self._size = 0
        self._events.append(("start", element))

    def _end(self, _name: str) -> None:
        element = self._stack.pop()
        self._skipping -= element.name in self.skipped
        if self._texts and self._texts[-1][0] is element:
            element.text = "".join(self._texts.pop()[1])
        self._events.append(("end", element))

    def _characters(self, text: str) -> None:
        if not self._texts or self._skipping:
            return
        self._texts[-1][1].append(text)
        self._size += len(text)
        if self._size > MAX_TOKEN:
            self._refuse(f"a text of more than {MAX_TOKEN:,} characters")
