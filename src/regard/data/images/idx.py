"""IDX files, as MNIST and its kin have them: a header of big-endian numbers, then one byte a pixel or a label.

0x00000803, count, height, width, pixels …        0x00000801, count, labels …
"""

import struct
from collections.abc import Iterator
from contextlib import ExitStack
from math import prod
from pathlib import Path

import numpy as np

from regard.data.examples import LabelledPicture, Picture, SourceLocation
from regard.data.findings import Findings
from regard.data.images.decoding import MOST_PIXELS
from regard.data.readers.lines import READ_ERRORS, open_stream, why_unreadable
from regard.errors import DataError, counted

IMAGES = 0x00000803
LABELS = 0x00000801
WHAT = {IMAGES: "images", LABELS: "labels"}


def idx_pictures(images: Path, labels: Path, findings: Findings) -> Iterator[LabelledPicture]:
    """The images of one file, each with the label that stands at its place in the other."""
    try:
        with ExitStack() as stack:
            pixels, classes = _Items(images, IMAGES, stack), _Items(labels, LABELS, stack)
            if pixels.count != classes.count:
                raise DataError(
                    labels, f"{counted(classes.count, 'label')}, but {images} has {counted(pixels.count, 'image')}"
                )
            for number in range(1, pixels.count + 1):
                grid = np.frombuffer(pixels.item(number), np.uint8).reshape(pixels.shape)
                picture = Picture.held(images, grid, f"image {number:,}")
                yield LabelledPicture(picture, str(classes.item(number)[0]), SourceLocation(str(images), number))
            pixels.end()
            classes.end()
    except DataError as problem:
        findings.add_once("unreadable", problem.file, None, str(problem).removeprefix(f"{problem.file}: "))


def is_idx(file: Path, magic: int = IMAGES) -> bool:
    """Whether a file begins as an IDX file of images does, or of what else `magic` stands for."""
    try:
        with open_stream(file) as stream:
            return stream.read(4) == struct.pack(">I", magic)
    except READ_ERRORS:
        return False


class _Items:
    """The items of an IDX file, one after another."""

    def __init__(self, file: Path, magic: int, stack: ExitStack) -> None:
        self.file = file
        try:
            self._stream = stack.enter_context(open_stream(file))
        except READ_ERRORS as error:
            raise DataError(file, why_unreadable(file, error)) from None
        self.count, *self.shape = self._header(magic)
        if self.shape and not 0 < prod(self.shape) <= MOST_PIXELS:
            sizes = " × ".join(f"{size:,}" for size in self.shape)
            raise DataError(file, f"images of {sizes} pixels; each may have from 1 to {MOST_PIXELS:,}")

    def item(self, number: int) -> bytes:
        """The next item, which is the one of this number."""
        data = self._read(prod(self.shape))
        if len(data) < prod(self.shape):
            promised = f"the header promises {self.count:,} items"
            raise DataError(self.file, f"cut short: {promised}, item {number:,} is not whole")
        return data

    def end(self) -> None:
        """Refuses a file that goes on."""
        if self._read(1):
            raise DataError(self.file, f"goes on after the {self.count:,} items that its header promises")

    def _header(self, magic: int) -> tuple[int, ...]:
        dimensions = magic & 0xFF
        header = self._read(4 + 4 * dimensions)
        found = int.from_bytes(header[:4], "big")
        if len(header) >= 4 and found != magic:
            known = f", which means {WHAT[found]}" if found in WHAT else ""
            expected = f"expected an IDX file of {WHAT[magic]} (0x{magic:08x})"
            raise DataError(self.file, f"{expected}, it begins with 0x{found:08x}{known}")
        if len(header) < 4 + 4 * dimensions:
            raise DataError(self.file, f"cut short: expected a header of {4 + 4 * dimensions} bytes, got {len(header)}")
        return struct.unpack(f">{dimensions}I", header[4:])

    def _read(self, size: int) -> bytes:
        try:
            return self._stream.read(size)
        except READ_ERRORS as error:
            raise DataError(self.file, why_unreadable(self.file, error)) from None
