"""Outputs for the lines of a file, written as parts into a folder that any number of processes share.

    FOLDER/ manifest.json  part-000000.txt  part-000001.txt  …

The manifest holds the request; another request is refused. A part is made under a lock which the operating system
releases when its holder ends, however it ends; it is written aside and renamed when it is whole. So a part that exists
is finished, none is made twice, and processes may start and die at any time: restarted, they do what is missing. They
share nothing but the folder. No torch is loaded here, so that CTranslate2 starts sooner.
"""

import fcntl
import io
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Literal

from regard.config.values import is_table
from regard.data.findings import Findings
from regard.data.lines import input_lines, unreadable
from regard.errors import Failure, RunError
from regard.files.atomic import atomic_writer, sha256_of
from regard.files.manifest import read_small
from regard.files.run_folder import LOCK_FILE, MANIFEST_FILE
from regard.files.strict_json import from_json, to_json
from regard.text.inputs import Overlong
from regard.text.outputs import Output
from regard.text.splitting import Splitting, translate_by_sentence

FORMAT = 1
SHOWN = 80  # characters of a setting in a sentence
PAUSE = 0.5
"""Seconds between two checks for parts that others are making."""
PartFormat = Literal["text", "json", "parquet"]
SUFFIXES: dict[PartFormat, str] = {"text": ".txt", "json": ".jsonl", "parquet": ".parquet"}
LINES_AT_ONCE = 1024
"""Lines that are translated together; groups do not depend on the number of processes."""
LINES_PER_PART = 1024

Write = Callable[[list[str], bool], list[list[Output]]]
"""The translations of each text, best first; and whether to cut those that are too long, which are errors otherwise."""
Note = Callable[[str, tuple[object, int]], Mapping[str, object]]
"""Notes about a text beside its translation, by the text, its file and line."""


def write_file(
    write: Write,
    request: Mapping[str, object],
    file: Path,
    folder: Path,
    to: PartFormat,
    lines_per_part: int,
    overlong: Overlong = "error",
    say: Callable[[str], None] = lambda sentence: None,
    splitting: Splitting | None = None,
    note: Note = lambda text, origin: {},
) -> tuple[int, int]:
    """Translates a file into the parts of a folder; returns how many were made here, and how many there are.

    `request` is all that the result depends on beside the input, its splitting and the format. Lines that are too long
    are reported to `say`, unless they are an error; JSON also has what `note` returns for a line.
    """

    unreadable([file], Findings())

    def read() -> Iterator[str]:
        return (line.text for line in input_lines(file))

    count = sum(1 for _ in read())  # reads all of it, so that a line that is not text is known before the work begins
    split = None if splitting is None else asdict(splitting)
    manifest = {"input": sha256_of(file), "output": to, "split": split, **request}
    parts = Parts.open(folder, manifest, count, lines_per_part, SUFFIXES[to])
    made = parts.work(read, maker(write, to, lambda index: (file, index + 1), overlong, say, splitting, note))
    return made, len(parts)


def maker(
    write: Write,
    to: PartFormat,
    origin: Callable[[int], tuple[object, int]],
    overlong: Overlong = "error",
    say: Callable[[str], None] = lambda sentence: None,
    splitting: Splitting | None = None,
    note: Note = lambda text, origin: {},
) -> Callable[[int, list[str]], bytes]:
    """A function that makes the contents of a part; `origin` gives file and line of a text by its index."""

    def make(first: int, texts: list[str]) -> bytes:
        remaining, outputs, notes = iter(texts), list[list[Output]](), list[Mapping[str, object]]()
        while batch := list(islice(remaining, LINES_AT_ONCE)):
            start = first + len(outputs)
            origins = [origin(start + index) for index in range(len(batch))]
            outputs += translate_by_sentence(batch, write, origins, overlong, say, splitting)[0]
            notes += map(note, batch, origins)
        if to == "parquet":
            return _parquet(first, texts, outputs)
        lines = map(json_line, texts, outputs, notes) if to == "json" else map(text_line, texts, outputs)
        return "".join(f"{line}\n" for line in lines).encode()

    return make


def text_line(text: str, outputs: Sequence[Output]) -> str:
    """The translations of a line, best first, between tabs; they never take more than one line."""
    texts = (output.text for output in outputs)
    return "\t".join(" ".join(one.splitlines()) if "\n" in one or "\r" in one else one for one in texts)


def json_line(text: str, outputs: Sequence[Output], notes: Mapping[str, object]) -> str:
    return json.dumps({"source": text, "outputs": [vars(output) for output in outputs], **notes}, ensure_ascii=False)


def _parquet(first: int, texts: list[str], outputs: list[list[Output]]) -> bytes:
    """A row for each translation of a line; lines and ranks count from one."""
    import pyarrow as pa  # here, as other formats do not wait for it
    import pyarrow.parquet as pq

    kinds = {"line": pa.int64(), "rank": pa.int32(), "source": pa.string(), "text": pa.string(), "score": pa.float64()}
    rows = [
        {"line": first + number, "rank": rank, "source": text, "text": output.text, "score": output.score}
        for number, (text, ranked) in enumerate(zip(texts, outputs, strict=True), start=1)
        for rank, output in enumerate(ranked, start=1)
    ]
    stream = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows, pa.schema(list(kinds.items()))), stream)
    return stream.getvalue()


# Parts that several processes make


@dataclass(frozen=True)
class Parts:
    """The parts of one piece of work in a folder."""

    folder: Path
    lines: int
    lines_per_part: int
    suffix: str

    @classmethod
    def open(cls, folder: Path, request: Mapping[str, object], lines: int, lines_per_part: int, suffix: str) -> "Parts":
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
        return self.folder / f"part-{number:06d}{self.suffix}"

    def missing(self) -> list[int]:
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


def _refuse_change(file: Path, manifest: Mapping[str, object]) -> None:
    try:
        begun = from_json(read_small(file))
    except (OSError, ValueError) as error:
        raise RunError(f"{file}: cannot be read ({error}); choose another --out") from None
    if not is_table(begun):
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
