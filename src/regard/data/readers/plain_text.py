"""Plain text: the lines of one file, or two files aligned line by line."""

from collections.abc import Iterator
from pathlib import Path

from typing_extensions import override

from regard.config import refuse
from regard.data.examples import Pair, SourceLocation, Text
from regard.data.findings import Findings
from regard.data.lines import Line, lines
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
    sources, targets = lines(source, findings), lines(target, findings)
    for line in sources:
        partner = next(targets, None)
        if partner is None:
            return _report_unequal(source, target, line, sources, findings)
        number, text, _ = line
        yield Pair(text, partner[1], SourceLocation(str(source), number), SourceLocation(str(target), number))
    extra = next(targets, None)
    if extra is not None:
        _report_unequal(target, source, extra, targets, findings)


def _report_unequal(longer: Path, shorter: Path, first: Line, rest: Iterator[Line], findings: Findings) -> None:
    total = first[0] + sum(1 for _ in rest)
    if str(shorter) not in findings.unreadable:
        problem = f"no partner for this line: {shorter} has {first[0] - 1:,} lines, {longer} has {total:,}"
        findings.add_once("alignment", longer, first[0], problem)
