"""Run as a script in a process of its own: saves that are killed, or that meet a full disk. Prints JSON.

Children are forked from one process that has torch loaded already: a hundred trials take seconds.
"""

import json
import os
import random
import shutil
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch

from regard.errors import Failure
from regard.files import atomic as durable
from regard.files.run_folder import list_checkpoints
from regard.train import checkpoint
from regard.train.checkpoint import broken, latest, load, prune, save

SIZE = 20_000
WRITING = {"open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.symlink", "shutil.rmtree", "os.chmod"}


def save_step(folder: Path, step: int, version: int = 0) -> None:
    tensors = {"w": torch.full((SIZE,), float(step + version))}
    save(folder, step, tensors, {"m": tensors["w"] / 2}, {"version": version}, {"ema": tensors})


def found(folder: Path) -> tuple[int, int]:
    """Step and version of the newest checkpoint, which must hold exactly what was saved under them."""
    path, _ = latest(folder)
    assert path is not None, "nothing was found"
    got = load(path)
    value = float(got.step + got.state["version"])
    assert torch.equal(got.model["w"], torch.full((SIZE,), value)), "wrong weights"
    assert torch.equal(got.optimizer["m"], torch.full((SIZE,), value / 2)), "wrong optimizer"
    assert torch.equal(got.extra["ema"]["w"], torch.full((SIZE,), value)), "wrong average"
    return got.step, got.state["version"]


def forked(child: Callable[[], None]) -> int:
    pid = os.fork()
    if pid == 0:
        child()
        os._exit(0)
    return pid


def was_killed(pid: int) -> bool:
    status = os.waitpid(pid, 0)[1]
    assert status in (0, signal.SIGKILL), f"the child ended with {status}"
    return status == signal.SIGKILL


def die_before_operation(number: int) -> None:
    """Kills this process just before it changes the disk for the given time."""
    left = [number]

    def hook(event: str, _: object) -> None:
        if event in WRITING:
            left[0] -= 1
            if left[0] < 0:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)


def at_every_operation(base: Path, step: int) -> int:
    """Saves step 2 or, again, step 1, beside steps 0 and 1; dies before the first operation, the second …"""
    durable.os.fsync = lambda descriptor: None  # matters when the power fails, not when a process is killed
    for earlier in (0, 1):
        save_step(base / f"{step}", earlier)
    for number in range(1000):
        folder = base / f"{step}-{number}"
        shutil.copytree(base / f"{step}", folder, symlinks=True)

        def child(folder: Path = folder, number: int = number) -> None:
            die_before_operation(number)
            save_step(folder, step, version=7)
            prune(folder)

        killed = was_killed(forked(child))
        assert found(folder) in {(1, 0), (step, 7)}
        assert not any(broken(path) for _, path in list_checkpoints(folder)), "half a checkpoint stands under a name"
        save_step(folder, 3)
        assert found(folder) == (3, 0)
        assert not [path for path in folder.iterdir() if path.name.startswith(".")], "something was left aside"
        if not killed:
            return number
    raise AssertionError("it never ended")


def at_random_moments(folder: Path, trials: int) -> dict[str, object]:
    """Saves one step after the other until it is killed; goes on after the one that was found."""
    chance = random.Random(trials)
    begun = time.monotonic()
    save_step(folder, 1)
    usual = time.monotonic() - begun
    step, saved, aside = 1, 0, 0
    for _ in range(trials):

        def child(first: int = step + 1) -> None:
            for step in range(first, first + 1000):
                save_step(folder, step)
                prune(folder)

        pid = forked(child)
        time.sleep(chance.uniform(0, 4 * usual))
        os.kill(pid, signal.SIGKILL)
        assert was_killed(pid), "it ended too early"
        after, _ = found(folder)
        assert after >= step, "a checkpoint was lost"
        saved, step = saved + after - step, after
        aside += any(path.name.startswith(".") for path in folder.iterdir())
    return {"saved": saved, "aside": aside}


def meet_full_disk(folder: Path) -> dict[str, object]:
    """On a disk with room for one checkpoint: the second is refused before and, forced, while it is written."""
    save_step(folder, 1)
    before = refusal(lambda: save_step(folder, 2))
    checkpoint.demand_room = lambda folder, needed: None
    during = refusal(lambda: save_step(folder, 2))
    return {"before": before, "during": during, "found": found(folder), "names": sorted(os.listdir(folder))}


def refusal(action: Callable[[], None]) -> str:
    try:
        action()
    except Failure as failure:
        return str(failure)
    raise AssertionError("nothing was refused")


def main() -> None:
    torch.set_num_threads(1)
    trial, base = sys.argv[1], Path(sys.argv[2])
    if trial == "kill":
        result = at_random_moments(base / "random", int(sys.argv[3]))
        result["operations"] = [at_every_operation(base, step) for step in (2, 1)]
    else:
        result = meet_full_disk(base / "checkpoints")
    sys.stdout.write(json.dumps(result))


if __name__ == "__main__":
    main()
