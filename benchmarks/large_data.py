"""How long large data takes from the command to the first step: seconds of each phase, and peak memory.

    python benchmarks/large_data.py                          2.6 million pairs: the software strings, ten times
    python benchmarks/large_data.py --times 1                a tenth of it
    python benchmarks/large_data.py --held-out               without validation data: a part is held out
    python benchmarks/large_data.py --json measurement.json

The recipe names only task and data. Every line gets a number, so that no pair repeats. `regard train` runs in a
process of its own, which ends after the first step. CPU seconds are user and system, of all threads and processes;
memory is resident, of the process and its children together.
"""

import argparse
import functools
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

DATA = Path(os.environ.get("REGARD_DATA", "data")) / "software-en-de"
RECIPE = """task = "translation"
[data]
train = {{ source = "train.en", target = "train.de" }}
{valid}"""
VALID = 'valid = { source = "valid.en", target = "valid.de" }\n'
MEBIBYTE = 1 << 20


def main() -> None:
    if sys.argv[1:2] == ["--worker"]:
        work(Path(sys.argv[2]), sys.argv[3:])
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA, help="folder with train and valid, .en.zst and .de.zst")
    parser.add_argument("--times", type=int, default=10, help="how often the pairs are repeated, each with its number")
    parser.add_argument("--held-out", action="store_true", help="name no validation data")
    parser.add_argument("--folder", type=Path, help="where to work, and to keep the data; by default a temporary one")
    parser.add_argument("--json", type=Path, help="where to write the figures as JSON")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as name:
        folder = arguments.folder or Path(name)
        pairs, size = write_data(arguments.data, folder, arguments.times)
        (folder / "mine.toml").write_text(RECIPE.format(valid="" if arguments.held_out else VALID), encoding="utf-8")
        figures = measured(folder / "mine.toml", Path(name) / "run")
    figures = {"pairs": pairs, "bytes": size, "held_out": arguments.held_out, **machine(), **figures}
    show(figures)
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


def machine() -> dict[str, object]:
    return {
        "date": time.strftime("%Y-%m-%d"),
        "cores": len(os.sched_getaffinity(0)),
        "python": platform.python_version(),
    }


def show(figures: dict) -> None:
    print(f"{figures['pairs']:,} pairs, {figures['bytes'] / 1e6:,.0f} MB, {figures['cores']} cores")
    print(f"{'phase':34} {'seconds':>8} {'CPU s':>8} {'peak MB':>8}")
    for name, (seconds, cpu, peak) in figures["phases"].items():
        print(f"{name:34} {seconds:8.1f} {cpu:8.1f} {peak:8.0f}")
    print(f"{'to the first step':34} {figures['seconds']:8.1f} {figures['cpu']:8.1f} {figures['peak']:8.0f}")


# The data


def write_data(data: Path, folder: Path, times: int) -> tuple[int, int]:
    """Writes the files where they are not there yet; the number of pairs and their bytes."""
    from regard.data.lines import open_stream

    for language in ("en", "de"):
        with open_stream(data / f"train.{language}.zst") as stream:
            lines = stream.read().split(b"\n")[:-1]
        file = folder / f"train.{language}"
        if not file.exists():
            with file.open("wb") as stream:
                for turn in range(times):
                    first = turn * len(lines) + 1
                    stream.writelines(b"%s %d\n" % (line, number) for number, line in enumerate(lines, start=first))
        with open_stream(data / f"valid.{language}.zst") as stream:
            (folder / f"valid.{language}").write_bytes(stream.read())
    return len(lines) * times, sum((folder / f"train.{language}").stat().st_size for language in ("en", "de"))


# The command, watched from outside


def measured(recipe: Path, out: Path) -> dict:
    """Runs the command up to its first step; seconds of each phase, and the most memory."""
    report = out.with_suffix(".json")
    command = [sys.executable, str(Path(__file__).resolve()), "--worker", str(report)]
    began = time.monotonic()
    process = subprocess.Popen([*command, "train", str(recipe), "--out", str(out)])
    peak = 0.0
    while process.poll() is None:
        peak = max(peak, tree_memory(process.pid))
        time.sleep(0.05)
    seconds = time.monotonic() - began
    if not report.exists():
        sys.exit("regard train ended before its first step")
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {**json.loads(report.read_text()), "seconds": seconds, "cpu": used.ru_utime + used.ru_stime, "peak": peak}


def tree_memory(pid: int) -> float:
    """Resident memory of a process and its children, in MB."""
    total = 0
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        total += next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) * 1024
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                total += tree_memory(int(child)) * MEBIBYTE
    except (OSError, StopIteration):  # it has ended meanwhile
        pass
    return total / MEBIBYTE


# The command, with a clock on its phases


class Clock:
    """Seconds, CPU seconds and peak memory of phases that follow one another."""

    def __init__(self, began: float) -> None:
        self.phases: dict[str, list[float]] = {}
        self.depth = 0
        self.note("start", began, 0.0)

    def note(self, name: str, began: float, cpu: float, peak: float = 0.0) -> None:
        seconds, used = time.monotonic() - began, cpu_seconds() - cpu
        old = self.phases.get(name, [0.0, 0.0, 0.0])
        self.phases[name] = [old[0] + seconds, old[1] + used, max(old[2], peak, tree_memory(os.getpid()))]

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        if self.depth:  # part of another
            yield
            return
        self.depth = 1
        began, cpu = time.monotonic(), cpu_seconds()
        with peak_memory() as peak:
            yield
        self.note(name, began, cpu, peak[0])
        self.depth = 0

    def watch(self, owner: object, attribute: str, name: Callable[..., str]) -> None:
        """Times every call of a function, under a name made from its arguments."""
        function = getattr(owner, attribute)

        @functools.wraps(function)
        def timed(*arguments: object, **options: object) -> object:
            with self.phase(name(*arguments)):
                return function(*arguments, **options)

        setattr(owner, attribute, timed)


@contextmanager
def peak_memory() -> Iterator[list[float]]:
    """The most memory within, of this process and its children, looked at ten times a second."""
    peak, done = [tree_memory(os.getpid())], threading.Event()

    def look() -> None:
        while not done.wait(0.1):
            peak[0] = max(peak[0], tree_memory(os.getpid()))

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield peak
    finally:
        done.set()
        thread.join()


def cpu_seconds() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def work(report: Path, words: list[str]) -> None:
    """The command line itself, with clocks; it ends after the first step."""
    began = time.monotonic() - time.clock_gettime(time.CLOCK_PROCESS_CPUTIME_ID)
    from regard.cli import main as command_line
    from regard.run import trainer, training
    from regard.run.defaults import plan
    from regard.tasks.prepare import Preparation

    clock = Clock(began)
    clock.watch(plan, "plan_tree", lambda *_: "facts and defaults")
    clock.watch(training, "check_at_once", lambda *_: "first example of each split")
    clock.watch(Preparation, "learn", lambda *_: "vocabulary")
    clock.watch(Preparation, "measure_sources", lambda *_: "sentences of the sources")
    clock.watch(Preparation, "open", lambda _, task, split, *rest: f"store of data.{split}")
    clock.watch(training, "_save_training_words", lambda *_: "words of the training data")
    clock.watch(training, "build_trainer", lambda *_: "model, batches, trial validation")
    step = trainer.Trainer.step

    def first_step(self: trainer.Trainer) -> None:
        with clock.phase("first step"):
            step(self)
        report.write_text(json.dumps({"phases": clock.phases}))
        sys.stdout.flush()
        os._exit(0)

    trainer.Trainer.step = first_step
    sys.argv = ["regard", *words]
    command_line()


if __name__ == "__main__":
    main()
