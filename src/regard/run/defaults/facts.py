"""What is known of the training data before anything is trained: how much there is, how long texts are, which classes.

The first examples are read; of more than those, files of lines are counted by their lines, the rest is read to its end.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from regard.data.examples import DescribedPicture, Example, LabelledPicture, Picture
from regard.data.images.decoding import Canvas, shape_of
from regard.data.lines import BLOCK, READ_ERRORS, open_stream
from regard.data.settings import DataConfig
from regard.data.source_reader import read_examples
from regard.data.sources import SourceConfig, parse_part
from regard.errors import DataError, RegardError

SURVEYED = 50_000
"""Examples that are read for their lengths."""
PICTURES = 200
"""Images that are read for their sizes and colours."""
MOST_SIDE = 64
"""Pixels of a side to which images are brought before their colours are measured."""
LONG = 99.5
"""Percentile of the lengths that a model should still be able to take."""
UNKNOWN = "<unk>"


@dataclass(frozen=True)
class Images:
    """What the images of a data set have in common."""

    side: int
    """Median of the shorter sides, in pixels."""
    alike: bool
    """Whether all are squares of that size."""
    channels: int
    mean: tuple[float, ...]
    deviation: tuple[float, ...]


@dataclass(frozen=True)
class Facts:
    """What the rules know of a task and its training data."""

    task: str
    unit: str
    """What an example is called."""
    examples: int
    source: float = 0.0
    """Mean bytes (UTF-8) of the text that a model reads of an example."""
    target: float = 0.0
    """Mean bytes of the text that it writes."""
    long: float = 0.0
    """Bytes of which hardly any text of an example has more."""
    long_target: float = 0.0
    words: float = 0.0
    """Mean number of words of the text that it reads, by spaces."""
    closed: bool = False
    """Whether words were replaced by <unk> before, so that the vocabulary is that of the text."""
    classes: int = 0
    valid: int = 0
    """Validation examples, where the recipe names them."""
    running: bool = False
    """Whether the examples are lines of one running text."""
    holds_out: bool = False
    """Whether the validation data is taken from the training data."""
    images: Images | None = None

    @property
    def bytes(self) -> float:
        """All text of the training data."""
        return self.examples * (self.source + self.target)

    @property
    def spaced(self) -> bool:
        """Whether words stand apart by spaces, as they do not in Chinese, Japanese or Thai."""
        return self.source < 15 * max(self.words, 0.1)

    @property
    def amount(self) -> str:
        """How much there is, for a sentence."""
        if self.images is not None:
            return f"{self.examples:,} images"
        size = f"{self.bytes / 1e6:,.1f} MB" if self.bytes >= 1e5 else f"{self.bytes / 1e3:,.1f} kB"
        return f"{size} of text" if self.running else f"{self.examples:,} {self.unit}s, {size}"


def survey(task: Any, data: DataConfig) -> Facts:  # noqa: ANN401
    """The facts of a task's training data; errors are those of reading it."""
    data.split("train")
    source, base = data.train, Path(data.folder or "")
    assert source is not None
    source.require(task.content, "data.train")
    reading = iter(read_examples(source, base))
    first = list(islice(reading, SURVEYED))
    number = len(first) if len(first) < SURVEYED else _number(source, base, reading)
    reads, writes, words = (list(map(len_of, first)) for len_of in (_read_bytes, _written_bytes, _words))
    spread = first[:: max(1, len(first) // PICTURES)]
    pictures = [example.picture for example in spread if isinstance(example, LabelledPicture | DescribedPicture)]
    if len(first) < SURVEYED and not any(words) and not pictures:  # not one word in any of them
        raise DataError(", ".join(map(str, source.files(base))) or "data.train", "no examples with text")
    return Facts(
        task=task.kind,
        unit=source.unit,
        examples=number,
        source=max(1.0, fmean(reads)) if reads and not pictures else 0.0,
        target=fmean(writes) if writes else 0.0,
        long=float(np.percentile([max(pair) for pair in zip(reads, writes, strict=True)], LONG)) if reads else 0.0,
        long_target=float(np.percentile(writes, LONG)) if writes else 0.0,
        words=max(1.0, fmean(words)) if words and not pictures else 0.0,
        closed=any(UNKNOWN in getattr(example, "text", "") for example in first[:1000]),
        classes=len({name for example in first for name in example.classes}) if task.has_classes else 0,
        valid=0 if data.valid is None else _counted(data.valid, base),
        running=source.is_running_text,
        holds_out=data.holds_out,
        images=_images(pictures) if pictures else None,
    )


def _number(source: SourceConfig, base: Path, rest: Iterator[Example]) -> int:
    """The number of examples; an estimate for a file with header or blank lines."""
    files = source.files(base)
    if source.origin == "files" or (source.origin == "file" and source.reader.line_based):
        part = parse_part(source.part) if source.part else None
        count = int(_lines(files[0]) * (float(part.stop - part.start) if part else 1.0))
        return min(count, source.limit) if source.limit else count
    return SURVEYED + sum(1 for _ in rest)


def _counted(source: SourceConfig, base: Path) -> int:
    """The number of examples of a split, counted up to a limit."""
    return sum(1 for _ in islice(read_examples(source, base), SURVEYED))


def _lines(file: Path) -> int:
    number = 0
    with open_stream(file) as stream:
        try:
            while block := stream.read(16 * BLOCK):
                number += block.count(b"\n")
        except READ_ERRORS:
            return number  # reading the examples says what is wrong
    return number


def _read_bytes(example: Example) -> int:
    text = getattr(example, "source", None) or getattr(example, "text", "")
    return len(text.encode(errors="replace")) + len(getattr(example, "end", ""))


def _written_bytes(example: Example) -> int:
    return len(getattr(example, "target", "").encode(errors="replace"))


def _words(example: Example) -> int:
    return len((getattr(example, "source", None) or getattr(example, "text", "")).split())


def _images(pictures: list[Picture]) -> Images | None:
    """Sizes and colours; None where an image cannot be read, which training says better."""
    try:
        sizes = [shape_of(picture) for picture in pictures]
    except RegardError:
        return None
    side = int(np.median([min(height, width) for height, width, _ in sizes]))
    channels = max(channels for *_, channels in sizes)
    canvas = Canvas(min(side, MOST_SIDE), channels, "crop")
    pixels = np.stack([canvas.picture(picture) for picture in pictures]).reshape(-1, channels) / 255.0
    return Images(
        side,
        all((height, width) == (side, side) for height, width, _ in sizes),
        channels,
        tuple(round(float(value), 3) for value in pixels.mean(0)),
        tuple(max(0.01, round(float(value), 3)) for value in pixels.std(0)),
    )
