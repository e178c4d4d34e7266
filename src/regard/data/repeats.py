"""Which examples repeat, within a split or from one to another: found by fingerprints, twenty bytes an example."""

from array import array
from collections.abc import Iterator

import numpy as np

from regard.data.examples import Example, Labelled, Pair, Row, Text, fingerprint

FEWEST_WORDS = 8  # shorter lines of a running text repeat by themselves: headings, names, "What, ho!"

Repeat = tuple[int, int]
"""A line, and the earliest line that it repeats."""


class Seen:
    """The examples of one split, remembered by fingerprints of what a model is given and of the whole."""

    def __init__(self) -> None:
        self.file = ""
        self.keys = array("Q")
        self.wholes = array("Q")
        self.lines = array("I")

    def add(self, example: Example | Row) -> None:
        """Remembers an example; a short line of a running text is passed over."""
        if isinstance(example, Text) and example.end and len(example.text.split()) < FEWEST_WORDS:
            return
        self.file = example.place.file
        key = fingerprint(example.key)
        self.keys.append(key)
        self.wholes.append(fingerprint(whole) if (whole := _whole(example)) is not None else key)
        self.lines.append(example.place.line)

    def duplicates(self) -> Iterator[Repeat]:
        """Examples that stood before, in all they hold, in the order of the file."""
        wholes, lines = np.frombuffer(self.wholes, np.uint64), np.frombuffer(self.lines, np.uint32)
        _, first, group = np.unique(wholes, return_index=True, return_inverse=True)
        for index in np.flatnonzero(first[group] != np.arange(len(wholes))):
            yield int(lines[index]), int(lines[first[group[index]]])

    def leaks_from(self, train: "Seen") -> Iterator[Repeat]:
        """Examples whose given side also stands in `train`, and where it stands there first."""
        known, first = np.unique(np.frombuffer(train.keys, np.uint64), return_index=True)
        if not len(known):
            return
        keys = np.frombuffer(self.keys, np.uint64)
        position = np.searchsorted(known, keys).clip(max=len(known) - 1)
        for index in np.flatnonzero(known[position] == keys):
            yield self.lines[index], train.lines[first[position[index]]]


def _whole(example: Example | Row) -> str | None:
    """All that an example holds, where that is more than its key."""
    match example:
        case Pair():
            return f"{example.source}\0{example.target}"
        case Labelled():
            return f"{example.text}\0{example.label}"
        case _:
            return None
