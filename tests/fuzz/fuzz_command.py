"""One command line of regard, run inside this process as a shell would run it: arguments, streams, exit code."""

import gc
import os
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO
from unittest.mock import patch


@dataclass(frozen=True)
class Outcome:
    """What a command line did."""

    words: tuple[str, ...]
    code: int
    stdout: bytes
    stderr: str
    seconds: float
    traceback: str = ""
    """Of an exception that the command line let through."""

    @property
    def verb(self) -> str:
        """`train`, `data check`, or `?` where there is none."""
        verb = next((word for word in self.words if not word.startswith("-")), "?")
        return "data check" if verb == "data" else verb


def run_command(words: Sequence[str], stdin: bytes = b"") -> Outcome:
    """Runs `regard WORDS` in the current folder."""
    from regard.cli import main

    problem, code = "", 0
    start = time.perf_counter()
    with TemporaryFile() as into, TemporaryFile() as out, TemporaryFile() as error:
        into.write(stdin)
        into.seek(0)
        with _streams(into, out, error), patch.object(sys, "argv", ["regard", *words]):
            try:
                main()
            except SystemExit as leaving:
                code = leaving.code if isinstance(leaving.code, int) else 0 if leaving.code is None else 1
            except BaseException:  # whatever else would end the program with a traceback
                code, problem = 1, traceback.format_exc()
        seconds = time.perf_counter() - start
        out.seek(0)
        error.seek(0)
        said = error.read().decode(errors="replace")
        return Outcome(tuple(words), code, out.read(), said, seconds, problem)


@contextmanager
def _streams(into: IO[bytes], out: IO[bytes], error: IO[bytes]) -> Iterator[None]:
    """Standard streams of the process, those of its libraries included, are these files."""
    sys.stdout.flush()
    sys.stderr.flush()
    kept = [os.dup(number) for number in range(3)]
    objects = sys.stdin, sys.stdout, sys.stderr
    for number, stream in enumerate((into, out, error)):
        os.dup2(stream.fileno(), number)
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
    try:
        yield
    finally:
        try:
            sys.stdout.flush()
        finally:
            sys.stderr.flush()
            sys.stdin, sys.stdout, sys.stderr = objects
            for number, descriptor in enumerate(kept):
                os.dup2(descriptor, number)
                os.close(descriptor)


@contextmanager
def hastened() -> Iterator[None]:
    """Without the two parts that take longer than all the rest: a picture after each training, and a second process
    that measures threads. Both run as they are in one of twenty sessions."""
    from regard.ctranslate2.model import Workers

    with (
        patch("regard.run.conclusion.curves"),
        patch("regard.ctranslate2.threads.workers_for", lambda *_: Workers(1, 1)),
    ):
        yield


@contextmanager
def inside(folder: Path) -> Iterator[None]:
    """The current folder of a block."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)
        gc.collect()
