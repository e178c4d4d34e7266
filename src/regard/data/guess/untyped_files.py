"""Files without a recipe: which of them belong together, and what stands in a table whose columns nobody has named."""

import json
import re
from collections.abc import Callable, Hashable, Iterable, Iterator
from pathlib import Path, PurePath

from regard.data.check.anomalies import inspected
from regard.data.examples import Example, Row
from regard.data.findings import Findings
from regard.data.readers.columns import ColumnError, as_text
from regard.data.readers.conllu import tagged_sentences
from regard.data.readers.lines import unreadable
from regard.data.readers.records import Record, json_records, parquet_records
from regard.data.readers.source_reader import aligned_pairs, running_text
from regard.data.readers.tables import Rows, named_rows, table_cells
from regard.files.formats import Format, format_of, uncompressed_name

SPLITS = {
    "train": "train", "training": "train", "valid": "valid", "validation": "valid", "val": "valid", "dev": "valid",
    "newsdev": "valid", "test": "test", "tst": "test", "newstest": "test",
}  # fmt: skip


def split_of(file: Path) -> str:
    """The split a file's name tells, as in `train.en.gz`, `test_2016_flickr.de` or `my-val.tsv`; empty if none."""
    words = re.split(r"[^a-z]+", file.name.lower())
    return next((SPLITS[word] for word in words if word in SPLITS), "")


def grouped(files: Iterable[Path]) -> list[list[Path]]:
    """The files that are read together: two texts `name.en` and `name.de`, or the only two of a split, are a pair."""
    groups = [[file] for file in dict.fromkeys(files)]
    return _joined(_joined(groups, _stem), split_of)


def read_bare(files: list[Path], findings: Findings) -> Iterator[Example | Row]:
    """The examples of one group: pairs of two texts, the lines of one, the rows of a table."""
    return inspected(_examples(files, findings), findings, files[0])


def _joined(groups: list[list[Path]], same: Callable[[Path], Hashable]) -> list[list[Path]]:
    """Joins single text files in twos, where exactly two of them have the `same` in common."""
    singles: dict[Hashable, list[Path]] = {}
    for group in groups:
        if len(group) == 1 and _format(group[0]) == "text":
            singles.setdefault(same(group[0]), []).append(group[0])
    pairs = {file: pair for pair in singles.values() if len(pair) == 2 for file in pair}
    joined = [pairs.get(group[0], group) for group in groups]
    return [group for index, group in enumerate(joined) if group not in joined[:index]]


def _stem(file: Path) -> PurePath:
    return uncompressed_name(file).with_suffix("")


def _format(file: Path) -> Format | None:
    try:
        return format_of(file)
    except ValueError:
        return None


def _examples(files: list[Path], findings: Findings) -> Iterator[Example | Row]:
    if unreadable(files, findings):
        return iter(())
    if len(files) == 2:
        return aligned_pairs(files[0], files[1], findings)
    file = files[0]
    match _format(file):
        case "text":
            return running_text(file, findings)
        case "tsv":
            return _table(table_cells(file, "\t", findings), findings)
        case "csv":
            return _table(table_cells(file, ",", findings), findings)
        case "jsonl":
            return _rows(json_records(file, findings))
        case "parquet":
            return _rows(parquet_records(file, None, findings))
        case "conllu":
            return tagged_sentences(file, None, findings)
        case None:
            return _refuse(file, findings)


def _refuse(file: Path, findings: Findings) -> Iterator[Row]:
    try:
        format_of(file)
    except ValueError as problem:
        findings.add("unreadable", file, None, str(problem))
    yield from ()


def _table(cells: Rows, findings: Findings) -> Iterator[Row]:
    for row, location in named_rows(cells, findings):
        yield Row({f"column {name}": cell for name, cell in row.items()}, location)


def _rows(records: Iterator[Record]) -> Iterator[Row]:
    """The texts of each record, also of what is nested in it; other values are nobody's text and are left out."""
    for record, location in records:
        values = dict(enumerate(record)) if isinstance(record, list) else record if isinstance(record, dict) else {}
        texts = {f"column {path}": text for path, text in _texts(values, ())}
        yield Row(texts, location, json.dumps(record, sort_keys=True, default=repr))


def _texts(value: object, path: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """The texts of a value by their dotted paths, as recipes name columns."""
    text = _text(value)
    if text is not None:
        yield ".".join(path), text
    elif isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, one in items:
            yield from _texts(one, (*path, str(key)))


def _text(value: object) -> str | None:
    try:
        return as_text(value, "")
    except ColumnError:
        return None
