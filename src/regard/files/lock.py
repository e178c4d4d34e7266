"""One run, one lock: two processes never train in the same folder.

It is an flock, which the operating system releases when the process ends, however it ends; so a lock is never stale,
and the file's contents only serve the error message.
"""

import fcntl
import os
import socket
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Self
from weakref import WeakSet

from regard.errors import RunError
from regard.files.atomic import report_disk_errors
from regard.files.run_folder import LOCK_FILE
from regard.files.strict_json import table_from_json, to_json

RECORD_LIMIT = 1000  # bytes, far more than a pid, a host and a time take


class RunLock:
    """Holds the lock of a run folder for the length of a `with` block; of several ranks, only rank 0 takes it."""

    def __init__(self, folder: Path, *, rank: int = 0) -> None:
        self.folder = folder
        self.file = folder / LOCK_FILE
        self.rank = rank
        self._descriptor: int | None = None

    def __enter__(self) -> Self:
        if self.rank == 0:
            self._descriptor = self._acquire()
            _locks.add(self)
            self._write(to_json({"pid": os.getpid(), "host": socket.gethostname(), "since": _now()}))
        return self

    def __exit__(self, *_: object) -> None:
        if self._descriptor is not None:
            with suppress(OSError):  # a disk that became read-only is no reason to fail now
                os.ftruncate(self._descriptor, 0)
            self.release()  # the file stays: if it were removed, two processes could lock two files

    def _acquire(self) -> int:
        descriptor = _open(self.file)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not _is_same_file(descriptor, self.file):  # the last holder removed its new folder
                os.close(descriptor)
                return self._acquire()
        except BlockingIOError:
            holder = _describe_holder(os.pread(descriptor, RECORD_LIMIT, 0))
            os.close(descriptor)
            raise RunError(f"{self.folder} is being trained by {holder}; wait, or choose another --out") from None
        except OSError as error:
            os.close(descriptor)
            raise RunError(
                f"{self.folder}: the file system cannot lock files ({error.strerror}); choose an --out on another one"
            ) from None
        return descriptor

    def _write(self, record: str) -> None:
        assert self._descriptor is not None
        try:
            with report_disk_errors("the lock", self.folder, len(record)):
                os.ftruncate(self._descriptor, 0)
                os.pwrite(self._descriptor, record.encode(), 0)
        except BaseException:
            self.release()
            raise

    def release(self) -> None:
        """Releases it in this process only: an explicit unlock in a forked child would release the parent's too."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
            _locks.discard(self)


_locks: WeakSet[RunLock] = WeakSet()


def _release_in_child() -> None:
    """A child that outlives a killed parent must not keep the lock."""
    for lock in tuple(_locks):
        lock.release()


os.register_at_fork(after_in_child=_release_in_child)


def _is_same_file(descriptor: int, file: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), file.stat())
    except FileNotFoundError:
        return False


def _open(file: Path) -> int:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        return os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise RunError(f"{file}: cannot be written ({error.strerror}); choose another --out") from None


def _describe_holder(contents: bytes) -> str:
    try:
        record = table_from_json(contents)
        return f"process {record['pid']} on {record['host']} since {record['since']}"
    except (ValueError, KeyError):
        return "another process"


def _now() -> str:
    return datetime.now().astimezone().strftime("%Y-%m-%d %H:%M")
