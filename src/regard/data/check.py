"""What is wrong with my files? Everything the readers notice, and what only shows across a whole file or its splits.

checked = check_files(["train.en", "train.de", "val.en", "val.de"])
print(*checked.summaries, sep="\\n")        # 3 empty lines (first at train.en:17)
"""

from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Literal

import numpy as np

from regard.data.columns import MOST_LABELS
from regard.data.examples import (
    DescribedPicture,
    Example,
    Labelled,
    LabelledPicture,
    Pair,
    Row,
    SourceLocation,
    Tagged,
    Text,
    fingerprint,
)
from regard.data.findings import Finding, Findings, Summary, character_name, inspected, suspects
from regard.data.guess.files import group_files, split_of
from regard.data.lines import unreadable
from regard.data.readers.plain_text import aligned_pairs
from regard.data.readers.registry import FORMATS, format_of
from regard.data.source_reader import HERE, read_examples
from regard.data.sources import DividedSource, SourceConfig
from regard.errors import ConfigError, DataError
from regard.progress import tracked

Reading = Callable[[Findings], Iterator[Example | Row]]
Repeat = tuple[int, int]
"""A line, and the earliest line that it repeats."""


@dataclass
class SideStatistics:
    """Counts over one side of the examples, such as all sources."""

    words: int = 0
    characters: int = 0
    empty: int = 0
    longest: int = 0
    longest_at: SourceLocation | None = None

    def add(self, text: str, location: SourceLocation) -> None:
        """Counts one text; words are what white space separates."""
        words = len(text.split())
        self.words += words
        self.characters += len(text)
        self.empty += not words
        if len(text) > self.longest:
            self.longest, self.longest_at = len(text), location


@dataclass
class Statistics:
    """Counts over the examples of one source."""

    examples: int = 0
    sides: dict[str, SideStatistics] = field(default_factory=dict)
    unit: str = "example"
    """What an example is: a pair, a line, a row, …"""
    labels: Counter[str] = field(default_factory=Counter)
    alphabet: set[str] = field(default_factory=set)
    odd: Counter[str] = field(default_factory=Counter)
    """Characters that do not belong into text, by name."""

    def add(self, example: Example | Row) -> None:
        if not self.examples:
            self.unit = "line" if isinstance(example, Text) and example.end else example.unit
        self.examples += 1
        for name, text, location in example.sides:
            self.sides.setdefault(name, SideStatistics()).add(text, location)
            self.alphabet.update(text)
            self.odd.update(character_name(character) for character in suspects(text))
        for label in example.classes if isinstance(example, Labelled | LabelledPicture) else ():
            if label in self.labels or len(self.labels) < MOST_LABELS:
                self.labels[label] += 1

    @property
    def too_many_labels(self) -> bool:
        """Whether there are so many labels that the column can hardly be one of labels."""
        return len(self.labels) >= MOST_LABELS

    def tree(self) -> dict[str, object]:
        sides = {name: {**vars(side), "longest_at": str(side.longest_at or "")} for name, side in self.sides.items()}
        return {
            "examples": self.examples,
            "unit": self.unit,
            "sides": sides,
            "different_characters": len(self.alphabet),
            "labels": dict(self.labels.most_common()),
            "odd_characters": dict(self.odd.most_common()),
        }


class Seen:
    """The examples of one source, kept as fingerprints of what a model is given and of the whole."""

    def __init__(self) -> None:
        self.file = ""
        self.keys = array("Q")
        self.wholes = array("Q")
        self.lines = array("I")

    def add(self, example: Example | Row) -> None:
        """Keeps an example; a blank line of a running text is no example."""
        if isinstance(example, Text) and example.end and not example.text.strip():
            return
        self.file = example.location.file
        model_input = example.key
        key = fingerprint(model_input)
        beside = _beside_key(example)
        self.keys.append(key)
        self.wholes.append(key if beside is None else fingerprint(f"{model_input}\0{beside}"))
        self.lines.append(example.location.line)

    def duplicates(self) -> Iterator[Repeat]:
        """Examples that stood before, in all they hold, in the order of the file."""
        wholes, lines = np.frombuffer(self.wholes, np.uint64), np.frombuffer(self.lines, np.uint32)
        _, first, group = np.unique(wholes, return_index=True, return_inverse=True)
        for index in np.flatnonzero(first[group] != np.arange(len(wholes))):
            yield int(lines[index]), int(lines[first[group[index]]])

    def duplicates_of(self, other: "Seen") -> Iterator[Repeat]:
        """Examples that `other` has too, in all they hold, and where it has them first."""
        return _common(self.wholes, self.lines, other.wholes, other.lines)

    def leaks_from(self, train: "Seen") -> Iterator[Repeat]:
        """Examples whose given side also stands in `train`, and where it stands there first."""
        return _common(self.keys, self.lines, train.keys, train.lines)


def _common(
    values: "array[int]", lines: "array[int]", earlier: "array[int]", earlier_lines: "array[int]"
) -> Iterator[Repeat]:
    unique_keys, first = np.unique(np.frombuffer(earlier, np.uint64), return_index=True)
    if not len(unique_keys):
        return
    keys = np.frombuffer(values, np.uint64)
    position = np.searchsorted(unique_keys, keys).clip(max=len(unique_keys) - 1)
    for index in np.flatnonzero(unique_keys[position] == keys):
        yield lines[index], earlier_lines[first[position[index]]]


def _beside_key(example: Example | Row) -> str | None:
    if isinstance(example, Pair | DescribedPicture):
        return example.target
    if isinstance(example, Tagged):
        return f"{' '.join(example.tags)}\0{example.heads}"
    return example.label if isinstance(example, Labelled) else None


@dataclass(frozen=True)
class Checked:
    """What a check found: the first findings of each kind, one summary a kind, and statistics of each source."""

    findings: list[Finding]
    summaries: list[Summary]
    statistics: dict[str, Statistics]

    @property
    def has_errors(self) -> bool:
        return any(summary.severity == "error" for summary in self.summaries)

    def tree(self) -> dict[str, object]:
        return {
            "findings": [asdict(finding) for finding in self.findings],
            "counts": {summary.kind: summary.count for summary in self.summaries},
            "statistics": {name: statistics.tree() for name, statistics in self.statistics.items()},
        }


def check_sources(sources: Mapping[str, SourceConfig], base: Path = HERE, keep: int = 20) -> Checked:
    """Checks the splits of a recipe; the one called `train`, or else the first, is what the others may not repeat."""
    findings = Findings(strict=False, keep=keep)
    sources = _divisible(sources, base, findings)
    readings: dict[str, Reading] = {name: partial(read_examples, source, base) for name, source in sources.items()}
    train = "train" if "train" in sources else next(iter(sources), "")
    return _check(readings, {train}, findings, {name: source.unit for name, source in sources.items()})


def _divisible(sources: Mapping[str, SourceConfig], base: Path, findings: Findings) -> dict[str, SourceConfig]:
    """The same sources; where nothing of the training data can be held out, it is checked as a whole."""
    try:
        for source in sources.values():
            if isinstance(source, DividedSource):
                next(iter(read_examples(source, base, Findings(strict=False))), None)
    except ConfigError as error:
        findings.add("division", error.path, None, str(error).removeprefix(f"{error.path}: "))
        whole = {name: one.whole if isinstance(one, DividedSource) else one for name, one in sources.items()}
        return {name: source for name, source in whole.items() if name == "train" or source is sources[name]}
    return dict(sources)


def check_files(files: Iterable[str | Path], keep: int = 20) -> Checked:
    """Checks plain files: two texts that belong together as an aligned pair, tables in all their columns.

    Those whose names say that they are training data are training data together; where none says it, the first is.
    """
    groups = group_files(map(Path, files))
    readings: dict[str, Reading] = {" + ".join(map(str, group)): partial(read_untyped, group) for group in groups}
    splits = dict(zip(readings, (split_of(group[0]) for group in groups), strict=True))
    train = {name for name, split in splits.items() if split == "train"} or set(list(readings)[:1])
    return _check(readings, train, Findings(strict=False, keep=keep))


def read_untyped(files: Sequence[Path], findings: Findings) -> Iterator[Example | Row]:
    """The examples of one group without a recipe: pairs of two texts, the lines of one, the rows of a table."""
    return inspected(_untyped(files, findings), findings, files[0])


def _untyped(files: Sequence[Path], findings: Findings) -> Iterator[Example | Row]:
    if unreadable(files, findings):
        return iter(())
    if len(files) == 2:
        return aligned_pairs(files[0], files[1], findings)
    try:
        return FORMATS[format_of(files[0])].untyped_examples(files[0], findings)
    except ValueError as problem:
        findings.add("unreadable", files[0], None, str(problem))
        return iter(())


def _check(
    readings: dict[str, Reading], train: Set[str], findings: Findings, units: Mapping[str, str] = MappingProxyType({})
) -> Checked:
    """Reads each source once, those of `train` first, so that the others can be held against them."""
    statistics: dict[str, Statistics] = {}
    earlier: list[tuple[str, Seen]] = []
    for name in sorted(readings, key=lambda name: name not in train):
        trained = [statistics[one] for one in statistics if one in train and one != name]
        known_labels: set[str] = set()
        if name not in train and not any(one.too_many_labels for one in trained):
            known_labels.update(label for one in trained for label in one.labels)
        statistics[name], seen = _observe(readings[name](findings), known_labels, findings)
        statistics[name].unit = units.get(name, statistics[name].unit)
        _report_duplicates(seen, [one for other, one in earlier if {other, name} <= train], findings)
        if name not in train:
            _report_shared(
                "leak", seen, [("the training data", one) for other, one in earlier if other in train], findings
            )
            _report_shared("overlap", seen, [pair for pair in earlier if pair[0] not in train], findings)
        _report_labels(statistics[name], seen.file, findings)
        earlier.append((name, seen))
    return Checked(findings.items, findings.summaries(), {name: statistics[name] for name in readings})


def _observe(examples: Iterator[Example | Row], known_labels: Set[str], findings: Findings) -> tuple[Statistics, Seen]:
    statistics, seen = Statistics(), Seen()
    for example in tracked(examples, "checking"):
        statistics.add(example)
        if not _readable(example, findings):
            continue
        seen.add(example)
        for label in example.classes if known_labels and isinstance(example, Labelled | LabelledPicture) else ():
            if label not in known_labels:
                problem = f"the label '{label}' does not occur in the training data"
                findings.add("label", example.location.file, example.location.line, problem)
    return statistics, seen


def _readable(example: Example | Row, findings: Findings) -> bool:
    """Whether the image of an example, if it has one, can be decoded."""
    if not isinstance(example, LabelledPicture | DescribedPicture):
        return True
    from regard.data.images.decoding import Canvas  # here, as it loads Pillow

    try:
        Canvas(1, resize="stretch").picture(example.picture)
    except DataError as error:
        findings.add("image", error.file, error.line, str(error).removeprefix(f"{error.file}: "))
        return False
    return True


def _report_duplicates(seen: Seen, earlier: Sequence[Seen], findings: Findings) -> None:
    for line, first in seen.duplicates():
        findings.add("duplicate", seen.file, line, f"the same as line {first}")
    within = {line for line, _ in seen.duplicates()}
    for other in earlier:
        for line, first in seen.duplicates_of(other):
            if line not in within:
                within.add(line)
                findings.add("duplicate", seen.file, line, f"the same as {other.file}:{first}")


def _report_shared(
    kind: Literal["leak", "overlap"], seen: Seen, earlier: Sequence[tuple[str, Seen]], findings: Findings
) -> None:
    """Reports what also stands in earlier sources, each example once."""
    reported: set[int] = set()
    for name, other in earlier:
        for line, first in seen.leaks_from(other):
            if line not in reported:
                reported.add(line)
                findings.add(kind, seen.file, line, f"also stands in {name}, at {other.file}:{first}")


def _report_labels(statistics: Statistics, file: str, findings: Findings) -> None:
    labels = statistics.labels
    if statistics.too_many_labels:
        findings.add("value", file, None, f"{len(labels):,} different labels or more; is it the right column?")
        return
    spellings: dict[str, str] = {}
    for label in labels:
        other = spellings.setdefault(" ".join(label.casefold().split()), label)
        if other != label:
            findings.add(
                "similar", file, None, f"the labels '{other}' and '{label}' are two classes; are they meant to be?"
            )
