"""What a check tells about data that is not wrong: how much there is, how long, of which characters and labels."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from regard.data.check.anomalies import character_name, suspects
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
)

MOST_LABELS = 10_000  # more are no labels but texts, and need not be remembered


def unit_of(example: Example | Row) -> str:
    """What one example is called."""
    if isinstance(example, Text) and example.end:
        return "line"
    kinds = {Pair: "pair", Text: "document", Row: "row", Tagged: "sentence", Labelled: "labelled text"}
    return {**kinds, LabelledPicture: "image", DescribedPicture: "image"}[type(example)]


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
        self.unit = self.unit if self.examples else unit_of(example)
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

    def tree(self) -> dict[str, Any]:
        sides = {name: {**vars(side), "longest_at": str(side.longest_at or "")} for name, side in self.sides.items()}
        counts = {"labels": dict(self.labels.most_common()), "odd_characters": dict(self.odd.most_common())}
        return {
            "examples": self.examples,
            "unit": self.unit,
            "sides": sides,
            "different_characters": len(self.alphabet),
            **counts,
        }
