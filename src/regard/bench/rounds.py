"""Measurement in rounds: each program runs in a process of its own, and all take turns, so that other load on the
machine affects all alike. The result is the median of the rounds, and their spread.
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
from typing import IO, NotRequired, TypedDict, final

from regard.bench.workloads import SCRIPTS, Program, Workload, flops, lengths, tokens
from regard.errors import Failure

WARM_UP = 2
FULL = ("OutOfMemoryError", "out of memory", "ALLOC_FAILED")
TURN = 0.3
"""Seconds of a turn at least: fast steps are repeated."""

Say = Callable[[str], None]
Ceilings = dict[str, float | str]
"""The machine's peak FLOP/s and bandwidth; a sentence where a measurement failed."""


@final
class Failed(TypedDict):
    work: str
    peer: str
    precision: NotRequired[str]
    threads: NotRequired[int]
    error: str


@final
class Measured(TypedDict):
    work: str
    peer: str
    precision: str
    threads: int
    seconds: dict[str, float]
    """Median, least and most of the rounds."""
    rounds: int
    tokens_per_second: float
    flops_per_second: float
    of_ceiling: float | None
    memory_mib: float | None
    version: str


Row = Measured | Failed
"""A row of the table: a program at a workload."""


class Answer(TypedDict, total=False):
    """What a script answers (scripts/protocol.py)."""

    version: str
    seconds: list[float]
    memory: float | None
    error: str


@dataclass
class Runner:
    """The process of a program at one workload, with one data type and one number of threads."""

    program: Program
    precision: str
    threads: int
    python: str
    seconds: list[float] = field(default_factory=list)
    memory: float | None = None
    version: str = ""
    error: str = ""
    _once: float = 0.0
    """Seconds of the step in the warm-up."""
    _child: "subprocess.Popen[str] | None" = None

    def begin(self, work: Workload, folder: Path) -> None:
        """Starts the process and lets it build its model."""
        threads = dict.fromkeys(("OMP_NUM_THREADS", "RAYON_NUM_THREADS"), str(self.threads))  # torch's, tokenisers'
        assert self.program.file is not None
        command = [self.python, str(self.program.file), *self.program.options]
        path = os.pathsep.join(filter(None, [str(SCRIPTS), os.environ.get("PYTHONPATH")]))  # for `import protocol`
        self._child = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            env={**os.environ, **threads, "PYTHONPATH": path},
        )  # fmt: skip
        request = {"work": work.tree(), "lengths": lengths(work), "precision": self.precision, "threads": self.threads}
        answer = self._request({**request, "folder": str(folder / self.precision)})
        self.version = answer.get("version", "")

    def turn(self, times: int, timed: bool) -> None:
        """Runs the step so often; stores the mean time if it counts, and the fastest otherwise."""
        if self.error:
            return
        answer = self._request({"times": times})
        if "seconds" in answer and timed:
            self.seconds.append(statistics.fmean(answer["seconds"]))
            self.memory = answer.get("memory")
        elif "seconds" in answer:
            self._once = min(answer["seconds"])

    @property
    def times(self) -> int:
        """Repeats of the step in a turn."""
        return max(1, min(200, int(TURN / max(self._once, 1e-6))))

    def end(self) -> None:
        if self._child is not None:
            requests, answers = self._pipes(self._child)
            with suppress(OSError):  # it may be gone already
                requests.close()
            answers.close()
            self._child.wait()

    def _request(self, tree: Mapping[str, object]) -> Answer:
        assert self._child is not None
        requests, answers = self._pipes(self._child)
        try:
            requests.write(json.dumps(tree) + "\n")
            requests.flush()
            line = answers.readline()
        except OSError:
            line = ""
        answer: Answer = json.loads(line) if line else {"error": death(self._child.wait())}
        self.error = answer.get("error", "")
        return answer

    @staticmethod
    def _pipes(child: "subprocess.Popen[str]") -> tuple[IO[str], IO[str]]:
        assert child.stdin is not None
        assert child.stdout is not None
        return child.stdin, child.stdout

    def row(self, work: Workload, ceilings: Ceilings) -> Row:
        name, peer, precision, threads = work.name, self.program.name, self.precision, self.threads
        if self.error or not self.seconds:
            error = self.error or "not measured"
            return {"work": name, "peer": peer, "precision": precision, "threads": threads, "error": error}
        median, rate = statistics.median(self.seconds), flops(work) / statistics.median(self.seconds)
        ceiling = ceilings.get("bfloat16" if precision == "bfloat16" else "float32")
        return {
            "work": name,
            "peer": peer,
            "precision": precision,
            "threads": threads,
            "seconds": {"median": median, "least": min(self.seconds), "most": max(self.seconds)},
            "rounds": len(self.seconds),
            "tokens_per_second": tokens(work) / median,
            "flops_per_second": rate,
            "of_ceiling": rate / ceiling if isinstance(ceiling, float) and precision != "int8" else None,
            "memory_mib": self.memory,
            "version": self.version,
        }


def warm_up(work: Workload, runners: Sequence[Runner], folder: Path) -> None:
    """Starts all processes and runs their first steps, which compile and allocate.

    On a GPU in parallel, as some programs compile for a minute. On a CPU one after another, since some choose their
    number of threads by a measurement.
    """

    def ready(one: Runner) -> None:
        one.begin(work, folder)
        for _ in range(WARM_UP):
            one.turn(1, timed=False)

    with ThreadPoolExecutor(len(runners) if work.device == "cuda" and runners else 1) as pool:
        list(pool.map(ready, runners))
    for one in runners:
        if any(sign in one.error for sign in FULL):  # too many at once; in its turn a program has the GPU to itself
            one.end()
            ready(one)


def death(code: int) -> str:
    """Why a process ended, as a sentence."""
    if code == -signal.SIGILL:
        return "refused by this machine: it announces instructions that it does not let run (SIGILL)"
    return f"its process was killed by signal {-code}" if code < 0 else f"its process ended with code {code}"


def measure(work: Workload, runners: Sequence[Runner], rounds: int, ceilings: Ceilings) -> list[Row]:
    with converted(work, any(one.program.converted for one in runners)) as folder:
        try:
            warm_up(work, runners, folder)
            for number in range(rounds):
                for one in runners if number % 2 == 0 else reversed(runners):
                    one.turn(one.times, timed=True)
        finally:
            for one in runners:
                one.end()
    return [one.row(work, ceilings) for one in runners]


@contextmanager
def converted(work: Workload, needed: bool) -> Iterator[Path]:
    """A temporary folder with the workload's model in CTranslate2's format, where a program needs it."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if needed:
            command = [sys.executable, str(SCRIPTS / "convert.py"), json.dumps(work.tree()), name]
            process = subprocess.run(command, capture_output=True, text=True, check=False)
            if process.returncode:
                raise Failure(
                    f"{work.name}: its model could not be converted: {process.stderr.strip().splitlines()[-1]}"
                )
        yield folder


def ceilings(device: str, threads: int, quick: bool) -> Ceilings:
    peaks: Ceilings = {}
    for quantity in ("float32", "bfloat16", "bandwidth"):
        arguments = [quantity, device, str(threads), "quick" if quick else "full"]
        command = [sys.executable, str(SCRIPTS / "ceilings.py"), *arguments]
        process = subprocess.run(command, capture_output=True, text=True, check=False)
        peaks[quantity] = float(process.stdout) if process.returncode == 0 else death(process.returncode)
    return peaks
