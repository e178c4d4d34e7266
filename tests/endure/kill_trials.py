"""Run as a script: runs that are killed at random moments, then go on, beside one that was left alone. Prints JSON.

    python kill_trials.py FOLDER KILLS

Each run is a process forked from one that has torch loaded already. A third of the kills wait for a checkpoint that is
being written; the others come anywhere from the first moment of a process to its last. After a few kills a run is left
to end, and must then be what the undisturbed one is: numbers, weights, best checkpoint and order of the data.
"""

import json
import os
import random
import signal
import sys
import time
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

import torch
from endured import differences, tiny_recipe, train

from regard.train.loop import Trainer

STEPS, KILLS_A_RUN = 10, 5
RECIPE = tiny_recipe(STEPS, save_every=2, valid_every=4, moving_average={"decay": 0.9}, average=2, keep=3)


def note_order(order: Path) -> None:
    """Writes down which examples each step reads; steps that are made again must read the same."""
    original = Trainer._next_inputs

    def noted(self: Trainer) -> list:
        examples = self.prefetcher.batch().examples
        with order.open("a") as stream:
            stream.write(f"{self.spent.steps} {sha256(examples.tobytes()).hexdigest()}\n")
        return original(self)

    Trainer._next_inputs = noted


def started(out: Path) -> int:
    """A process that begins or resumes the run in a folder."""
    pid = os.fork()
    if pid == 0:
        try:
            note_order(out.with_suffix(".order"))
            train(RECIPE, out, resume=True)
            os._exit(0)
        except BaseException as error:
            sys.stderr.write(f"{type(error).__name__}: {error}\n")
            os._exit(7)
    return pid


def ended(pid: int) -> int | None:
    """The exit status of a process, negative where a signal ended it; None while it runs."""
    found, status = os.waitpid(pid, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if found else None


def half_done(out: Path) -> set[tuple[str, int]]:
    """What lies aside while a checkpoint is written, and when it was last changed: it may be of an earlier process."""
    found = set()
    for path in (*out.glob("checkpoints/.step-*.saving"), *out.glob("checkpoints/*.old")):
        with suppress(FileNotFoundError):
            found.add((path.name, path.stat().st_mtime_ns))
    return found


def killed(out: Path, chance: random.Random, usual: list[float], while_saving: bool) -> tuple[int, bool]:
    """Starts a process and kills it: how it ended, and whether a checkpoint was half written then.

    `usual` is how long processes took that ended before they were killed: the next kill comes within one of these.
    """
    before = half_done(out)
    pid, begun = started(out), time.monotonic()
    wait = chance.uniform(0, chance.choice(usual))
    while (status := ended(pid)) is None:
        if while_saving and half_done(out) - before:
            time.sleep(chance.uniform(0, 0.004))
            break
        if not while_saving and time.monotonic() - begun > wait:
            break
        time.sleep(0.0005)
    if status == 0:
        usual.append(time.monotonic() - begun)
    if status is None:
        os.kill(pid, signal.SIGKILL)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return status, bool(half_done(out) - before)


def orders(file: Path) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for line in file.read_text().splitlines():
        step, _, examples = line.partition(" ")
        found.setdefault(step, set()).add(examples)
    return found


def one_run(base: Path, number: int, chance: random.Random, usual: list[float]) -> dict[str, object]:
    """A run that is killed a few times and then left to end."""
    out, kills, saving, problems = base / f"run-{number}", 0, 0, []
    for turn in range(2 * KILLS_A_RUN):
        if kills == KILLS_A_RUN:
            break
        status, half = killed(out, chance, usual, while_saving=turn % 3 == 0)
        kills += status == -signal.SIGKILL
        saving += half and status == -signal.SIGKILL
        if status not in (0, -signal.SIGKILL):
            problems.append(f"a process that went on ended with {status}")
    if os.waitstatus_to_exitcode(os.waitpid(started(out), 0)[1]) != 0:
        problems.append("the run could not be ended")
    else:
        problems += differences(out, base / "whole")
        if orders(out.with_suffix(".order")) != orders(base / "whole.order"):
            problems.append("the order of the data")
    return {"kills": kills, "saving": saving, "problems": problems}


def main() -> None:
    torch.set_num_threads(1)
    base, wanted = Path(sys.argv[1]), int(sys.argv[2])
    begun = time.monotonic()
    assert os.waitpid(started(base / "whole"), 0)[1] == 0, "the undisturbed run failed"
    usual = [time.monotonic() - begun]
    chance, runs = random.Random(wanted), []
    while sum(run["kills"] for run in runs) < wanted and len(runs) < wanted:
        runs.append(one_run(base, len(runs), chance, usual))
    totals = {name: sum(run[name] for run in runs) for name in ("kills", "saving")}
    problems = [f"run {number}: {problem}" for number, run in enumerate(runs) for problem in run["problems"]]
    sys.stdout.write(json.dumps({**totals, "runs": len(runs), "problems": problems}))


if __name__ == "__main__":
    main()
