"""A long piece of work cut into parts that any number of processes share, and that can be killed at any moment.

    FOLDER/ manifest.json  part-000000.txt  part-000001.txt  …

The manifest holds the request; another request is refused. A part is made under a lock which the operating system
releases when its holder ends, however it ends; it is written aside and renamed when it is whole. So a part that exists
is finished, none is made twice, and processes may start and die at any time: restarted, they do what is missing. They
share nothing but the folder.
"""

import fcntl
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from regard.errors import Failure, RunError
from regard.files.atomic import atomic_writer
from regard.files.manifest import read_small
from regard.files.run_folder import LOCK_FILE, MANIFEST_FILE
from regard.files.strict_json import from_json, to_json

FORMAT = 1
SHOWN = 80  # characters of a setting in a sentence
PAUSE = 0.5
"""Seconds between two checks for parts that others are making."""


@dataclass(frozen=True)
class Parts:
    """The parts of one piece of work in a folder."""

    folder: Path
    lines: int
    lines_per_part: int
    suffix: str

    @classmethod
    def open(cls, folder: Path, request: Mapping[str, Any], lines: int, lines_per_part: int, suffix: str) -> "Parts":
        """Begins the work in an empty folder, or resumes it; RunError where other work was begun there."""
        manifest = {"format": FORMAT, "lines": lines, "lines_per_part": lines_per_part, "suffix": suffix, **request}
        with _report_write_errors(folder, MANIFEST_FILE):
            folder.mkdir(parents=True, exist_ok=True)
        with _locked(folder / LOCK_FILE, wait=True), _report_write_errors(folder, MANIFEST_FILE):  # others begin too
            if not (folder / MANIFEST_FILE).exists():
                _refuse_foreign(folder)
                with atomic_writer(folder / MANIFEST_FILE) as stream:
                    stream.write(f"{to_json(manifest, indent=1)}\n".encode())
        _refuse_change(folder / MANIFEST_FILE, manifest)
        return cls(folder, lines, lines_per_part, suffix)

    def __len__(self) -> int:
        return -(-self.lines // self.lines_per_part)

    def file(self, number: int) -> Path:
        """The path of a finished part."""
        return self.folder / f"part-{number:06d}{self.suffix}"

    def missing(self) -> list[int]:
        """The parts that are not finished."""
        return [number for number in range(len(self)) if not self.file(number).exists()]

    def work(self, read: Callable[[], Iterable[str]], make: Callable[[int, list[str]], bytes]) -> int:
        """Makes the missing parts, and waits for those of others; returns how many were made here.

        `read` gives all lines from the first on, `make` the contents of a part from the number of its first line,
        counted from zero, and its lines.
        """
        made = 0
        while missing := set(self.missing()):
            before = made
            for number, lines in enumerate(_chunks(read(), self.lines_per_part)):
                if number in missing:
                    made += self._make(number, lines, make)
            if made == before and self.missing():
                time.sleep(PAUSE)
        return made

    def _make(self, number: int, lines: list[str], make: Callable[[int, list[str]], bytes]) -> bool:
        file = self.file(number)
        if file.exists():
            return False
        lock = file.with_name(f".{file.name}.lock")
        with _locked(lock) as acquired:
            if not acquired:
                return False
            missing = not file.exists()
            if missing:
                contents = make(number * self.lines_per_part, lines)
                with _report_write_errors(self.folder, file.name), atomic_writer(file) as stream:
                    stream.write(contents)
            lock.unlink(missing_ok=True)  # whoever locks this file now, or a new one of its name, finds the part
            return missing


@contextmanager
def _locked(name: Path, wait: bool = False) -> Iterator[bool]:
    """Whether this process got the lock; released at the end of the block, or of the process."""
    with _report_write_errors(name.parent, name.name):
        lock = name.open("wb")
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
            held = True
        except BlockingIOError:
            held = False
        except OSError as error:
            raise RunError(
                f"{name}: the file system cannot lock files ({error.strerror}); choose another --out"
            ) from None
        yield held


def _chunks(lines: Iterable[str], size: int) -> Iterator[list[str]]:
    remaining = iter(lines)
    while part := list(islice(remaining, size)):
        yield part


def _refuse_foreign(folder: Path) -> None:
    name = next((path.name for path in sorted(folder.iterdir()) if not path.name.startswith(".")), None)
    if name is not None:
        raise RunError(f"{folder}: holds '{name}' and no {MANIFEST_FILE}, so it is not ours; choose another --out")


def _refuse_change(file: Path, manifest: Mapping[str, Any]) -> None:
    try:
        begun = from_json(read_small(file))
    except (OSError, ValueError) as error:
        raise RunError(f"{file}: cannot be read ({error}); choose another --out") from None
    if not isinstance(begun, dict):
        raise RunError(f"{file}: does not say what is made here; choose another --out")
    for name in sorted({*begun, *manifest}):
        if begun.get(name) != from_json(to_json(manifest.get(name))):
            raise RunError(
                f"{file.parent}: was begun with another {name.replace('_', ' ')}: {_short(begun.get(name))} there, "
                f"{_short(manifest.get(name))} now; ask for the same again, or choose another --out"
            )


def _short(value: object) -> str:
    text = to_json(value)
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 1]}…"


@contextmanager
def _report_write_errors(folder: Path, what: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise Failure(
            f"{folder}: {what} could not be written ({error.strerror}); finished parts are kept: mend this, then give "
            "the same command again"
        ) from error
