"""gettext catalogues (.po, .pot): empty translations are filled in; everything else stays as it is.

An entry that has a translation, a fuzzy one too, is left alone, and so are obsolete ones. Of a plural, the form for 1
is the translation of `msgid`, the others that of `msgid_plural`; how many there are is as the header says, or as usual
in the language.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from gettext import c2py

from typing_extensions import override

from regard.errors import DataError
from regard.text.documents.registry import Document, DocumentFormat, Edit, Languages
from regard.text.documents.segments import Atom, Protected, Segment, Text

KEYWORD = re.compile(r"(msgctxt|msgid_plural|msgid|msgstr)(?:\[(\d+)\])?\s*(?=\"|$)")
STRING = re.compile(r'"((?:[^"\\]|\\.)*)"\s*')
ESCAPE = re.compile(r"\\(?:[0-7]{1,3}|x[\da-fA-F]+|.)")
ESCAPES = {"n": "\n", "t": "\t", "r": "\r", '"': '"', "\\": "\\", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
CHARSET = re.compile(rb"charset=([\w.:-]+)", re.IGNORECASE)
PLURALS = re.compile(r"nplurals\s*=\s*(\d)\s*;\s*plural\s*=\s*([^;\n]+)")
FORMS = {
    **dict.fromkeys(["ja", "ko", "zh", "vi", "th", "id", "ms", "lo", "km", "ka"], (1, 0)),
    **dict.fromkeys(["ru", "uk", "be", "cs", "sk", "pl", "hr", "sr", "bs", "ro", "lt", "lv"], (3, 0)),
    "sl": (4, 0), "mt": (4, 0), "ga": (5, 0), "ar": (6, 1),
}  # fmt: skip
"""Plural forms of a language, and the one for 1; others have two."""


@dataclass
class PoField:
    """A keyword and its strings."""

    line: int
    keyword_end: int
    """Positions in the file: behind the keyword and the space after it, and behind the last string."""
    end: int
    strings: list[str] = field(default_factory=list)
    """As they are written, without quotes."""

    @property
    def text(self) -> str:
        return unescape("".join(self.strings))


@dataclass
class PoEntry:
    """A message; obsolete ones are comments."""

    line: int = 0
    fuzzy: bool = False
    obsolete: bool = False
    fields: dict[str, PoField] = field(default_factory=dict)
    """By keyword: msgctxt, msgid, msgid_plural, msgstr, msgstr[0] …"""

    @property
    def is_header(self) -> bool:
        return not self.obsolete and "msgctxt" not in self.fields and not self.text("msgid")

    def text(self, keyword: str) -> str:
        return self.fields[keyword].text if keyword in self.fields else ""

    @property
    def forms(self) -> list[PoField]:
        """The translations: one, or one for each plural form."""
        return [one for keyword, one in self.fields.items() if keyword.startswith("msgstr")]


def unescape(raw: str) -> str:
    return ESCAPE.sub(_unescaped, raw)


def _unescaped(match: "re.Match[str]") -> str:
    code = match.group()[1:]
    if code[0] in "01234567":
        return chr(int(code, 8))
    return chr(int(code[1:], 16) & 0xFF) if code[0] == "x" and len(code) > 1 else ESCAPES.get(code, code)


def po_entries(lines: Iterable[tuple[int, str]], file: str) -> Iterator[PoEntry]:
    """The entries of a catalogue, from its lines with their ends and numbers; one at a time."""
    entry, position, current = PoEntry(), 0, None
    for number, line in lines:
        body = line.strip()
        start = position
        position += len(line)
        obsolete = body.startswith("#~")
        body = body.removeprefix("#~").strip() if obsolete else body
        keyword = KEYWORD.match(body)
        ends = not body or body.startswith("#") or (keyword and keyword.group(1) in ("msgctxt", "msgid"))
        if ends and entry.forms:
            yield entry
            entry, current = PoEntry(), None
        if body.startswith("#"):
            entry.fuzzy |= body.startswith("#,") and "fuzzy" in re.split(r"[,\s]+", body)
            continue
        if not body:
            continue
        if keyword:
            name = keyword.group(1) + (f"[{int(keyword.group(2))}]" if keyword.group(2) else "")
            behind = start + line.index(keyword.group(1)) + keyword.end()
            current = entry.fields[name] = PoField(number, behind, behind)
            entry.line, entry.obsolete = entry.line or number, obsolete
            body = body[keyword.end() :]
        if current is None or not _add_strings(current, body):
            raise DataError(file, f"expected a keyword and a string in quotes, got {body[:40]!r}", number)
        current.end = start + len(line.rstrip())
    if entry.forms:
        yield entry
    elif entry.fields:
        raise DataError(file, "the last entry has no msgstr", entry.line)


def _add_strings(current: PoField, body: str) -> bool:
    at = 0
    while at < len(body):
        match = STRING.match(body, at)
        if match is None:
            return False
        current.strings.append(match.group(1))
        at = match.end()
    return True


def header_field(header: str, name: str) -> str:
    """The value of a line of the header, such as Language."""
    match = re.search(rf"^{name}:\s*(.*?)\s*$", header, re.MULTILINE | re.IGNORECASE)
    return match.group(1) if match else ""


def plural_forms(header: str, language: str) -> tuple[int, int]:
    """How many plural forms a catalogue has, and which of them is for 1."""
    declared = PLURALS.search(header_field(header, "Plural-Forms"))
    if declared:
        try:
            one = c2py(declared.group(2).strip())(1)
        except (ValueError, RecursionError):
            one = 0
        return max(1, int(declared.group(1))), one
    code = re.split(r"[-_.@]", language.lower())[0]
    return FORMS.get(code, (2, 0))


class PoFormat(DocumentFormat):
    name, suffixes = "po", (".po", ".pot")

    @override
    def encoding(self, start: bytes) -> str:
        declared = CHARSET.search(start)
        name = declared.group(1).decode("ascii") if declared else "utf-8"
        return "utf-8" if name == "CHARSET" else name

    @override
    def parse(self, text: str, file: str, languages: Languages) -> Document:
        segments, edits, header = list[Segment](), list[Edit](), ""
        end = "\r\n" if "\r\n" in text else "\n"
        for entry in po_entries(enumerate(re.findall(r"[^\n]*\n|[^\n]+$", text), start=1), file):
            if entry.is_header:
                header = entry.text("msgstr")
            elif not (entry.obsolete or entry.fuzzy or any(form.text for form in entry.forms)):
                language = header_field(header, "Language") or languages.target
                forms = plural_forms(header, language)
                edits += _edits(entry, text, forms, segments, end)
        return Document(text, segments, edits)


def _edits(entry: PoEntry, text: str, plurals: tuple[int, int], segments: list[Segment], end: str) -> Iterator[Edit]:
    first = len(segments)
    sources = [entry.fields[keyword] for keyword in ("msgid", "msgid_plural") if keyword in entry.fields]
    segments += [Segment(list(_atoms("".join(one.strings))), one.line, escape) for one in sources]
    if len(sources) == 1:
        form = entry.forms[0]
        yield Edit(form.keyword_end, form.end, first, _Written(sources[0], text, end))
        return
    count, one = plurals
    for number in range(count):
        which = 0 if number == one and count > 1 else 1
        written = _Written(sources[which], text, end)
        if number < len(entry.forms):
            form = entry.forms[number]
            yield Edit(form.keyword_end, form.end, first + which, written)
        else:
            written.before = f"{end}msgstr[{number}] "
            yield Edit(entry.forms[-1].end, entry.forms[-1].end, first + which, written)


class _Written:
    """Writes a translation like its source: unchanged as it is written there, otherwise a string for each line."""

    def __init__(self, source: PoField, text: str, end: str) -> None:
        self.source, self.end, self.before = source, end, ""
        self.layout = text[source.keyword_end : source.end]

    def __call__(self, raw: str) -> str:
        if raw == "".join(self.source.strings):
            return self.before + self.layout
        lines = re.findall(r".*?\\n|.+$", raw.replace("\\\\", "\0")) if "\\n" in raw else [raw]
        lines = [line.replace("\0", "\\\\") for line in lines]
        if len(lines) == 1 and len(self.source.strings) == 1:
            return f'{self.before}"{raw}"'
        return self.before + self.end.join(f'"{line}"' for line in ["", *lines])


def escape(sign: str) -> str:
    return {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}.get(sign, sign)


def _atoms(raw: str) -> Iterator[Atom]:
    """Text with its escapes; line breaks stay where they are."""
    behind = 0
    for match in ESCAPE.finditer(raw):
        if behind < match.start():
            yield Text(raw[behind : match.start()], raw[behind : match.start()])
        sign = unescape(match.group())
        is_text = sign in "\n\t" or (len(sign) == 1 and sign.isprintable())
        yield Text(sign, match.group()) if is_text else Protected(sign, match.group())
        behind = match.end()
    if behind < len(raw):
        yield Text(raw[behind:], raw[behind:])
