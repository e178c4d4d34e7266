"""Class folders, on the disk or in a .zip: the folder in which an image lies is its label."""

import zipfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path, PurePosixPath

from regard.data.examples import LabelledPicture, Picture, SourceLocation
from regard.data.findings import Findings
from regard.data.images.decoding import MOST_BYTES
from regard.errors import DataError

SUFFIXES = {".png", ".jpg", ".jpeg", ".gif", ".bmp", ".webp", ".ppm", ".pgm", ".pnm", ".tif", ".tiff"}
BROKEN_ZIP = (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, OSError, ValueError)
"""Whatever reading a damaged, encrypted or strangely packed .zip raises."""


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
            members = sorted((member for member in archive.infolist() if not member.is_dir()), key=_name)
            for number, member in enumerate(members, start=1):
                yield from _member(file, archive, member, number, findings)
    except BROKEN_ZIP as error:
        findings.add_once("unreadable", file, None, f"not a .zip file, or a damaged one ({error})")


def read_image(file: Path) -> bytes:
    """The bytes of an image's file."""
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
    """The folder that an image lies in."""
    if path.suffix.lower() not in SUFFIXES:
        findings.add_once("value", name, None, f"no image: its name ends in none of {', '.join(sorted(SUFFIXES))}")
        return None
    if len(path.parts) < 2:
        findings.add_once("value", name, None, "expected in a folder whose name is its label, such as cats/17.png")
        return None
    return path.parts[-2]


def _hidden(path: Path | PurePosixPath) -> bool:
    """What systems leave behind: names that begin with a dot, and __MACOSX."""
    return any((part.startswith(".") and part != "..") or part in ("__MACOSX", "Thumbs.db") for part in path.parts)


def _name(member: zipfile.ZipInfo) -> str:
    return member.filename
