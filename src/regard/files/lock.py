"""One run, one lock: two processes never train in the same folder.

The operating system holds the lock (flock) and frees it when the process ends, however it ends; so a lock is never
stale, and what the file says of its holder only serves the message.
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
from regard.files.strict_json import from_json, to_json

RECORD_LIMIT = 1000  # bytes, far more than a pid, a host and a time take


class RunLock:
    """Holds the lock of a run folder for the length of a `with` block; of several ranks, only the first takes it."""

    def __init__(self, folder: Path, *, rank: int = 0) -> None:
        self.folder = folder
        self.file = folder / LOCK_FILE
        self.rank = rank
        self._descriptor: int | None = None

    def __enter__(self) -> Self:
        if self.rank == 0:
            self._descriptor = self._taken()
            _held.add(self)
            self._write(to_json({"pid": os.getpid(), "host": socket.gethostname(), "since": _now()}))
        return self

    def __exit__(self, *_: object) -> None:
        if self._descriptor is not None:
            with suppress(OSError):  # a disk that became read-only is no reason to fail now
                os.ftruncate(self._descriptor, 0)
            self._close()  # and the file stays: were it removed, two processes could lock two files

    def _taken(self) -> int:
        descriptor = _opened(self.file)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not _is_at(descriptor, self.file):  # its last holder removed the folder that it had made
                os.close(descriptor)
                return self._taken()
        except BlockingIOError:
            holder = _holder(os.pread(descriptor, RECORD_LIMIT, 0))
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
            self._close()
            raise

    def _close(self) -> None:
        """Lets go in this process. An explicit unlock would also free the lock of the parent of a forked child."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
            _held.discard(self)


_held: WeakSet[RunLock] = WeakSet()


def _let_go_in_child() -> None:
    """A child that outlives a killed parent must not keep the lock: it closes what it inherited."""
    for lock in tuple(_held):
        lock._close()


os.register_at_fork(after_in_child=_let_go_in_child)


def _is_at(descriptor: int, file: Path) -> bool:
    """Whether a name still means the file that was opened under it."""
    try:
        return os.path.samestat(os.fstat(descriptor), file.stat())
    except FileNotFoundError:
        return False


def _opened(file: Path) -> int:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        return os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise RunError(f"{file}: cannot be written ({error.strerror}); choose another --out") from None


def _holder(record: bytes) -> str:
    try:
        found = from_json(record)
        return f"process {found['pid']} on {found['host']} since {found['since']}"
    except (ValueError, KeyError, TypeError):
        return "another process"


def _now() -> str:
    return datetime.now().astimezone().strftime("%Y-%m-%d %H:%M")
