"""SubRip subtitles (.srt): numbers and timings stay, and so does the number of lines of each subtitle."""

import re
from collections.abc import Iterator

from typing_extensions import override

from regard.errors import DataError
from regard.text.documents.registry import Document, DocumentFormat, Edit, Languages, Lines
from regard.text.documents.segments import Atom, Segment, Tag, Text

TIMING = re.compile(r"^[^\S\n]*\d+:\d\d:\d\d[,.]\d+\s*-->\s*\d+:\d\d:\d\d[,.]\d+[^\n]*$", re.MULTILINE)
CUE = re.compile(r"(?:[^\S\n]*\S[^\n]*\n?)+")
TOKEN = re.compile(r"<(/?)([A-Za-z]\w*)[^<>\n]*>|\{\\[^{}\n]*\}|\{[yY]:[^{}\n]*\}|[^\S\n]*\n[^\S\n]*")
SPEAKER = re.compile(r"[^\S\n]*[-–—‐][^\S\n]*")


class SubRipFormat(DocumentFormat):
    name, suffixes = "srt", (".srt",)

    @override
    def parse(self, text: str, file: str, languages: Languages) -> Document:
        lines, segments, edits = Lines(text), list[Segment](), list[Edit]()
        timings = list(TIMING.finditer(text))
        if text.strip() and not timings:
            raise DataError(file, "no timing such as 00:00:01,000 --> 00:00:02,500; is it a SubRip file?")
        for timing in timings:
            cue = CUE.match(text, timing.end() + 1)
            if cue is None:
                continue
            for start, end in _speeches(text, cue.start(), cue.end()):
                edits.append(Edit(start, end, len(segments)))
                segments.append(Segment(list(_atoms(text[start:end])), lines.at(start)))
        return Document(text, segments, edits)


def _speeches(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """The texts of a subtitle: all its lines together, or each of those that begin with a dash."""
    starts = [start]
    for match in re.finditer("\n", text[start:end]):
        if SPEAKER.match(text, start + match.end()):
            starts.append(start + match.end())
    for first, stop in zip(starts, [*starts[1:], end], strict=True):
        dash = SPEAKER.match(text, first)
        first = dash.end() if dash else first
        stop = first + len(text[first:stop].rstrip())
        if first < stop:
            yield first, stop


def _atoms(raw: str) -> Iterator[Atom]:
    behind = 0
    for match in TOKEN.finditer(raw):
        if behind < match.start():
            yield Text(raw[behind : match.start()], raw[behind : match.start()])
        if match.group().isspace():
            yield Text(" ", match.group())
        elif match.group(2):
            yield Tag(match.group(), "close" if match.group(1) else "open", match.group(2).lower())
        else:
            yield Tag(match.group())
        behind = match.end()
    if behind < len(raw):
        yield Text(raw[behind:], raw[behind:])
