"""What is wrong with my files? Everything the readers notice, and what only shows across a whole file or its splits.

checked = check_files(["train.en", "train.de", "val.en", "val.de"])
print(*checked.summaries, sep="\\n")        # 3 empty lines (first at train.en:17)
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from regard.data.check.anomalies import inspected
from regard.data.check.duplicates import Seen
from regard.data.check.statistics import Statistics
from regard.data.examples import DescribedPicture, Example, Labelled, LabelledPicture, Row
from regard.data.findings import Finding, Findings, Summary
from regard.data.guess.files import group_files, split_of
from regard.data.lines import unreadable
from regard.data.readers.plain_text import aligned_pairs
from regard.data.readers.registry import FORMATS, format_of
from regard.data.source_reader import HERE, read_examples
from regard.data.sources import DividedSource, SourceConfig
from regard.errors import ConfigError, DataError
from regard.progress import tracked

Reading = Callable[[Findings], Iterator[Example | Row]]


@dataclass(frozen=True)
class Checked:
    """What a check found: the first findings of each kind, one summary a kind, and statistics of each source."""

    findings: list[Finding]
    summaries: list[Summary]
    statistics: dict[str, Statistics]

    @property
    def has_errors(self) -> bool:
        """Whether anything found would stop training."""
        return any(summary.severity == "error" for summary in self.summaries)

    def tree(self) -> dict[str, Any]:
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
        train_labels = {label for one in trained for label in one.labels} if name not in train else set()
        train_labels = set() if any(one.too_many_labels for one in trained) else train_labels
        statistics[name], seen = _observe(readings[name](findings), train_labels, findings)
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
        if known_labels and isinstance(example, Labelled | LabelledPicture) and example.label not in known_labels:
            problem = f"the label '{example.label}' does not occur in the training data"
            findings.add("label", example.location.file, example.location.line, problem)
    return statistics, seen


def _readable(example: Example | Row, findings: Findings) -> bool:
    """Whether the image of an example, if it has one, can be decoded, as training would do it."""
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
