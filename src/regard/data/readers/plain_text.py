"""Plain text: the lines of one file, or two files aligned line by line."""

from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from typing_extensions import override

from regard.config import refuse
from regard.data.examples import Pair, PairBlock, SourceLocation, Text
from regard.data.findings import Findings
from regard.data.lines import line_blocks, lines
from regard.data.readers.registry import FileFormat, FileSource


class TextFormat(FileFormat):
    name = "text"
    layout = "text"
    line_based = True

    @override
    def check(self, source: FileSource) -> None:
        if source.columns:
            first = "text" if source.source is None else "source"
            raise refuse(first, "plain text has no columns to name; for a table, say format = 'tsv'")

    @override
    def examples(self, source: FileSource, file: Path, findings: Findings) -> Iterator[Text]:
        return self.untyped_examples(file, findings)

    @override
    def untyped_examples(self, file: Path, findings: Findings) -> Iterator[Text]:
        for number, text, end in lines(file, findings):
            yield Text(text, SourceLocation(str(file), number), "\n" if end else "")


def aligned_pairs(source: Path, target: Path, findings: Findings) -> Iterator[Pair]:
    """Pairs of two text files, line by line; lines left over in one of them are an error."""
    return chain.from_iterable(aligned_blocks(source, target, findings))


def aligned_blocks(source: Path, target: Path, findings: Findings) -> Iterator[PairBlock]:
    """The same pairs, many at a time."""
    files = str(source), str(target)
    sources, targets = _Lines(source, findings), _Lines(target, findings)
    while sources.fill() and targets.fill():
        number, line = min(sources.left, targets.left), sources.line
        yield PairBlock(sources.take(number), targets.take(number), range(line, line + number), files)
    if sources.left:
        _report_unequal(source, target, sources, findings)
    elif targets.fill():
        _report_unequal(target, source, targets, findings)


class _Lines:
    """The lines of a file, as many at a time as are asked for."""

    def __init__(self, file: Path, findings: Findings) -> None:
        self._blocks = line_blocks(file, findings)
        self._texts, self._position = list[str](), 0
        self.line = 1
        """The number of the next line."""

    @property
    def left(self) -> int:
        """How many lines are read and not yet taken."""
        return len(self._texts) - self._position

    def fill(self) -> bool:
        """Reads on where no line is left; false at the end of the file."""
        if not self.left:
            block = next(self._blocks, None)
            self._texts, self._position = block.texts if block else [], 0
        return self.left > 0

    def take(self, number: int) -> list[str]:
        texts = self._texts[self._position : self._position + number]
        self._position += number
        self.line += number
        return texts

    def count(self) -> int:
        """The number of lines of the file, read to its end."""
        return self.line - 1 + self.left + sum(len(block.texts) for block in self._blocks)


def _report_unequal(longer: Path, shorter: Path, rest: _Lines, findings: Findings) -> None:
    first, total = rest.line, rest.count()
    if str(shorter) not in findings.unreadable:
        problem = f"no partner for this line: {shorter} has {first - 1:,} lines, {longer} has {total:,}"
        findings.add_once("alignment", longer, first, problem)
