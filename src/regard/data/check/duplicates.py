"""Which examples repeat, within a split or from one to another: by fingerprints, twenty bytes an example."""

from array import array
from collections.abc import Iterator

import numpy as np

from regard.data.examples import (
    DescribedPicture,
    Example,
    Labelled,
    Pair,
    Row,
    Tagged,
    Text,
    fingerprint,
)

Repeat = tuple[int, int]
"""A line, and the earliest line that it repeats."""


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
    """What an example holds beside its key."""
    match example:
        case Pair() | DescribedPicture():
            return example.target
        case Labelled():
            return example.label
        case Tagged():
            return f"{' '.join(example.tags)}\0{example.heads}"
        case _:
            return None
