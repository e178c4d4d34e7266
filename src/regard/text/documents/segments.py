"""Segments: the texts of a document with the markup inside them, and how their translations get it back.

A sentence is translated as a whole, without its tags. Its placeholders must be in the output, and the translation of
what each pair of tags encloses must be found in it; otherwise the pieces between tags and placeholders are translated
one by one, and everything keeps the order of the source. So nothing is ever lost, whatever a model generates.
"""

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Literal

from regard.text.documents.placeholders import MARKUP, PLACEHOLDER, survive

Spans = Callable[[str], list[tuple[int, int]]]
"""Start and end of each input of the model in a text."""
Request = tuple[str, int]
"""A text for the model, and the line that it is from."""
Results = Sequence[str | None]
"""The translation of each request; None or nothing where there is none: then the source stays."""
MAX_PAIRS = 50
"""Pairs of tags in a sentence that are looked for in its translation."""
STRUCTURE = re.compile(r"[-+*#>=|~`:]|\d+[.)]")
"""What would begin something else than text at the start of a Markdown line."""


@dataclass(frozen=True, slots=True)
class Text:
    """Characters to translate. Where they are written otherwise (`&amp;`), it is a single one."""

    text: str
    raw: str


@dataclass(frozen=True, slots=True)
class Protected:
    """What stays as it is: a placeholder, a code span; the model reads its text."""

    text: str
    raw: str


@dataclass(frozen=True, slots=True)
class Tag:
    """Markup without text."""

    raw: str
    kind: Literal["open", "close", "alone"] = "alone"
    name: str = ""
    """Equal for the two tags of a pair."""
    text = ""


Atom = Text | Protected | Tag


@dataclass(frozen=True)
class Segment:
    """A text of a document: its atoms, the line it begins in, and how other characters are written."""

    atoms: Sequence[Atom]
    line: int
    escape: Callable[[str], str] = str

    @property
    def raw(self) -> str:
        return raw_of(self.atoms)

    @cached_property
    def spellings(self) -> tuple[dict[str, str], set[str]]:
        """How characters are written that are not written as themselves, and those that are."""
        texts = [atom for atom in self.atoms if isinstance(atom, Text)]
        table = {atom.text: atom.raw for atom in texts if atom.text != atom.raw and "\n" not in atom.raw}
        return table, {sign for atom in texts if atom.text == atom.raw for sign in atom.text}


def raw_of(atoms: Iterable[Atom]) -> str:
    return "".join(atom.raw for atom in atoms)


def text_of(atoms: Iterable[Atom]) -> str:
    return "".join(atom.text for atom in atoms)


def has_words(atoms: Iterable[Atom]) -> bool:
    return any(isinstance(atom, Text) and any(map(str.isalpha, atom.text)) for atom in atoms)


def translate_segments(segments: Sequence[Segment], spans: Spans) -> Generator[list[Request], Results, list[str]]:
    """Yields what the model must translate, in two batches at most; returns the segments' translations."""
    parts = [_parts(segment, spans) for segment in segments]
    sentences = [part for row in parts for part in row if isinstance(part, _Sentence)]
    yield from _ask(sentences, lambda sentence: sentence.whole())
    for sentence in sentences:
        sentence.assemble()
    yield from _ask([one for one in sentences if one.output is None], lambda sentence: sentence.pieces())
    return ["".join(part if isinstance(part, str) else part.result() for part in row) for row in parts]


def _ask(
    sentences: "Sequence[_Sentence]", texts_of: "Callable[[_Sentence], list[str]]"
) -> Generator[list[Request], Results, None]:
    """Sends equal texts only once."""
    texts = [texts_of(sentence) for sentence in sentences]
    lines = {text: sentence.segment.line for sentence, row in zip(sentences, texts, strict=True) for text in row[::-1]}
    results: Results = (yield list(lines.items())) if lines else []
    translated = dict(zip(lines, results, strict=True))
    for sentence, row in zip(sentences, texts, strict=True):
        sentence.translated |= {text: translated[text] for text in row}


def _parts(segment: Segment, spans: Spans) -> "list[str | _Sentence]":
    """A segment as sentences and, as they are written, the white space and tags between them."""
    atoms = protect(segment.atoms)
    if not has_words(atoms):
        return [segment.raw]
    lines = re.finditer(r"[^\n]+", text_of(atoms))
    inputs = [(line.start() + start, line.start() + end) for line in lines for start, end in spans(line.group())]
    sentences = _whole_spans(inputs, atoms)
    atoms = _cut_at({edge for span in sentences for edge in span}, atoms)
    partners, starts = _partners(atoms), _starts(atoms)
    parts, behind = list[str | _Sentence](), 0
    for start, end in sentences:
        reached = range(bisect_left(starts, start), bisect_left(starts, end))
        inside = [i for i in reached if atoms[i].text]
        first, last = inside[0], inside[-1]
        edges = [partners[i] for i in range(first, last) if i in partners]  # tags just before or behind the sentence
        while first > behind and isinstance(atoms[first - 1], Tag) and any(edge < first for edge in edges):
            first -= 1
        while last + 1 < len(atoms) and isinstance(atoms[last + 1], Tag) and any(edge > last for edge in edges):
            last += 1
        parts += [raw_of(atoms[behind:first]), _Sentence(segment, atoms[first : last + 1])]
        behind = last + 1
    return [*parts, raw_of(atoms[behind:])]


def protect(atoms: Iterable[Atom]) -> list[Atom]:
    """The same atoms, with placeholders in their texts protected."""
    protected, run = list[Atom](), list[Text]()
    for atom in [*atoms, Tag("")]:
        if isinstance(atom, Text):
            run.append(atom)
            continue
        if run:
            protected += _protect_run(run)
            run = []
        protected.append(atom)
    return protected[:-1]


def _protect_run(run: Sequence[Text]) -> Iterator[Atom]:
    text = text_of(run)
    tags = {match.start(): match for match in MARKUP.finditer(text)}
    spans = sorted(match.span() for match in tags.values())
    inside = {position for start, end in spans for position in range(start, end)}
    spans += [match.span() for match in PLACEHOLDER.finditer(text) if inside.isdisjoint(range(*match.span()))]
    if not spans:
        yield from run
        return
    pieces = _cut_at({edge for span in spans for edge in span}, run)
    starts, ends = _starts(pieces), dict(spans)
    index = 0
    while index < len(pieces):
        end = ends.get(starts[index], 0)
        stop = next((i for i in range(index, len(pieces)) if starts[i] >= end), len(pieces)) if end else index + 1
        whole = pieces[index:stop]
        tag = tags.get(starts[index])
        if tag is not None:
            kind = "alone" if tag[3] else "close" if tag[1] else "open"
            yield Tag(raw_of(whole), kind, tag[2].lower())
        else:
            yield Protected(text_of(whole), raw_of(whole)) if end else pieces[index]
        index = stop


def _starts(atoms: Sequence[Atom]) -> list[int]:
    """The position of each atom in the text of all."""
    starts = [0]
    for atom in atoms:
        starts.append(starts[-1] + len(atom.text))
    return starts[:-1]


def _cut_at(edges: set[int], atoms: Sequence[Atom]) -> list[Atom]:
    """The same atoms, cut at these positions of their text."""
    cut, ordered = list[Atom](), sorted(edges)
    for atom, start in zip(atoms, _starts(atoms), strict=True):
        first, last = bisect_right(ordered, start), bisect_left(ordered, start + len(atom.text))
        inside = [edge - start for edge in ordered[first:last]]
        if not inside or not isinstance(atom, Text) or atom.text != atom.raw:
            cut.append(atom)
            continue
        bounds = [0, *inside, len(atom.text)]
        cut += [Text(atom.text[a:b], atom.text[a:b]) for a, b in pairwise(bounds)]
    return cut


def _whole_spans(spans: Sequence[tuple[int, int]], atoms: Sequence[Atom]) -> list[tuple[int, int]]:
    """The spans, those joined between which a protected atom would be cut."""
    inside = set[int]()
    for atom, start in zip(atoms, _starts(atoms), strict=True):
        if isinstance(atom, Protected):
            inside.update(range(start + 1, start + len(atom.text)))
    whole = list[tuple[int, int]]()
    for start, end in spans:
        if whole and (start in inside or whole[-1][1] in inside):
            whole[-1] = (whole[-1][0], end)
        else:
            whole.append((start, end))
    return whole


def _partners(atoms: Sequence[Atom]) -> dict[int, int]:
    """The index of the other tag of each pair, both ways; pairs that cross others are none."""
    partners, stack, names, opened = dict[int, int](), list[int](), list[str](), Counter[str]()
    for index, atom in enumerate(atoms):
        if not isinstance(atom, Tag) or atom.kind == "alone":
            continue
        if atom.kind == "open":
            stack.append(index)
            names.append(atom.name)
            opened[atom.name] += 1
            continue
        while opened[atom.name]:
            other = stack.pop()
            name = names.pop()
            opened[name] -= 1
            if name == atom.name:
                partners[other], partners[index] = index, other
                break
    return partners


@dataclass
class _Sentence:
    """A sentence of a segment: what is asked of the model for it, and what becomes of the outputs."""

    segment: Segment
    atoms: Sequence[Atom]
    translated: dict[str, str | None] = field(default_factory=dict)
    output: str | None = None

    def __post_init__(self) -> None:
        self.text = text_of(self.atoms)
        self.partners = _partners(self.atoms)
        tags = [i for i, atom in enumerate(self.atoms) if isinstance(atom, Tag) or not atom.text]
        self.pairs = [(i, self.partners[i]) for i in tags if self.partners.get(i, -1) > i]
        filled = all(text_of(self.atoms[i:j]).strip() for i, j in self.pairs[: MAX_PAIRS + 1])
        self.is_simple = len(self.pairs) * 2 == len(tags) and len(self.pairs) <= MAX_PAIRS and filled
        """Whether all tags are pairs around words, inside the sentence."""
        if not has_words(self.atoms):
            self.output = raw_of(self.atoms)

    def whole(self) -> list[str]:
        """The sentence, and what each pair of tags encloses."""
        if self.output is not None or not self.is_simple:
            return []
        return [self.text, *(text_of(self.atoms[i:j]).strip() for i, j in self.pairs if not self._is_all(i, j))]

    def pieces(self) -> list[str]:
        """The texts between tags and placeholders."""
        return [piece for run in self._runs() if not isinstance(run, Tag | Protected) and (piece := _stripped(run))]

    def assemble(self) -> None:
        """Sets the output where the model's can be used."""
        if self.output is not None or not self.is_simple:
            return
        result = self.translated[self.text]
        if not result or result == self.text:
            self.output = raw_of(self.atoms)
            return
        result = _one_line(result)
        protected = self._protected(result)
        tags = self._tags(result) if protected is not None else None
        if protected is not None and tags is not None and not _crosses(tags, protected):
            self.output = self._write(result, protected, tags)

    def result(self) -> str:
        """The output, or that of the pieces."""
        if self.output is not None:
            return self.output
        parts = list[str]()
        for run in self._runs():
            if isinstance(run, Tag | Protected):
                parts.append(run.raw)
                continue
            piece, text, raw = _stripped(run), text_of(run), raw_of(run)
            result = self.translated.get(piece) if piece else None
            if not result or result == piece or PLACEHOLDER.search(result) or MARKUP.search(result):
                parts.append(raw)
                continue
            lead = len(text) - len(text.lstrip())
            head, middle, tail = _divided(run, lead, lead + len(piece))
            parts += [raw_of(head), self._write(_one_line(result), {}, {}, middle), raw_of(tail)]
        return "".join(parts)

    def _runs(self) -> Iterator[list[Atom] | Tag | Protected]:
        run = list[Atom]()
        for atom in self.atoms:
            if isinstance(atom, Text):
                run.append(atom)
                continue
            if run:
                yield run
            run = []
            yield atom
        if run:
            yield run

    def _is_all(self, first: int, last: int) -> bool:
        """Whether a pair of tags encloses all words of the sentence."""
        return not has_words([*self.atoms[:first], *self.atoms[last:]])

    def _protected(self, result: str) -> dict[int, Protected] | None:
        """Where the protected atoms are in the output; None where one of them is missing or doubtful."""
        atoms = [atom for atom in self.atoms if isinstance(atom, Protected) and atom.text]
        placeholders = [atom.text for atom in atoms if PLACEHOLDER.fullmatch(atom.text)]
        if MARKUP.search(result) or not survive(placeholders, result):
            return None
        positions = dict[int, Protected]()
        for text, count in Counter(atom.text for atom in atoms).items():
            raws = iter([atom for atom in atoms if atom.text == text])
            pattern = re.compile(rf"(?<!\w){re.escape(text)}(?!\w)" if text not in placeholders else re.escape(text))
            matches = list(pattern.finditer(result))
            if len(matches) != count or len(list(pattern.finditer(self.text))) != count:
                return None
            positions |= {match.start(): next(raws) for match in matches}
        ordered = sorted(positions.items())
        overlap = any(start + len(atom.text) > after for (start, atom), (after, _) in pairwise(ordered))
        return None if overlap else positions

    def _tags(self, result: str) -> dict[int, list[str]] | None:
        """The tags before each position of the output; None where the words of a pair are not found."""
        tags, regions = dict[int, list[str]](), {-1: (0, len(result))}
        opened, cursor = [-1], {-1: 0}
        for index, atom in enumerate(self.atoms):
            if not isinstance(atom, Tag):
                continue
            if atom.kind == "close":
                tags.setdefault(regions[self.partners[index]][1], []).append(atom.raw)
                opened.pop()
                continue
            parent = opened[-1]
            region = self._region(index, result, cursor[parent], regions[parent][1])
            if region is None:
                return None
            regions[index], cursor[parent], cursor[index] = region, region[1], region[0]
            tags.setdefault(region[0], []).append(atom.raw)
            opened.append(index)
        return tags

    def _region(self, index: int, result: str, start: int, end: int) -> tuple[int, int] | None:
        """Where the words of a pair of tags are in the output, between two positions."""
        last = self.partners[index]
        if self._is_all(index, last):
            before, behind = text_of(self.atoms[:index]).strip(), text_of(self.atoms[last:]).strip()
            while before and start < end and not result[start].isalnum():
                start += 1
            while behind and end > start and not result[end - 1].isalnum():
                end -= 1
            return (start, end) if start < end else None
        source = text_of(self.atoms[index:last]).strip()
        words = self.translated[source] or ""
        if not source.endswith((".", "!", "?")):
            words = words.rstrip(".!?。！？")
        pattern = re.compile(rf"(?<!\w){re.escape(words.strip())}(?!\w)", re.IGNORECASE)
        matches = list(pattern.finditer(result, start, end)) if words.strip() else []
        return matches[0].span() if len(matches) == 1 else None

    def _write(
        self,
        result: str,
        protected: dict[int, Protected],
        tags: dict[int, list[str]],
        atoms: "Sequence[Atom] | None" = None,
    ) -> str:
        """An output as the document writes it, with line breaks about where the source has them."""
        atoms = self.atoms if atoms is None else atoms
        table, unescaped = self.segment.spellings
        breaks = _breaks(atoms, result, protected)
        parts, position = list[str](), 0
        while position <= len(result):
            parts += tags.get(position, [])
            if position == len(result):
                break
            if position in protected:
                parts.append(protected[position].raw)
                position += len(protected[position].text)
                continue
            sign = result[position]
            escaped = table.get(sign) or self.segment.escape(sign)
            keeps = sign in unescaped and sign not in "<&" and sign not in table
            parts.append(breaks.get(position) or (sign if keeps else escaped))
            position += 1
        return "".join(parts)


def _crosses(tags: Iterable[int], protected: dict[int, Protected]) -> bool:
    """Whether a tag would be inside something protected."""
    return any(start < tag < start + len(atom.text) for start, atom in protected.items() for tag in tags)


def _stripped(run: Sequence[Atom]) -> str:
    """The text of a run without the white space around it; empty where it has no word."""
    return text_of(run).strip() if has_words(run) else ""


def _divided(run: Sequence[Atom], start: int, end: int) -> tuple[list[Atom], list[Atom], list[Atom]]:
    atoms = _cut_at({start, end}, run)
    starts = _starts(atoms)
    first = next(i for i, position in enumerate(starts) if position >= start)
    last = next((i for i, position in enumerate(starts) if position >= end), len(atoms))
    return atoms[:first], atoms[first:last], atoms[last:]


def _one_line(result: str) -> str:
    return " ".join(result.split("\n")).replace("\r", "").strip()


def _breaks(atoms: Sequence[Atom], result: str, protected: dict[int, Protected]) -> dict[int, str]:
    """The line breaks inside a sentence, at the spaces of its output nearest to their relative positions."""
    size = max(1, len(text_of(atoms)))
    soft = [(start / size, atom.raw) for atom, start in zip(atoms, _starts(atoms), strict=True)
            if isinstance(atom, Text) and atom.text == " " and "\n" in atom.raw]  # fmt: skip
    if not soft:
        return {}
    inside = {i for start, atom in protected.items() for i in range(start, start + len(atom.text))}
    spaces = [match.start() for match in re.finditer(" ", result)
              if match.start() not in inside and not STRUCTURE.match(result, match.end())]  # fmt: skip
    breaks = dict[int, str]()
    for share, raw in soft:
        if free := [space for space in spaces if space > max(breaks, default=-1)]:
            breaks[min(free, key=lambda space: abs(space - share * len(result)))] = raw
    return breaks
