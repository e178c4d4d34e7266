"""Files of images: class folders, on the disk or in a .zip, and IDX files, as MNIST has them.

The label of an image is the folder it lies in, or stands at its index in the IDX file of labels:

0x00000803, count, height, width, pixels …        0x00000801, count, labels …
"""

import struct
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from math import prod
from pathlib import Path, PurePosixPath

import numpy as np

from regard.data.examples import LabelledPicture, Picture, SourceLocation
from regard.data.findings import Findings
from regard.data.lines import READ_ERRORS, open_stream, why_unreadable
from regard.errors import DataError, counted

MOST_PIXELS = 1 << 26
"""Pixels of an image; one that claims more is refused before it is decoded."""
MOST_BYTES = 1 << 28
"""Bytes of an encoded image."""
SUFFIXES = {".png", ".jpg", ".jpeg", ".gif", ".bmp", ".webp", ".ppm", ".pgm", ".pnm", ".tif", ".tiff"}
BROKEN_ZIP = (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, OSError, ValueError)
"""Whatever reading a damaged, encrypted or strangely packed .zip raises."""
IDX_IMAGES = 0x00000803
IDX_LABELS = 0x00000801
IDX_CONTENTS = {IDX_IMAGES: "images", IDX_LABELS: "labels"}


def read_pictures(images: Path, labels: Path | None, findings: Findings) -> Iterator[LabelledPicture]:
    """The images of a folder, a .zip, or two IDX files, each with its label."""
    if labels is not None:
        return idx_pictures(images, labels, findings)
    if images.is_dir():
        return folder_pictures(images, findings)
    if images.suffix.lower() == ".zip" and images.is_file():
        return zip_pictures(images, findings)
    findings.add_once("unreadable", images, None, _why_no_images(images))
    return iter(())


def _why_no_images(images: Path) -> str:
    if not images.exists():
        return why_unreadable(images, FileNotFoundError())
    if is_idx(images):
        return "an IDX file of images needs its labels beside it: labels = …"
    return "expected a folder or a .zip that has a folder for each class, or IDX files: images = … and labels = …"


def folder_pictures(folder: Path, findings: Findings) -> Iterator[LabelledPicture]:
    """The images below a folder, by class and name."""
    files = sorted(file for file in folder.rglob("*") if file.is_file() and not _hidden(file.relative_to(folder)))
    for number, file in enumerate(files, start=1):
        label = _label(PurePosixPath(file.relative_to(folder).as_posix()), str(file), findings)
        if label is not None:
            picture = Picture(file, partial(read_image, file))
            yield LabelledPicture(picture, label, SourceLocation(str(folder), number))


def zip_pictures(file: Path, findings: Findings) -> Iterator[LabelledPicture]:
    """The images of a .zip, by class and name; nothing is unpacked onto the disk."""
    try:
        with zipfile.ZipFile(file) as archive:
            members = [member for member in archive.infolist() if not member.is_dir()]
            members.sort(key=lambda member: member.filename)
            for number, member in enumerate(members, start=1):
                yield from _member(file, archive, member, number, findings)
    except BROKEN_ZIP as error:
        findings.add_once("unreadable", file, None, f"not a .zip file, or a damaged one ({error})")


def read_image(file: Path) -> bytes:
    try:
        if file.stat().st_size > MOST_BYTES:
            raise DataError(file, f"{file.stat().st_size:,} bytes; an image may have at most {MOST_BYTES:,}")
        return file.read_bytes()
    except OSError as error:
        raise DataError(file, f"cannot be read ({error.strerror})") from None


def _member(
    file: Path, archive: zipfile.ZipFile, member: zipfile.ZipInfo, number: int, findings: Findings
) -> Iterator[LabelledPicture]:
    path = PurePosixPath(member.filename)
    if _hidden(path):
        return
    if path.is_absolute() or ".." in path.parts or "\\" in member.filename:
        findings.add_once("value", file, None, f"the member '{member.filename}' leads out of the archive")
        return
    label = _label(path, f"{file}: {path}", findings)
    if label is not None:
        data = _unpacked(file, archive, member)
        yield LabelledPicture(Picture.held(file, data, str(path)), label, SourceLocation(str(file), number))


def _unpacked(file: Path, archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> bytes:
    """A member's bytes: no more than it says of itself, and no more than an image may have."""
    if member.file_size > MOST_BYTES:
        raise DataError(
            f"{file}: {member.filename}", f"{member.file_size:,} bytes; an image may have at most {MOST_BYTES:,}"
        )
    try:
        return archive.read(member)
    except BROKEN_ZIP as error:
        raise DataError(f"{file}: {member.filename}", f"cannot be unpacked ({error})") from None


def _label(path: PurePosixPath, name: str, findings: Findings) -> str | None:
    if path.suffix.lower() not in SUFFIXES:
        problem = f"no image: its name ends in none of {', '.join(sorted(SUFFIXES))}"
    elif len(path.parts) < 2:
        problem = "expected in a folder whose name is its label, such as cats/17.png"
    else:
        return path.parts[-2]
    findings.add_once("value", name, None, problem)
    return None


def _hidden(path: Path | PurePosixPath) -> bool:
    """What systems leave behind: names that begin with a dot, and __MACOSX."""
    return any((part.startswith(".") and part != "..") or part in ("__MACOSX", "Thumbs.db") for part in path.parts)


def idx_pictures(images: Path, labels: Path, findings: Findings) -> Iterator[LabelledPicture]:
    """The images of one file, each with the label that stands at its place in the other."""
    try:
        with ExitStack() as stack:
            pixels, classes = _Items(images, IDX_IMAGES, stack), _Items(labels, IDX_LABELS, stack)
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


def is_idx(file: Path, magic: int = IDX_IMAGES) -> bool:
    """Whether a file begins as an IDX file of images does, or of what else `magic` stands for."""
    try:
        with open_stream(file) as stream:
            return stream.read(4) == struct.pack(">I", magic)
    except READ_ERRORS:
        return False


class _Items:
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
        """DataError where the file has more items than its header says."""
        if self._read(1):
            raise DataError(self.file, f"has more than the {self.count:,} items that its header promises")

    def _header(self, magic: int) -> tuple[int, ...]:
        dimensions = magic & 0xFF
        header = self._read(4 + 4 * dimensions)
        actual = int.from_bytes(header[:4], "big")
        if len(header) >= 4 and actual != magic:
            meaning = f", which means {IDX_CONTENTS[actual]}" if actual in IDX_CONTENTS else ""
            expected = f"expected an IDX file of {IDX_CONTENTS[magic]} (0x{magic:08x})"
            raise DataError(self.file, f"{expected}, it begins with 0x{actual:08x}{meaning}")
        if len(header) < 4 + 4 * dimensions:
            raise DataError(self.file, f"cut short: expected a header of {4 + 4 * dimensions} bytes, got {len(header)}")
        return struct.unpack(f">{dimensions}I", header[4:])

    def _read(self, size: int) -> bytes:
        try:
            return self._stream.read(size)
        except READ_ERRORS as error:
            raise DataError(self.file, why_unreadable(self.file, error)) from None
