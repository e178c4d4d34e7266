"""Run as a script: commands that are asked to stop, once or twice, at random moments. Prints JSON.

    python signal_trials.py FOLDER TRIALS

Each is a process forked from one that has torch loaded already. After one signal it must save and leave with exit code
130 in time; after a second Ctrl-C at once. In every case what was saved is whole, and no traceback is shown.
"""

import json
import os
import random
import signal
import sys
import time
from pathlib import Path
from unittest.mock import patch

import torch
from endured import tiny_tree

from regard.cli import main as regard
from regard.config import dump_toml
from regard.train.checkpoint import latest

LIMIT = 30.0  # seconds, the target
KINDS = {"SIGTERM": [signal.SIGTERM], "Ctrl-C": [signal.SIGINT], "Ctrl-C twice": [signal.SIGINT, signal.SIGINT]}


def started(recipe: Path, out: Path, words: Path) -> int:
    """A command that trains without end."""
    pid = os.fork()
    if pid == 0:
        stream = os.open(words, os.O_WRONLY | os.O_CREAT)
        os.dup2(stream, 1)
        os.dup2(stream, 2)
        sys.argv = ["regard", "train", str(recipe), "--out", str(out)]
        try:
            with patch("regard.run.conclusion.curves"):
                regard()
            os._exit(0)
        except SystemExit as left:
            os._exit(int(left.code or 0))
        except BaseException:
            sys.excepthook(*sys.exc_info())
            sys.stderr.flush()
            os._exit(9)
    return pid


def left_in_time(pid: int) -> tuple[int | None, float]:
    """Exit code of a process, None where it had to be killed; and how long it took."""
    begun = time.monotonic()
    while time.monotonic() - begun < LIMIT:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status), time.monotonic() - begun
        time.sleep(0.002)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return None, LIMIT


def one_trial(base: Path, number: int, kind: str, chance: random.Random) -> tuple[list[str], float]:
    """What went wrong, and how long leaving took."""
    out, words = base / f"run-{number}", base / f"words-{number}"
    pid = started(base / "recipe.toml", out, words)
    while not (out / "checkpoints" / "last").exists():
        time.sleep(0.002)
    time.sleep(chance.uniform(0, 0.15))
    for number_ in KINDS[kind]:
        os.kill(pid, number_)
        time.sleep(chance.uniform(0, 0.002))
    code, seconds = left_in_time(pid)
    said, problems = words.read_text(), []
    if code != 130:
        problems.append(f"exit code {code}")
    if "Traceback" in said or ("resume with: regard train" not in said):
        problems.append(f"said {said[-300:]!r}")
    found, broken = latest(out / "checkpoints")
    if found is None or broken:
        problems.append(f"newest: {found} {broken}")
    return [f"{kind}: {problem}" for problem in problems], seconds


def main() -> None:
    torch.set_num_threads(1)
    base, trials = Path(sys.argv[1]), int(sys.argv[2])
    (base / "recipe.toml").write_text(dump_toml(tiny_tree(1_000_000, save_every=3, valid_every=6)))
    chance, problems, times = random.Random(trials), [], []
    for number in range(trials):
        found, seconds = one_trial(base, number, list(KINDS)[number % len(KINDS)], chance)
        problems += found
        times.append(seconds)
    sys.stdout.write(json.dumps({"trials": trials, "slowest": max(times), "problems": problems}))


if __name__ == "__main__":
    main()
