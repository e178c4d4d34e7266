"""Measuring in turns: each program in a process of its own, all asked round after round, so that whatever else the
machine does meets all alike. What is kept is the median of the rounds, and how far they lie apart.
"""

import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from regard.bench.programs import SCRIPTS, Program
from regard.bench.works import Work, flops, lengths, tokens
from regard.errors import Failure

WARM_UP = 2
FULL = ("OutOfMemoryError", "out of memory", "ALLOC_FAILED")
TURN = 0.3
"""Seconds that a turn takes at least, where one call takes less."""

Row = dict[str, Any]
Say = Callable[[str], None]


@dataclass
class Contestant:
    """A program at one work, with one number format and one number of threads."""

    program: Program
    precision: str
    threads: int
    python: str
    seconds: list[float] = field(default_factory=list)
    memory: float | None = None
    version: str = ""
    error: str = ""
    _child: "subprocess.Popen[str] | None" = None

    def begin(self, work: Work, folder: Path) -> None:
        """Starts the process and lets it build its model."""
        threads = dict.fromkeys(("OMP_NUM_THREADS", "RAYON_NUM_THREADS"), str(self.threads))  # torch's, tokenisers'
        words = [self.python, str(SCRIPTS / f"{self.program.script}.py"), *self.program.options]
        self._child = subprocess.Popen(
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, **threads},
        )
        asked = {"work": work.tree(), "lengths": lengths(work), "precision": self.precision, "threads": self.threads}
        answer = self._ask({**asked, "folder": str(folder / self.precision)})
        self.version = str(answer.get("version", ""))

    def turn(self, times: int, kept: bool) -> None:
        """Does the work so often; remembers the time of one where it is kept."""
        if self.error:
            return
        answer = self._ask({"times": times})
        if kept and not self.error:
            self.seconds.append(statistics.fmean(answer["seconds"]))
            self.memory = answer["memory"]
        elif not self.error:
            self._once = min(answer["seconds"])

    _once = 0.0

    @property
    def times(self) -> int:
        """How often the work is done in a turn."""
        return max(1, min(200, int(TURN / max(self._once, 1e-6))))

    def end(self) -> None:
        """Ends the process."""
        if self._child is not None:
            assert self._child.stdin is not None
            assert self._child.stdout is not None
            with suppress(OSError):  # it may be gone already
                self._child.stdin.close()
            self._child.stdout.close()
            self._child.wait()

    def _ask(self, tree: Mapping[str, Any]) -> Mapping[str, Any]:
        assert self._child is not None
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        try:
            self._child.stdin.write(json.dumps(tree) + "\n")
            self._child.stdin.flush()
            line = self._child.stdout.readline()
        except OSError:
            line = ""
        answer = json.loads(line) if line else {"error": death(self._child.wait())}
        self.error = str(answer.get("error", ""))
        return answer

    def row(self, work: Work, ceilings: Mapping[str, Any]) -> Row:
        """What was found, for the table."""
        row: Row = {"work": work.name, "peer": self.program.name, "precision": self.precision, "threads": self.threads}
        if self.error or not self.seconds:
            return {**row, "error": self.error or "not measured"}
        median, rate = statistics.median(self.seconds), flops(work) / statistics.median(self.seconds)
        ceiling = ceilings.get("bfloat16" if self.precision == "bfloat16" else "float32")
        return {
            **row,
            "seconds": {"median": median, "least": min(self.seconds), "most": max(self.seconds)},
            "rounds": len(self.seconds),
            "tokens_per_second": tokens(work) / median,
            "flops_per_second": rate,
            "of_ceiling": rate / ceiling if isinstance(ceiling, float) and self.precision != "int8" else None,
            "memory_mib": self.memory,
            "version": self.version,
        }


def warm_up(work: Work, contestants: Sequence[Contestant], folder: Path) -> None:
    """Lets all build their models and do the work until nothing is new to them.

    On a GPU side by side: many a program compiles for a minute, and the cores beside a GPU have little else to do. On
    a processor one after the other, since some choose their number of threads by what they measure now.
    """

    def ready(one: Contestant) -> None:
        one.begin(work, folder)
        for _ in range(WARM_UP):
            one.turn(1, kept=False)

    with ThreadPoolExecutor(len(contestants) if work.device == "cuda" and contestants else 1) as pool:
        list(pool.map(ready, contestants))
    for one in contestants:
        if any(sign in one.error for sign in FULL):  # all at once were too many, but turns are taken one by one
            one.end()
            ready(one)


def death(code: int) -> str:
    """Why a process is gone, for people."""
    if code == -signal.SIGILL:
        return "refused by this machine: it announces instructions that it does not let run (SIGILL)"
    return f"its process was killed by signal {-code}" if code < 0 else f"its process ended with code {code}"


def measure(work: Work, contestants: Sequence[Contestant], rounds: int, ceilings: Mapping[str, Any]) -> list[Row]:
    """All contestants at one work, in turns."""
    with converted(work, any(one.program.converted for one in contestants)) as folder:
        try:
            warm_up(work, contestants, folder)
            for number in range(rounds):
                for one in contestants if number % 2 == 0 else reversed(contestants):
                    one.turn(one.times, kept=True)
        finally:
            for one in contestants:
                one.end()
    return [one.row(work, ceilings) for one in contestants]


@contextmanager
def converted(work: Work, wanted: bool) -> Iterator[Path]:
    """A folder with the work's model as CTranslate2 takes it, where somebody needs it."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if wanted:
            words = [sys.executable, str(SCRIPTS / "convert.py"), json.dumps(work.tree()), name]
            done = subprocess.run(words, capture_output=True, text=True, check=False)
            if done.returncode:
                raise Failure(f"{work.name}: its model could not be converted: {done.stderr.strip().splitlines()[-1]}")
        yield folder


def ceilings(device: str, threads: int, quick: bool) -> dict[str, float | str]:
    """What the machine can do at most; a sentence where it refuses."""
    found: dict[str, float | str] = {}
    for what in ("float32", "bfloat16", "bandwidth"):
        words = [sys.executable, str(SCRIPTS / "ceilings.py"), what, device, str(threads), "quick" if quick else "full"]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        found[what] = float(done.stdout) if done.returncode == 0 else death(done.returncode)
    return found
