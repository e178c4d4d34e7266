"""What a data file holds, one at a time: pairs, labelled texts, plain texts; each remembers where it stood."""

from dataclasses import dataclass
from hashlib import blake2b


@dataclass(frozen=True, slots=True)
class Place:
    """Where an example stood: lines, and the rows of files that have no lines, count from one."""

    file: str
    line: int

    def __str__(self) -> str:
        """`train.en:17`, as messages say it."""
        return f"{self.file}:{self.line}"


Side = tuple[str, str, Place]
"""One text of an example: what it is called, the text, where it stood."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A text and what it should become."""

    source: str
    target: str
    place: Place
    target_place: Place | None = None
    """Where the target stood, if elsewhere than the source."""

    @property
    def key(self) -> str:
        """What a model is given; the same key in two splits is a leak."""
        return self.source

    @property
    def sides(self) -> tuple[Side, ...]:
        """The texts one by one."""
        return ("source", self.source, self.place), ("target", self.target, self.target_place or self.place)


@dataclass(frozen=True, slots=True)
class Labelled:
    """A text and the class it belongs to."""

    text: str
    label: str
    place: Place

    @property
    def key(self) -> str:
        """What a model is given; the same key in two splits is a leak."""
        return self.text

    @property
    def sides(self) -> tuple[Side, ...]:
        """The texts one by one."""
        return (("text", self.text, self.place),)


@dataclass(frozen=True, slots=True)
class Text:
    """A document, or one line of a running text; `text + end` of all lines gives the running text back."""

    text: str
    place: Place
    end: str = ""
    """The line break after it, where it is a line of a running text; empty after a document."""

    @property
    def key(self) -> str:
        """What a model is given; the same key in two splits is a leak."""
        return self.text

    @property
    def sides(self) -> tuple[Side, ...]:
        """The texts one by one."""
        return (("text", self.text, self.place),)


@dataclass(frozen=True, slots=True)
class Row:
    """A whole row of a table whose columns nobody has named; only checks read these."""

    columns: dict[str, str]
    place: Place

    @property
    def key(self) -> str:
        """What a model is given; the same key in two splits is a leak."""
        return "\0".join(self.columns.values())

    @property
    def sides(self) -> tuple[Side, ...]:
        """The texts one by one."""
        return tuple((name, text, self.place) for name, text in self.columns.items())


Example = Pair | Labelled | Text


def fingerprint(text: str) -> int:
    """Eight bytes that stand for a text: the same on every machine and in every process."""
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")
