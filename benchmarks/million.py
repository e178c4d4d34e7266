"""A million lines translated by several processes that are killed twice on the way, beside one left alone.

    python benchmarks/million.py                                   a million lines, two processes, CPU
    python benchmarks/million.py --device cuda --processes 2       both on one GPU
    python benchmarks/million.py --lines 20000 --out build/try     a trial: its numbers go there, not into docs

The model is tiny and trained in seconds, as the parts are what is tried here. First one process translates the file
and is left alone. Then torchrun starts several on another folder; at a random moment all of them are killed, and in
the next start one of them. The third start ends the work. Part by part, both folders must then hold the same bytes,
and no part may have been finished twice: every process notes what it finishes. Writes docs/measurements/million.json
and the page docs/reliability.md.
"""

import argparse
import json
import os
import platform
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from hashlib import sha256
from pathlib import Path

from reliability_page import write_page

ROOT = Path(__file__).parents[1]
MEASUREMENTS = ROOT / "docs" / "measurements"
KILLS = {"all processes": (0.1, 0.45), "one process": (0.55, 0.9)}
"""Who is killed, and between which shares of the finished parts."""
ODD = (
    "🚲🚲🚲",
    "e\u0301ge\u0301",
    "שלום",
    "\u200bnull\u200b",
    "ﬁsh",
    "道路",
    "a\u00a0b\u2028c",
    "\ufeffx",
    "¿…?",
    "\x1b[0m",
    "𝔄𝔅",
)
TINY = {
    "defaults": "fixed",
    "task": "translation",
    "data": {"train": {"street": "train", "limit": 20000}, "valid": {"street": "valid", "limit": 100}},
    "tokenizer": {"kind": "bpe", "size": 1000, "prefix_space": True},
    "model": {"kind": "encoder-decoder", "width": 32, "depth": 1, "heads": 2, "dropout": 0.0},
    "search": {"kind": "greedy", "max_length": 24},
    "train": {"steps": 400, "tokens_per_batch": 1024, "save_every": 400, "precision": "float32", "device": "cpu",
              "schedule": {"kind": "linear", "lr": 5e-3, "warmup": 50}},
}  # fmt: skip


def main() -> None:
    if sys.argv[1:2] == ["--worker"]:
        work(Path(sys.argv[2]), sys.argv[3:])
        return
    asked = arguments()
    with tempfile.TemporaryDirectory(dir=asked.folder) as name:
        found = {"name": "million", **settings(asked), **tried(Path(name), asked)}
    asked.out.mkdir(parents=True, exist_ok=True)
    (asked.out / "million.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(found, indent=1))
    if asked.out == MEASUREMENTS:
        kept = json.loads((MEASUREMENTS / "reliability.json").read_text(encoding="utf-8"))
        write_page(kept, ROOT / "docs" / "reliability.md")
    sys.exit(1 if found["problems"] else 0)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", type=Path, help="a run that translates; by default a tiny one is trained")
    parser.add_argument("--lines", type=int, default=1_000_000)
    parser.add_argument("--lines-per-part", type=int, default=1024)
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--engine", default="torch", help="torch or ctranslate2")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--threads", type=int, default=1, help="of each process, also of the one left alone")
    parser.add_argument("--together", action="store_true", help="both ways at once, where there are cores enough")
    parser.add_argument("--seed", type=int, default=1, help="of the lines and of the kills")
    parser.add_argument("--folder", type=Path, help="where to work; by default the temporary folder")
    parser.add_argument("--out", type=Path, default=MEASUREMENTS)
    return parser.parse_args()


def settings(asked: argparse.Namespace) -> dict:
    import torch

    gpu = torch.cuda.get_device_name() if asked.device == "cuda" else None
    machine = {"cores": os.cpu_count(), "gpu": gpu, "torch": torch.__version__, "python": platform.python_version()}
    names = ("lines", "lines_per_part", "device", "engine", "processes", "threads", "together", "seed")
    return {"date": time.strftime("%Y-%m-%d"), "machine": machine, **{name: getattr(asked, name) for name in names}}


def tried(folder: Path, asked: argparse.Namespace) -> dict:
    """Both ways, and what they have in common."""
    file = folder / "lines.txt"
    kinds = write_lines(file, asked.lines, asked.seed)
    run = (asked.run or trained(folder)).resolve()
    alone, shared = (Work(run, file, folder / name, asked) for name in ("alone", "shared"))
    with ThreadPoolExecutor() as pool:
        left_alone = pool.submit(alone.undisturbed)
        if not asked.together:
            wait([left_alone])
        starts = [shared.killed(who) for who in KILLS]
        starts.append({"killed": None, "seconds": shared.undisturbed(), "parts": shared.finished()})
    return {"input": {"bytes": file.stat().st_size, "sha256": digest([file]), "kinds": kinds},
            **compared(alone, shared, asked.lines), **timed(left_alone.result(), starts, asked.lines)}  # fmt: skip


def timed(alone: float, starts: list[dict], lines: int) -> dict:
    """Seconds and lines a second, from the start of Python to the end of the last process."""
    together = round(sum(start["seconds"] for start in starts), 1)
    return {
        "alone": {"seconds": alone, "lines_per_second": round(lines / alone)},
        "shared": {"starts": starts, "seconds": together, "lines_per_second": round(lines / together)},
    }


def compared(alone: "Work", shared: "Work", lines: int) -> dict:
    """What came out, and what is wrong with it."""
    differing = [part.name for part in alone.parts() if not same(part, shared.out / part.name)]
    twice = sorted(shared.twice())
    problems = [f"{name} differs" for name in differing] + [f"{name} was finished twice" for name in twice]
    if shared.finished() != alone.finished():
        problems.append(f"{shared.finished()} parts beside {alone.finished()}")
    written = sum(part.read_bytes().count(b"\n") for part in shared.parts())
    if written != lines:
        problems.append(f"{written:,} lines were written")
    return {
        "output": {"bytes": sum(part.stat().st_size for part in shared.parts()), "sha256": digest(shared.parts())},
        "parts": alone.finished(),
        "differing": len(differing),
        "twice": len(twice),
        "problems": problems,
    }


# The lines and the model


def write_lines(file: Path, count: int, seed: int) -> dict[str, int]:
    """Sentences of the embedded corpus, blank lines, repeated ones, long ones and odd characters; how many of each."""
    from regard.data.street import pairs

    chance, kinds = random.Random(seed), Counter()
    sentences = [source for source, _ in pairs("train", max(100, count // 5), seed)]
    makers = {
        "sentence": lambda: chance.choice(sentences),
        "blank": lambda: chance.choice(["", "", " ", "\t", "\u3000"]),
        "repeated": lambda: sentences[0],
        "several": lambda: " ".join(chance.choices(sentences, k=chance.randint(2, 4))),
        "long": lambda: " ".join(chance.choices(sentences, k=chance.randint(30, 60))),
        "odd": lambda: " ".join([chance.choice(ODD), chance.choice(sentences), chance.choice(ODD)]),
    }
    with file.open("w", encoding="utf-8", newline="\n") as stream:
        for kind in chance.choices(list(makers), weights=[860, 40, 40, 29, 1, 30], k=count):
            kinds[kind] += 1
            stream.write(makers[kind]() + "\n")
    return {kind: kinds[kind] for kind in makers}


def trained(folder: Path) -> Path:
    """A tiny translator."""
    from regard.config import dump_toml

    recipe, out = folder / "recipe.toml", folder / "run"
    recipe.write_text(dump_toml(TINY), encoding="utf-8")
    words = [sys.executable, "-m", "regard", "train", str(recipe), "--out", str(out)]
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment(1))
    return out


def environment(threads: int) -> dict[str, str]:
    """One number of threads for all: sums in another order may differ in their last bit, and so may a near tie."""
    return {**os.environ, "OMP_NUM_THREADS": str(threads), "TOKENIZERS_PARALLELISM": "false"}


# One piece of work and its processes


class Work:
    """A file that is translated into a folder, however often that is begun."""

    def __init__(self, run: Path, file: Path, out: Path, asked: argparse.Namespace) -> None:
        self.out, self.asked = out, asked
        self.notes = out.with_suffix(".notes")
        self.chance = random.Random(asked.seed)
        self.expected = -(-asked.lines // asked.lines_per_part)
        self.known: dict[str, tuple[int, int]] = {}
        self.changed: set[str] = set()
        words = ["translate", str(run), str(file), "--out", str(out), "--engine", asked.engine]
        words += ["--device", asked.device, "--lines-per-part", str(asked.lines_per_part)]
        script = [str(Path(__file__).resolve()), "--worker", str(self.notes), *words]
        torchrun = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={asked.processes}"]
        self.command = [sys.executable, *([] if out.name == "alone" else torchrun), *script]

    def parts(self) -> list[Path]:
        """The parts that are finished."""
        return sorted(self.out.glob("part-*"))

    def finished(self) -> int:
        """How many parts are finished."""
        return len(self.parts())

    def undisturbed(self) -> float:
        """Starts the processes and waits for their end; how many seconds they took."""
        began = time.monotonic()
        process = self._started()
        assert process.wait() == 0, f"the processes ended with {process.returncode}; see {self.notes}"
        self._look()
        return round(time.monotonic() - began, 1)

    def killed(self, who: str) -> dict:
        """Starts the processes and kills all, or one of them, at a random moment; what stood there then."""
        began, seen = time.monotonic(), len(self._noted("process"))
        process = self._started()
        wanted = self.expected * self.chance.uniform(*KILLS[who])
        while self.finished() < wanted and process.poll() is None:
            time.sleep(0.01)
        time.sleep(self.chance.uniform(0, 1))
        pids = [int(pid) for pid in self._noted("process")[seen:]]
        assert process.poll() is None, "the work was done before the kill; take more lines"
        moment = {"after": round(time.monotonic() - began, 2), "parts_then": self.finished()}
        half = len(list(self.out.glob(".part-*")))
        for pid in [process.pid, *pids] if who == "all processes" else [self.chance.choice(pids)]:
            os.kill(pid, signal.SIGKILL)
        process.wait()
        seconds = round(time.monotonic() - began, 1)
        time.sleep(1)  # whoever torchrun no longer waits for is gone by now
        self._look()
        return {"killed": who, **moment, "begun_then": half, "seconds": seconds, "parts": self.finished()}

    def twice(self) -> set[str]:
        """Parts that were finished more than once, or that changed after they were finished."""
        counts = Counter(self._noted("part"))
        return {name for name, count in counts.items() if count > 1} | self.changed

    def _started(self) -> subprocess.Popen:
        with self.notes.with_suffix(".err").open("ab") as errors:
            return subprocess.Popen(
                self.command, stdout=errors, stderr=errors, env=environment(self.asked.threads), start_new_session=True
            )

    def _look(self) -> None:
        """Compares the finished parts with what they were when they were last looked at."""
        for part in self.parts():
            state = (part.stat().st_ino, part.stat().st_mtime_ns)
            if self.known.setdefault(part.name, state) != state:
                self.changed.add(part.name)

    def _noted(self, what: str) -> list[str]:
        lines = self.notes.read_text(encoding="utf-8").splitlines() if self.notes.exists() else []
        return [line.partition(" ")[2] for line in lines if line.startswith(f"{what} ")]


def work(notes: Path, words: list[str]) -> None:
    """The command line itself; beside its work it notes its process and every part that it has finished."""
    from regard.cli import main as command_line
    from regard.run.parts import Parts

    def note(line: str) -> None:
        with notes.open("a", encoding="utf-8") as stream:
            stream.write(f"{line}\n")

    original = Parts._make

    def noted(self: Parts, number: int, lines: list[str], make: Callable[[int, list[str]], bytes]) -> bool:
        made = original(self, number, lines, make)
        if made:
            note(f"part {self.file(number).name}")
        return made

    Parts._make = noted
    note(f"process {os.getpid()}")
    sys.argv = ["regard", *words]
    command_line()


# What came out


def same(one: Path, other: Path) -> bool:
    return other.is_file() and one.read_bytes() == other.read_bytes()


def digest(files: list[Path]) -> str:
    """SHA-256 of files one after the other."""
    found = sha256()
    for block in blocks(files):
        found.update(block)
    return found.hexdigest()


def blocks(files: list[Path]) -> Iterator[bytes]:
    for file in files:
        with file.open("rb") as stream:
            yield from iter(lambda: stream.read(1 << 20), b"")


if __name__ == "__main__":
    main()
