"""A long piece of work cut into parts that any number of processes share, and that can be killed at any moment.

    FOLDER/ manifest.json  part-000000.txt  part-000001.txt  …

The manifest says what is asked for; who comes with something else is refused. A part is taken under a lock which the
operating system frees when its holder is gone, however it went; it is written aside and renamed when it is whole. So
a part that is there is finished, none is made twice, and processes may come, go and die: started again, they do what
is missing. They need nothing but the folder in common, not even to be started together.
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
"""Seconds between two looks at parts that others are making."""


@dataclass(frozen=True)
class Parts:
    """The parts of one piece of work in a folder."""

    folder: Path
    lines: int
    lines_per_part: int
    suffix: str

    @classmethod
    def open(cls, folder: Path, asked: Mapping[str, Any], lines: int, lines_per_part: int, suffix: str) -> "Parts":
        """Begins the work in an empty folder, or goes on with it; RunError where something else was begun there."""
        wanted = {"format": FORMAT, "lines": lines, "lines_per_part": lines_per_part, "suffix": suffix, **asked}
        with _written(folder, MANIFEST_FILE):
            folder.mkdir(parents=True, exist_ok=True)
        with _locked(folder / LOCK_FILE, wait=True), _written(folder, MANIFEST_FILE):  # others begin at the same time
            if not (folder / MANIFEST_FILE).exists():
                _refuse_strangers(folder)
                with atomic_writer(folder / MANIFEST_FILE) as stream:
                    stream.write(f"{to_json(wanted, indent=1)}\n".encode())
        _refuse_change(folder / MANIFEST_FILE, wanted)
        return cls(folder, lines, lines_per_part, suffix)

    def __len__(self) -> int:
        return -(-self.lines // self.lines_per_part)

    def file(self, number: int) -> Path:
        """Where a part stands once it is finished."""
        return self.folder / f"part-{number:06d}{self.suffix}"

    def missing(self) -> list[int]:
        """The parts that are not finished."""
        return [number for number in range(len(self)) if not self.file(number).exists()]

    def work(self, read: Callable[[], Iterable[str]], make: Callable[[int, list[str]], bytes]) -> int:
        """Makes what is missing, and waits for what others make; how many parts were made here.

        `read` gives all lines from the first on, `make` the contents of a part from the number of its first line,
        counted from zero, and its lines.
        """
        made = 0
        while missing := set(self.missing()):
            before = made
            for number, lines in enumerate(_cut(read(), self.lines_per_part)):
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
        with _locked(lock) as mine:
            if not mine:
                return False
            missing = not file.exists()
            if missing:
                contents = make(number * self.lines_per_part, lines)
                with _written(self.folder, file.name), atomic_writer(file) as stream:
                    stream.write(contents)
            lock.unlink(missing_ok=True)  # whoever locks this file now, or a new one of its name, finds the part
            return missing


@contextmanager
def _locked(name: Path, wait: bool = False) -> Iterator[bool]:
    """Whether this process holds a lock and nobody else does; let go at the end of the block, or of the process."""
    with _written(name.parent, name.name):
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


def _cut(lines: Iterable[str], size: int) -> Iterator[list[str]]:
    remaining = iter(lines)
    while part := list(islice(remaining, size)):
        yield part


def _refuse_strangers(folder: Path) -> None:
    found = next((path.name for path in sorted(folder.iterdir()) if not path.name.startswith(".")), None)
    if found is not None:
        raise RunError(f"{folder}: holds '{found}' and no {MANIFEST_FILE}, so it is not ours; choose another --out")


def _refuse_change(manifest: Path, wanted: Mapping[str, Any]) -> None:
    try:
        begun = from_json(read_small(manifest))
    except (OSError, ValueError) as error:
        raise RunError(f"{manifest}: cannot be read ({error}); choose another --out") from None
    if not isinstance(begun, dict):
        raise RunError(f"{manifest}: does not say what is made here; choose another --out")
    for name in sorted({*begun, *wanted}):
        if begun.get(name) != from_json(to_json(wanted.get(name))):
            raise RunError(
                f"{manifest.parent}: was begun with another {name.replace('_', ' ')}: {_short(begun.get(name))} there, "
                f"{_short(wanted.get(name))} now; ask for the same again, or choose another --out"
            )


def _short(value: object) -> str:
    text = to_json(value)
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 1]}…"


@contextmanager
def _written(folder: Path, what: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise Failure(
            f"{folder}: {what} could not be written ({error.strerror}); finished parts are kept: mend this, then give "
            "the same command again"
        ) from error
