"""What is wrong with my files? Everything the readers notice, and what only shows across a whole file or its splits.

checked = check_files(["train.en", "train.de", "val.en", "val.de"])
print(*checked.summaries, sep="\\n")        # 3 empty lines (first at train.en:17)
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from regard.data.bare import grouped, read_bare, split_of
from regard.data.examples import Example, Labelled, Row
from regard.data.findings import Finding, Findings, Summary
from regard.data.readers import HERE, read_examples
from regard.data.repeats import Seen
from regard.data.sources import SourceConfig
from regard.data.statistics import Statistics

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
        """Plain values, for JSON."""
        return {
            "findings": [asdict(finding) for finding in self.findings],
            "counts": {summary.kind: summary.count for summary in self.summaries},
            "statistics": {name: statistics.tree() for name, statistics in self.statistics.items()},
        }


def check_sources(sources: Mapping[str, SourceConfig], base: Path = HERE, keep: int = 20) -> Checked:
    """Checks the splits of a recipe; the one called `train`, or else the first, is what the others may not repeat."""
    readings: dict[str, Reading] = {name: partial(read_examples, source, base) for name, source in sources.items()}
    train = "train" if "train" in sources else next(iter(sources), "")
    headless = [name for name, source in sources.items() if _may_hide_header(source)]
    return _check(readings, train, headless, keep)


def check_files(files: Iterable[str | Path], keep: int = 20) -> Checked:
    """Checks plain files: two texts that belong together as an aligned pair, tables in all their columns."""
    groups = grouped(map(Path, files))
    readings: dict[str, Reading] = {" + ".join(map(str, group)): partial(read_bare, group) for group in groups}
    splits = dict(zip(readings, (split_of(group[0]) for group in groups), strict=True))
    train = next((name for name, split in splits.items() if split == "train"), next(iter(readings), ""))
    return _check(readings, train, [], keep)


def _check(readings: dict[str, Reading], train: str, headless: list[str], keep: int) -> Checked:
    """Reads each source once, `train` first, so that the others can be held against it."""
    findings = Findings(strict=False, keep=keep)
    statistics: dict[str, Statistics] = {}
    trained = Seen()
    for name in sorted(readings, key=lambda name: name != train):
        known = statistics[train].labels if statistics and not statistics[train].too_many_labels else {}
        statistics[name], seen = _observe(readings[name](findings), known, findings)
        _report_repeats(seen, trained, findings)
        _report_labels(statistics[name], seen.file, name in headless, findings)
        trained = seen if name == train else trained
    return Checked(findings.found, findings.summaries(), {name: statistics[name] for name in readings})


def _observe(
    examples: Iterator[Example | Row], known_labels: Mapping[str, int], findings: Findings
) -> tuple[Statistics, Seen]:
    statistics, seen = Statistics(), Seen()
    for example in examples:
        statistics.add(example)
        seen.add(example)
        if known_labels and isinstance(example, Labelled) and example.label not in known_labels:
            problem = f"the label '{example.label}' does not occur in the training data"
            findings.add("label", example.place.file, example.place.line, problem)
    return statistics, seen


def _report_repeats(seen: Seen, trained: Seen, findings: Findings) -> None:
    for line, first in seen.duplicates():
        findings.add("duplicate", seen.file, line, f"the same as line {first}")
    for line, first in seen.leaks_from(trained):
        findings.add("leak", seen.file, line, f"also stands in the training data, at {trained.file}:{first}")


def _report_labels(statistics: Statistics, file: str, headless: bool, findings: Findings) -> None:
    labels, first = statistics.labels, statistics.first_label or ""
    if statistics.too_many_labels:
        findings.add("value", file, None, f"{len(labels):,} different labels or more; is it the right column?")
    elif headless and labels[first] == 1 and len(labels) > 2:
        findings.add("header", file, 1, f"the label '{first}' occurs only here; if it is a header, say header = true")


def _may_hide_header(source: SourceConfig) -> bool:
    return source.origin == "file" and source.file_format in ("tsv", "csv") and not source.has_header
