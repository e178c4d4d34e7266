"""From a source to its examples, one at a time: memory does not grow with the file.

Errors raise DataError with file and line; warnings are counted in the `Findings` that a caller may pass:

    findings = Findings()
    for pair in read_pairs(SourceConfig(source="train.en.gz", target="train.de.gz"), findings=findings):
        ...
    print(*findings.summaries(), sep="\\n")
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import cast

from regard.data.check.anomalies import inspected
from regard.data.examples import (
    DescribedPicture,
    Example,
    Labelled,
    LabelledPicture,
    Pair,
    SourceLocation,
    Tagged,
    Text,
    fingerprint,
)
from regard.data.findings import Findings
from regard.data.held_out import divided
from regard.data.readers.columns import ColumnError, as_label, as_text, pick
from regard.data.readers.conllu import rendered_sentences, tagged_sentences
from regard.data.readers.hub import hub_records
from regard.data.readers.images import picture_in, read_pictures
from regard.data.readers.lines import Line, lines, unreadable
from regard.data.readers.records import json_records, parquet_records
from regard.data.readers.tables import table_cells, table_rows
from regard.data.sources import Content, DividedSource, SourceConfig, parse_part

HERE = Path()


def read_pairs(source: SourceConfig, base: Path = HERE, findings: Findings | None = None) -> Iterator[Pair]:
    """The pairs of a source; ConfigError where it holds something else."""
    source.require("pairs")
    return cast(Iterator[Pair], read_examples(source, base, findings))


def read_labelled(source: SourceConfig, base: Path = HERE, findings: Findings | None = None) -> Iterator[Labelled]:
    """The labelled texts of a source; ConfigError where it holds something else."""
    source.require("labelled")
    return cast(Iterator[Labelled], read_examples(source, base, findings))


def read_texts(source: SourceConfig, base: Path = HERE, findings: Findings | None = None) -> Iterator[Text]:
    """The documents of a source, or the lines of its running text; ConfigError where it holds something else."""
    source.require("text")
    return cast(Iterator[Text], read_examples(source, base, findings))


def read_tagged(source: SourceConfig, base: Path = HERE, findings: Findings | None = None) -> Iterator[Tagged]:
    """The tagged sentences of a source; ConfigError where it holds something else."""
    source.require("tagged")
    return cast(Iterator[Tagged], read_examples(source, base, findings))


def read_examples(source: SourceConfig, base: Path = HERE, findings: Findings | None = None) -> Iterator[Example]:
    """Whatever a source holds; relative files lie below `base`, the folder of the recipe."""
    findings = Findings() if findings is None else findings
    file = next(iter(source.files(base)), source.hub or f"street/{source.street}")
    return inspected(islice(_part(source, base, findings), source.limit), findings, file, source.part)


def _part(source: SourceConfig, base: Path, findings: Findings) -> Iterator[Example]:
    """The examples of the asked part. A part by position needs the length, so the file is read twice."""
    whole = partial(_whole, source, base, findings)
    if isinstance(source, DividedSource):
        limited = lambda: islice(whole(), source.limit)  # noqa: E731
        yield from divided(limited, source.held_out, source.is_running_text, source.share)
    elif source.part is None:
        yield from whole()
    elif source.shuffle:
        chosen = parse_part(source.part).of(1 << 64)
        yield from (example for example in whole() if fingerprint(example.key) in chosen)
    else:
        size = _characters if source.is_running_text else _one
        chosen = parse_part(source.part).of(sum(map(size, whole())))
        yield from _stretch(whole(), chosen, size)


def _stretch(examples: Iterator[Example], chosen: range, size: Callable[[Example], int]) -> Iterator[Example]:
    """The examples that begin within the chosen positions."""
    position = 0
    for example in examples:
        if position >= chosen.stop:
            return
        if position in chosen:
            yield example
        position += size(example)


def _one(_: Example) -> int:
    return 1


def _characters(example: Example) -> int:
    return len(cast(Text, example).text) + len(cast(Text, example).end)


def _whole(source: SourceConfig, base: Path, findings: Findings) -> Iterator[Example]:
    """All examples of a source, before any part or limit."""
    files = source.files(base)
    if unreadable(files, findings):
        return iter(())
    match source.origin:
        case "files":
            return aligned_pairs(files[0], files[1], findings)
        case "file" if source.is_treebank:
            return _treebank(source, files[0], findings)
        case "file":
            return running_text(files[0], findings) if source.is_running_text else _rows(source, files[0], findings)
        case "hub":
            records = hub_records(str(source.hub), source.config, str(source.split), base, findings)
            return _examples(_picked(records, source.columns, findings), source.content, source.columns, findings)
        case "street":
            return _street(source)
        case "images":
            return read_pictures(files[0], files[1] if source.labels else None, findings)


def aligned_pairs(source: Path, target: Path, findings: Findings) -> Iterator[Pair]:
    """Pairs of two text files, line by line; lines left over in one of them are an error."""
    sources, targets = lines(source, findings), lines(target, findings)
    for line in sources:
        other = next(targets, None)
        if other is None:
            return _report_unequal(source, target, line, sources, findings)
        number, text, _ = line
        yield Pair(text, other[1], SourceLocation(str(source), number), SourceLocation(str(target), number))
    extra = next(targets, None)
    if extra is not None:
        _report_unequal(target, source, extra, targets, findings)


def _report_unequal(longer: Path, shorter: Path, first: Line, rest: Iterator[Line], findings: Findings) -> None:
    total = first[0] + sum(1 for _ in rest)
    if str(shorter) not in findings.unreadable:
        problem = f"no partner for this line: {shorter} has {first[0] - 1:,} lines, {longer} has {total:,}"
        findings.add_once("alignment", longer, first[0], problem)


def running_text(file: Path, findings: Findings) -> Iterator[Text]:
    """The lines of a plain text."""
    for number, text, end in lines(file, findings):
        yield Text(text, SourceLocation(str(file), number), "\n" if end else "")


def _street(source: SourceConfig) -> Iterator[Pair]:
    from regard.data import street  # here, as most runs never read the embedded corpus

    split = source.street or "train"
    size = source.limit if source.part is None else None
    seed = 1 if source.seed is None else source.seed
    for number, (english, german) in enumerate(street.pairs(split, size=size, seed=seed), start=1):
        yield Pair(english, german, SourceLocation(f"street/{split}", number))


def _treebank(source: SourceConfig, file: Path, findings: Findings) -> Iterator[Example]:
    if source.columns:
        return rendered_sentences(file, source.columns, findings)
    return tagged_sentences(file, source.tags or "upos", findings)


def _rows(source: SourceConfig, file: Path, findings: Findings) -> Iterator[Example]:
    match source.file_format:
        case "tsv" | "csv":
            cells = table_cells(file, source.separator, findings)
            header = source.header if source.header is not None or not source.has_header else True
            rows = table_rows(cells, source.columns, header, findings, source.label)
        case "parquet":
            rows = _picked(parquet_records(file, source.columns, findings), source.columns, findings)
        case _:
            rows = _picked(json_records(file, findings), source.columns, findings)
    return _examples(rows, source.content, source.columns, findings)


def _picked(
    records: Iterator[tuple[object, SourceLocation]], columns: list[str | int], findings: Findings
) -> Iterator[tuple[list[object], SourceLocation]]:
    for record, location in records:
        try:
            values = [pick(record, column) for column in columns]
        except ColumnError as problem:
            findings.add_once("value", location.file, location.line, str(problem))
            continue
        yield values, location


def _examples(
    rows: Iterator[tuple[list[str], SourceLocation]] | Iterator[tuple[list[object], SourceLocation]],
    content: Content,
    columns: list[str | int],
    findings: Findings,
) -> Iterator[Example]:
    for values, location in rows:
        try:
            example = _example(content, columns, values, location)
        except ColumnError as problem:
            findings.add_once("value", location.file, location.line, str(problem))
            continue
        yield example


def _example(content: Content, columns: list[str | int], values: Sequence[object], location: SourceLocation) -> Example:
    if content in ("images", "captions"):
        picture = picture_in(values[0], columns[0], location)
        if content == "images":
            return LabelledPicture(picture, as_label(values[1], columns[1]), location)
        return DescribedPicture(picture, as_text(values[1], columns[1]), location)
    text = as_text(values[0], columns[0])
    match content:
        case "pairs":
            return Pair(text, as_text(values[1], columns[1]), location)
        case "labelled":
            return Labelled(text, as_label(values[1], columns[1]), location)
        case _:
            return Text(text, location)
