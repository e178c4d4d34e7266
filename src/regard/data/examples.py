"""What a data file holds, one at a time: pairs, labelled texts, plain texts; each remembers where it stood."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import compress
from pathlib import Path
from typing import ClassVar, overload

import numpy as np
from jaxtyping import UInt8


@dataclass(frozen=True, slots=True)
class SourceLocation:
    """Where an example stood: lines, and the rows of files that have no lines, count from one."""

    file: str
    line: int

    @property
    def origin(self) -> tuple[str, int]:
        """File and line, as `regard.errors.located` takes them."""
        return self.file, self.line

    def __str__(self) -> str:
        """`train.en:17`, as messages say it."""
        return f"{self.file}:{self.line}"


Side = tuple[str, str, SourceLocation]
"""One text of an example: what it is called, the text, where it stood."""


class _Example:
    __slots__ = ()
    unit: ClassVar[str]
    """What one of its kind is called."""

    @property
    def sides(self) -> tuple[Side, ...]:
        """The texts one by one."""
        return ()

    @property
    def key(self) -> str:
        """What a model is given; the same key in two splits is a leak."""
        return self.sides[0][1]

    @property
    def classes(self) -> Sequence[str]:
        return ()


@dataclass(frozen=True, slots=True)
class Pair(_Example):
    """A text and what it should become."""

    unit: ClassVar[str] = "pair"
    source: str
    target: str
    location: SourceLocation
    target_location: SourceLocation | None = None
    """Where the target stood, if elsewhere than the source."""

    @property
    def sides(self) -> tuple[Side, ...]:
        return ("source", self.source, self.location), ("target", self.target, self.target_location or self.location)


class PairBlock(Sequence[Pair]):
    """Pairs of two aligned files, many at a time; a `Pair` is made only where one is asked for."""

    def __init__(self, sources: list[str], targets: list[str], lines: Sequence[int], files: tuple[str, str]) -> None:
        self.sources, self.targets, self.lines, self._files = sources, targets, lines, files

    def __len__(self) -> int:
        return len(self.lines)

    @overload
    def __getitem__(self, index: int) -> Pair: ...
    @overload
    def __getitem__(self, index: slice) -> "PairBlock": ...
    def __getitem__(self, index: int | slice) -> "Pair | PairBlock":
        if isinstance(index, slice):
            return PairBlock(self.sources[index], self.targets[index], self.lines[index], self._files)
        line, (source, target) = self.lines[index], self._files
        locations = SourceLocation(source, line), SourceLocation(target, line)
        return Pair(self.sources[index], self.targets[index], *locations)

    def select(self, chosen: Iterable[bool]) -> "PairBlock":
        """Some of the pairs."""
        chosen = list(chosen)
        sources, targets = (list(compress(texts, chosen)) for texts in (self.sources, self.targets))
        return PairBlock(sources, targets, list(compress(self.lines, chosen)), self._files)


@dataclass(frozen=True, slots=True)
class Labelled(_Example):
    """A text and the class it belongs to."""

    unit: ClassVar[str] = "labelled text"
    text: str
    label: str
    location: SourceLocation

    @property
    def classes(self) -> Sequence[str]:
        return (self.label,)

    @property
    def sides(self) -> tuple[Side, ...]:
        return (("text", self.text, self.location),)


@dataclass(frozen=True, slots=True)
class MultiLabelled(Labelled):
    """A text and the classes it belongs to, any number of them; `label` names them all."""

    labels: tuple[str, ...] = ()

    @property
    def classes(self) -> Sequence[str]:
        return self.labels


@dataclass(frozen=True, slots=True)
class Text(_Example):
    """A document, or one line of a running text; `text + end` of all lines gives the running text back."""

    unit: ClassVar[str] = "document"
    text: str
    location: SourceLocation
    end: str = ""
    """The line break after it, where it is a line of a running text; empty after a document."""

    @property
    def sides(self) -> tuple[Side, ...]:
        return (("text", self.text, self.location),)


@dataclass(frozen=True, slots=True)
class Picture:
    """An image where it lies: nothing is read before it is asked for."""

    file: Path
    """The file that holds it, alone or with others."""
    load: Callable[[], bytes | UInt8[np.ndarray, "height width"]]
    """Gives what the file holds of it: an encoded image (PNG, JPEG, …), or grey pixels as they are."""
    member: str = ""
    """Which image of the file it is, where the file holds several."""

    @classmethod
    def held(cls, file: Path, data: bytes | UInt8[np.ndarray, "height width"], member: str) -> "Picture":
        return cls(file, lambda: data, member)

    @property
    def name(self) -> str:
        """`cats/17.png`, `train.zip: cats/17.png` or `train.parquet: row 17`, as messages say it."""
        return f"{self.file}: {self.member}" if self.member else str(self.file)

    @property
    def key(self) -> str:
        """Stands for what the image holds."""
        data = self.load()
        return blake2b(data if isinstance(data, bytes) else data.tobytes(), digest_size=16).hexdigest()


@dataclass(frozen=True, slots=True)
class LabelledPicture(_Example):
    """An image and the class it belongs to."""

    unit: ClassVar[str] = "image"
    picture: Picture
    label: str
    location: SourceLocation

    @property
    def classes(self) -> Sequence[str]:
        return (self.label,)

    @property
    def key(self) -> str:
        return self.picture.key


@dataclass(frozen=True, slots=True)
class DescribedPicture(_Example):
    """An image and a sentence about it."""

    unit: ClassVar[str] = "image"
    picture: Picture
    target: str
    location: SourceLocation

    @property
    def key(self) -> str:
        return self.picture.key

    @property
    def sides(self) -> tuple[Side, ...]:
        return (("target", self.target, self.location),)


@dataclass(frozen=True, slots=True)
class Tagged(_Example):
    """A sentence in words, each with its tag, and the dependency tree that they hang in."""

    unit: ClassVar[str] = "sentence"
    words: tuple[str, ...]
    tags: tuple[str, ...]
    """One a word; none at all in a sentence that is still to be tagged."""
    heads: tuple[int, ...] | None
    """The number of the word that each hangs on, from one, 0 for the root; None where there is no tree."""
    location: SourceLocation

    @property
    def text(self) -> str:
        return " ".join(self.words)

    @property
    def classes(self) -> Sequence[str]:
        return self.tags

    @property
    def sides(self) -> tuple[Side, ...]:
        return (("text", self.text, self.location),)


@dataclass(frozen=True, slots=True)
class Row(_Example):
    """A whole row of a table whose columns nobody has named; only checks read these."""

    unit: ClassVar[str] = "row"
    columns: dict[str, str]
    location: SourceLocation
    whole: str = ""
    """All that it holds, where that is more than texts."""

    @property
    def key(self) -> str:
        return self.whole or "\0".join(self.columns.values())

    @property
    def sides(self) -> tuple[Side, ...]:
        return tuple((name, text, self.location) for name, text in self.columns.items())


Example = Pair | Labelled | Text | LabelledPicture | DescribedPicture | Tagged


def fingerprint(text: str) -> int:
    """Eight bytes that stand for a text: the same on every machine and in every process."""
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")
