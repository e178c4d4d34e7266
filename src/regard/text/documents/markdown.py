"""Markdown (.md): paragraphs, headings, list items, quotations and table cells are translated.

Never translated: front matter, code blocks and spans, link targets and definitions, HTML tags, comments, templates.
"""

import re
from collections.abc import Iterator

from typing_extensions import override

from regard.text.documents.html import html_document
from regard.text.documents.registry import Document, DocumentFormat, Edit, Languages, Lines
from regard.text.documents.segments import Atom, Protected, Segment, Tag, Text

FRONT_MATTER = re.compile(r"(---|\+\+\+)[ \t]*\r?\n.*?^\1[ \t]*\r?$\n?", re.DOTALL | re.MULTILINE)
MARKER = re.compile(r"[ \t]*(?:>|[-+*](?=[ \t])|\d{1,9}[.)](?=[ \t])|#{1,6}(?=[ \t])|\[[ xX]\](?=[ \t]))[ \t]*")
"""What stands before the text of a quotation, list item or heading; several may follow each other."""
FENCE = re.compile(r"(?:[ \t]|>|[-+*][ \t]|\d{1,9}[.)][ \t])*(`{3,}|~{3,}|\$\$)")
INDENTED = re.compile(r"(?: {4}|\t)[ \t]*\S")
DEFINITION = re.compile(r"[ \t>]*\[[^\]]+\]:[ \t]*\S")
RULE = re.compile(
    r"[ \t>]*(?:(?:-[ \t]*){3,}|(?:\*[ \t]*){3,}|(?:_[ \t]*){3,}|=+[ \t]*|-+[ \t]*|\{[%#{<:].*[%#}>]\}[ \t]*)$"
)
TABLE_RULE = re.compile(r"[ \t>]*\|?(?:[ \t]*:?-+:?[ \t]*\|)+(?:[ \t]*:?-+:?[ \t]*)?$")
HTML_BLOCK = re.compile(r" {0,3}<(?:!--|[A-Za-z/?!])")
HARD_BREAK = re.compile(r"(?: {2,}|\\)$")
INLINE = re.compile(
    r"""
      (?P<escape>\\[!-/:-@\[-`{-~])
    | (?P<code>(?P<ticks>`+)(?!`)(?P<inside>.{1,1000}?)(?<!`)(?P=ticks)(?!`))
    | (?P<math>(?<![\w%])\$(?=\S)[^$\n]*?[\\^_{][^$\n]*?(?<=\S)\$(?![\w{]))
    | (?P<comment><!--.{0,1000}?-->)
    | (?P<auto><(?:[A-Za-z][\w+.-]*:[^\s<>]*|[^\s<>@]+@[^\s<>]+)>)
    | <(?P<close>/?)(?P<tag>[A-Za-z][\w-]*)(?:\s[^<>]*)?(?P<empty>/?)>
    | (?P<note>\[\^[^\]\s]+\]:?)
    | (?P<link>!?\[)
    | (?P<target>\]\((?:[^()\\]|\\.|\([^()]*\))*\)|\]\[[^\]]*\])
    | (?P<bracket>\])
    | (?P<mark>\*{1,3}|_{1,3}|~~)
    | (?P<entity>&(?:\#\d+|\#x[\da-fA-F]+|[A-Za-z]\w*);)
    | (?P<break>[ \t]*\r?\n(?:[ \t]|>)*)
    """,
    re.VERBOSE | re.DOTALL,
)
BEGINS = re.compile(r"(\d{1,9})([.)])(?=\s|$)|([-+*>]|#{1,6})(?=\s|$)|(>)")
SIGNS = "\\`*_[]<"


class MarkdownFormat(DocumentFormat):
    name, suffixes = "markdown", (".md", ".markdown", ".mdown", ".mkd")

    @override
    def parse(self, text: str, file: str, languages: Languages) -> Document:
        lines, segments, edits = Lines(text), list[Segment](), list[Edit]()
        for start, end, kind in _blocks(text):
            if kind == "html":
                inside = html_document(text[start:end], start, lines)
                edits += [Edit(one.start, one.end, one.segment + len(segments)) for one in inside.edits]
                segments += inside.segments
                continue
            for begin, stop in _cells(text, start, end) if kind == "table" else [(start, end)]:
                raw = text[begin:stop]
                edits.append(Edit(begin, stop, len(segments), _Written(raw)))
                segments.append(Segment(list(_atoms(raw)), lines.at(begin), _escape))
        return Document(text, segments, edits)


class _Written:
    """A paragraph as it is, unless its first word would make it a list, a heading or a quotation."""

    def __init__(self, source: str) -> None:
        self.source = source

    def __call__(self, raw: str) -> str:
        match = BEGINS.match(raw)
        if match is None or BEGINS.match(self.source):
            return raw
        at = match.end(1) if match.group(1) else 0
        return f"{raw[:at]}\\{raw[at:]}"


def _escape(sign: str) -> str:
    return f"\\{sign}" if sign in SIGNS else sign


def _blocks(text: str) -> Iterator[tuple[int, int, str]]:
    """Start, end and kind of each text: a paragraph, the row of a table, or HTML up to a blank line."""
    front = FRONT_MATTER.match(text)
    position = front.end() if front else 0
    start = end = position  # of the paragraph so far
    fence, kind, was_blank, in_list = "", "text", True, False
    for line in re.findall(r"[^\n]*\n|[^\n]+$", text[position:]):
        here, body = position, line.rstrip("\r\n")
        position += len(line)
        marker = _marker_end(body)
        opened = FENCE.match(body)
        is_fence = opened is not None and not (fence and not opened.group(1).startswith(fence))
        whole = bool(fence) or is_fence or _is_structure(body)
        whole = whole or (INDENTED.match(body) and was_blank and not in_list)
        if kind == "html" and start < end and body.strip():
            is_over = text.startswith("<!--", start) and "-->" in body  # a comment
            start, end = (position, position) if is_over else (start, here + len(body))
            continue
        begins = marker > 0 and not _is_continuation(body, marker)
        if start < end and (whole or begins or kind == "table"):
            yield start, end, kind
            start = end
        if opened and is_fence:
            closes = bool(fence) or body.count(opened.group(1)) > 1
            fence = "" if closes else opened.group(1)
        in_list = (in_list and not (body.strip() and body[0] not in " \t")) or bool(
            re.match(r"[ \t>]*(?:[-+*]|\d+[.)])[ \t]", body)
        )
        was_blank = not body.strip()
        if whole:
            start = end = position
            continue
        if start == end:
            start = here + (marker if begins else len(body) - len(body.lstrip(" \t>")))
            kind = "html" if HTML_BLOCK.match(body) else "table" if _is_row(body) else "text"
        end = here + len(body.rstrip())
        if kind == "text" and (HARD_BREAK.search(body) or body.lstrip(" >").startswith("#")):
            stop = here + len(body.rstrip().removesuffix("\\").rstrip())
            if start < stop:
                yield start, stop, kind
            start = end = position
    if start < end:
        yield start, end, kind


def _is_structure(body: str) -> bool:
    """Whether a line has no text: blank, a rule, a link definition, a comment."""
    is_comment = body.lstrip().startswith("<!--") and body.rstrip().endswith("-->")
    return is_comment or not body.strip("> \t") or any(one.match(body) for one in (DEFINITION, RULE, TABLE_RULE))


def _marker_end(body: str) -> int:
    """Where the text of a line begins, behind the signs of lists, quotations and headings."""
    end = 0
    while match := MARKER.match(body, end):
        end = match.end()
    return end


def _is_continuation(body: str, marker: int) -> bool:
    """Whether a line has no marker but those of the quotation it is in."""
    return not body[:marker].strip("> \t")


def _is_row(body: str) -> bool:
    return body.lstrip(" \t>").startswith("|") and body.count("|") > 1


def _cells(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    for match in re.finditer(r"(?:[^|\\`]|\\.|`[^`]*`|`)+", text[start:end]):
        cell = match.group().strip()
        if cell:
            begin = start + match.start() + match.group().index(cell)
            yield begin, begin + len(cell)


def _atoms(raw: str) -> Iterator[Atom]:
    behind, links, marks = 0, _links(raw), _marks(raw)
    for match in INLINE.finditer(raw):
        atom = _atom(match, links, marks)
        if atom is None:
            continue
        if behind < match.start():
            yield Text(raw[behind : match.start()], raw[behind : match.start()])
        yield atom
        behind = match.end()
    if behind < len(raw):
        yield Text(raw[behind:], raw[behind:])


def _atom(match: "re.Match[str]", links: dict[int, str], marks: dict[int, str]) -> Atom | None:
    """What an inline construct is; None where it is text."""
    raw, start = match.group(), match.start()
    if match["escape"]:
        return Text(raw[1], raw)
    if match["code"]:
        return Protected(match["inside"].strip(), raw)
    if match["math"] or match["auto"] or match["entity"]:
        return Protected(raw.strip("<>"), raw)
    if match["comment"] or match["note"]:
        return Tag(raw)
    if match["tag"]:
        kind = "alone" if match["empty"] else "close" if match["close"] else "open"
        return Tag(raw, kind, match["tag"].lower())
    if match["link"] or match["target"]:
        kind = links.get(start)
        return Tag(raw, "open" if kind == "open" else "close", "[") if kind else None
    if match["mark"] and start in marks:
        return Tag(raw, "open" if marks[start] == "open" else "close", raw)
    return Text(" ", raw) if match["break"] else None


def _links(raw: str) -> dict[int, str]:
    """Which brackets are those of links and images, by their positions."""
    kinds, stack = dict[int, str](), list[int]()
    for match in INLINE.finditer(raw):
        if match["link"]:
            stack.append(match.start())
        elif match["target"] and stack:
            kinds[stack.pop()], kinds[match.start()] = "open", "close"
        elif match["bracket"] and stack:
            stack.pop()
    return kinds


def _marks(raw: str) -> dict[int, str]:
    """Which stars, underscores and tildes open and close emphasis, by their positions."""
    kinds, stack = dict[int, str](), list[tuple[int, str]]()
    for match in INLINE.finditer(raw):
        if not match["mark"]:
            continue
        before, after, sign = raw[match.start() - 1 : match.start()], raw[match.end() : match.end() + 1], match.group()
        inside_word = sign[0] == "_" and before.isalnum() and after.isalnum()
        opened = next((i for i, (_, other) in enumerate(stack) if other == sign), None)
        if opened is not None and before and not before.isspace() and not inside_word:
            kinds[stack[opened][0]], kinds[match.start()] = "open", "close"
            del stack[opened:]
        elif after and not after.isspace() and not inside_word and not (sign[0] == "_" and before.isalnum()):
            stack.append((match.start(), sign))
    return kinds
