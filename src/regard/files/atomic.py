"""Atomic writes: after a kill, a power cut or on a full disk, a file has its old or its new contents, whole."""

import errno
import os
import re
import shutil
from collections.abc import Generator
from contextlib import contextmanager, suppress
from hashlib import file_digest
from pathlib import Path
from typing import BinaryIO

from safetensors import SafetensorError

from regard.errors import Failure


@contextmanager
def report_disk_errors(what: str, folder: Path, needed: int) -> Generator[None]:
    """Turns an error of the disk into a Failure that says how many bytes are needed and how many are free."""
    try:
        yield
    except (OSError, SafetensorError) as error:
        raise Failure(
            f"{folder}: {what} could not be written ({_reason(error)}); it needs {needed:,} bytes and {_free(folder)} "
            "there; what was saved before is untouched: mend this, then resume with --resume"
        ) from error


def require_free_space(folder: Path, needed: int) -> None:
    """Raises the error of a full disk before a byte is written; a file system that reports no size is trusted."""
    usage = shutil.disk_usage(folder)
    if usage.total and usage.free < needed:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _free(folder: Path) -> str:
    try:
        return f"{shutil.disk_usage(folder).free:,} are free"
    except OSError:
        return "nothing can be written"


def _reason(error: OSError | SafetensorError) -> str:
    """The operating system's message, of which safetensors passes on only the number: `(os error 28)`."""
    if isinstance(error, OSError):
        return error.strerror or str(error)
    code = re.search(r"\(os error (\d+)\)", str(error))
    return os.strerror(int(code[1])) if code else str(error)


@contextmanager
def atomic_writer(file: Path) -> Generator[BinaryIO]:
    """A stream whose contents replace the file, all at once, when the block ends without an error."""
    aside = file.with_name(f".{file.name}.new")
    try:
        with aside.open("wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        aside.replace(file)
        sync_folder(file.parent)
    finally:
        with suppress(OSError):
            aside.unlink(missing_ok=True)


def write_atomic(file: Path, contents: str | bytes) -> None:
    """Replaces a file's contents, all at once; Failure where the disk refuses."""
    data = contents.encode() if isinstance(contents, str) else contents
    with report_disk_errors(file.name, file.parent, len(data)), atomic_writer(file) as stream:
        stream.write(data)


def sync_file(file: Path) -> None:
    """Waits until the file is on the disk, and drops it from the page cache: reading it back reads the disk."""
    with file.open("rb+") as stream:
        os.fsync(stream.fileno())
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def sync_folder(folder: Path) -> None:
    """Waits until the folder's entries are on the disk, where the file system supports it."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(descriptor)


def sha256_of(file: Path) -> str:
    with file.open("rb") as stream:
        return file_digest(stream, "sha256").hexdigest()


def remove_folder(folder: Path) -> None:
    """Removes a folder, if there is one, by a single rename first: nobody ever finds it half removed.

    What cannot go yet, because another process still reads it over a network, is left to `tidy`.
    """
    if not folder.exists():
        return
    removed = folder.with_name(f".{folder.name}.removed")
    shutil.rmtree(removed, ignore_errors=True)
    folder.rename(removed)
    shutil.rmtree(removed, ignore_errors=True)


def remove_leftovers(folder: Path) -> None:
    """Removes what processes that ended left behind in a folder, half written or half removed."""
    for path in (*folder.glob(".*.saving"), *folder.glob(".*.removed")):
        shutil.rmtree(path, ignore_errors=True)
