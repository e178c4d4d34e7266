"""From a source to its examples, one at a time: memory does not grow with the file.

Errors raise DataError with file and line; warnings are counted in the `Findings` that a caller may pass:

    findings = Findings()
    for pair in read_pairs(SourceConfig(source="train.en.gz", target="train.de.gz"), findings=findings):
        ...
    print(*findings.summaries(), sep="\\n")
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import partial
from itertools import islice
from pathlib import Path
from typing import cast

from regard.data.columns import pick_columns, row_examples
from regard.data.examples import Example, Pair, SourceLocation, Text, fingerprint
from regard.data.findings import Findings, inspected, inspected_blocks
from regard.data.images.files import read_pictures
from regard.data.lines import unreadable
from regard.data.readers.hub import hub_records
from regard.data.readers.plain_text import aligned_blocks, aligned_pairs
from regard.data.sources import DividedSource, Part, SourceConfig, parse_part
from regard.errors import ConfigError, RegardError

HERE = Path()
NOT_DIVIDED = "of which nothing can be held out; break it into lines: fold -s -w 200 text.txt > lines.txt"
Whole = Callable[[], Iterator[Example]]
AT_ONCE = 64
"""Examples of other sources that are read at a time; they may hold images."""


def read_pairs(source: SourceConfig, base: Path = HERE, findings: Findings | None = None) -> Iterator[Pair]:
    """The pairs of a source; ConfigError where it holds something else."""
    source.require("pairs")
    return cast(Iterator[Pair], read_examples(source, base, findings))


def read_texts(source: SourceConfig, base: Path = HERE, findings: Findings | None = None) -> Iterator[Text]:
    """The documents of a source, or the lines of its running text; ConfigError where it holds something else."""
    source.require("text")
    return cast(Iterator[Text], read_examples(source, base, findings))


def read_examples(source: SourceConfig, base: Path = HERE, findings: Findings | None = None) -> Iterator[Example]:
    """Whatever a source holds; relative files lie below `base`, the folder of the recipe."""
    findings = Findings() if findings is None else findings
    file = next(iter(source.files(base)), source.hub or f"street/{source.street}")
    return inspected(islice(_part(source, base, findings), source.limit), findings, file, source.part)


def read_blocks(
    source: SourceConfig, base: Path = HERE, findings: Findings | None = None
) -> Iterator[Sequence[Example]]:
    """The same examples, many at a time: pairs of two files without an object for each."""
    findings = Findings() if findings is None else findings
    files = source.files(base)
    if source.origin != "files" or source.part or source.limit or unreadable(files, findings):
        yield from _batched(read_examples(source, base, findings))
        return
    blocks = aligned_blocks(files[0], files[1], findings)
    if isinstance(source, DividedSource):
        is_held_out = _is_held_out(partial(_whole, source, base, findings), _keys(source))
        blocks = (
            block.select([is_held_out(fingerprint(text)) == source.held_out for text in block.sources])
            for block in blocks
        )
    yield from inspected_blocks(blocks, findings, files[0])


def _batched(examples: Iterator[Example]) -> Iterator[list[Example]]:
    """A few at a time; what is read before an error comes first."""
    batch: list[Example] = []
    try:
        for example in examples:
            batch.append(example)
            if len(batch) == AT_ONCE:
                yield batch
                batch = []
    except RegardError:
        yield batch
        raise
    yield batch


def _part(source: SourceConfig, base: Path, findings: Findings) -> Iterator[Example]:
    """The examples of the asked part. A part by position needs the length, so the file is read twice."""
    whole = partial(_whole, source, base, findings)
    if isinstance(source, DividedSource):
        yield from _divided(source, lambda: islice(whole(), source.limit))
    elif source.part is None:
        yield from whole()
    elif source.shuffle:
        chosen = parse_part(source.part).of(1 << 64)
        yield from (example for example in whole() if fingerprint(example.key) in chosen)
    else:
        by_characters = source.is_running_text
        chosen = parse_part(source.part).of(sum(_size(example, by_characters) for example in whole()))
        yield from _stretch(whole(), chosen, by_characters)


def _stretch(examples: Iterator[Example], chosen: range, by_characters: bool) -> Iterator[Example]:
    """The examples that begin within the chosen positions."""
    position = 0
    for example in examples:
        if position >= chosen.stop:
            return
        if position in chosen:
            yield example
        position += _size(example, by_characters)


def _size(example: Example, by_characters: bool) -> int:
    return len(example.text) + len(example.end) if by_characters and isinstance(example, Text) else 1


def _divided(source: DividedSource, whole: Whole) -> Iterator[Example]:
    """The examples that are held out for validation, or the rest. The data is read twice: once to see what is in it.

    Examples are chosen by a hash of what a model reads, so that equal inputs stay together; lines of a running text by
    their position. What is held out has no class that the rest lacks, and neither part is empty.
    """
    if source.is_running_text:
        return _divided_text(whole, source.held_out, _held_out_part(source))
    is_held_out = _is_held_out(whole, _keys(source))
    return (example for example in whole() if is_held_out(fingerprint(example.key)) == source.held_out)


def _held_out_part(source: DividedSource) -> Part:
    return Part(1 - Fraction(str(source.share)), Fraction(1))


def _keys(source: DividedSource) -> range:
    """The fingerprints that are held out, but for exceptions."""
    return _held_out_part(source).of(1 << 64)


def _is_held_out(whole: Whole, usual: range) -> Callable[[int], bool]:
    """Which fingerprints are held out: those in `usual`, but for the only ones of a class."""
    trained: set[str] = set()
    only_held_out: dict[str, int] = {}
    some = False
    for example in whole():
        key = fingerprint(example.key)
        if key not in usual:
            trained.update(example.classes)
            for name in example.classes:
                only_held_out.pop(name, None)
            continue
        some = True
        if not example.classes:
            break  # nothing more to learn: there is something to hold out, and no class to miss
        for name in example.classes:
            if name not in trained:
                only_held_out.setdefault(name, key)
    never = set(only_held_out.values())
    if some and any(key in usual and key not in never for key in (fingerprint(example.key) for example in whole())):
        return lambda key: key in usual and key not in never
    also = _dispensable(whole)
    return lambda key: key in also or (key in usual and key not in never)


def _dispensable(whole: Whole) -> set[int]:
    """The key to hold out where chance chose none, as in small data: the highest whose classes others have too."""
    classes: dict[int, set[str]] = {}
    for example in whole():
        classes.setdefault(fingerprint(example.key), set()).update(example.classes)
    counts = Counter(name for names in classes.values() for name in names)
    able = [key for key, names in classes.items() if all(counts[name] > 1 for name in names)]
    if not classes:
        return set()
    if not able or len(classes) < 2:
        lacks = "no class with two different texts" if counts else "only one example"
        raise ConfigError("data.valid", f"needed: data.train has {lacks}, so nothing of it can be held out")
    return {max(able)}


def _divided_text(whole: Whole, held_out: bool, part: Part) -> Iterator[Example]:
    """The lines that begin in the last part of the text, at least the last that is not blank; or the rest."""
    total = last = 0
    for example in whole():
        if example.key.strip():
            last = total
        total += _size(example, by_characters=True)
    if total and not last:
        raise ConfigError("data.valid", f"needed: data.train is a text of one line, {NOT_DIVIDED}")
    cut = min(part.of(total).start, last)
    return _stretch(whole(), range(cut, total + 1) if held_out else range(cut), by_characters=True)


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
