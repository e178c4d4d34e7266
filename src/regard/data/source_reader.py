"""From a source to its examples, one at a time: memory does not grow with the file.

Errors raise DataError with file and line; warnings are counted in the `Findings` that a caller may pass:

    findings = Findings()
    for pair in read_pairs(SourceConfig(source="train.en.gz", target="train.de.gz"), findings=findings):
        ...
    print(*findings.summaries(), sep="\\n")
"""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import cast

from regard.data.check.anomalies import inspected
from regard.data.columns import pick_columns, row_examples
from regard.data.examples import Example, Labelled, Pair, SourceLocation, Tagged, Text, fingerprint
from regard.data.findings import Findings
from regard.data.held_out import divided
from regard.data.images.files import read_pictures
from regard.data.lines import unreadable
from regard.data.readers.hub import hub_records
from regard.data.readers.plain_text import aligned_pairs
from regard.data.sources import DividedSource, SourceConfig, parse_part

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
        case "file":
            return source.reader.examples(source, files[0], findings)
        case "hub":
            records = hub_records(str(source.hub), source.config, str(source.split), base, findings)
            rows = pick_columns(records, source.columns, findings)
            return row_examples(rows, source.content, source.columns, findings)
        case "street":
            return _street(source)
        case "images":
            return read_pictures(files[0], files[1] if source.labels else None, findings)


def _street(source: SourceConfig) -> Iterator[Pair]:
    from regard.data import street  # here, as most runs never read the embedded corpus

    split = source.street or "train"
    size = source.limit if source.part is None else None
    seed = 1 if source.seed is None else source.seed
    for number, (english, german) in enumerate(street.pairs(split, size=size, seed=seed), start=1):
        yield Pair(english, german, SourceLocation(f"street/{split}", number))
