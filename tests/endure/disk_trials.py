"""Run as a script on a small disk of its own: training that meets a full disk, or one that became read-only.

    unshare -rm sh -c "mount -t tmpfs -o size=4m tmpfs FOLDER && python disk_trials.py FOLDER"

Each fault comes between two steps; the command must end with one sentence and exit code 1, the checkpoint before must
be whole, and once the fault is mended the run must go on to the end of an undisturbed one. Prints JSON.
"""

import io
import json
import subprocess
import sys
from collections.abc import Callable
from contextlib import redirect_stderr
from pathlib import Path

import torch
from endured import differences, tiny_recipe, tiny_tree, train

from regard.cli import main as regard
from regard.config import dump_toml
from regard.train.checkpoint import latest
from regard.train.loop import Trainer


def fill(out: Path) -> None:
    """Leaves no byte free."""
    with (out.parent / "filler").open("wb", buffering=0) as stream:
        try:
            while True:
                stream.write(bytes(4096))
        except OSError:
            return


def make_room(out: Path) -> None:
    (out.parent / "filler").unlink()


def forbid(out: Path) -> None:
    """Makes the folder read-only for whatever is opened from now on."""
    subprocess.run(["mount", "--bind", str(out), str(out)], check=True)
    subprocess.run(["mount", "-o", "remount,bind,ro", str(out)], check=True)


def allow(out: Path) -> None:
    subprocess.run(["umount", "--lazy", str(out)], check=True)


FAULTS: dict[str, tuple[Callable[[Path], None], Callable[[Path], None]]] = {
    "full": (fill, make_room),
    "read-only": (forbid, allow),
}


def disturbed(disk: Path, out: Path, fault: Callable[[Path], None], after: int) -> tuple[int, str]:
    """Exit code and words of a command whose disk fails after some steps."""
    step = Trainer.step

    def failing(self: Trainer) -> dict:
        line = step(self)
        if self.spent.steps == after:
            fault(out)
        return line

    Trainer.step = failing
    sys.argv = ["regard", "train", str(disk / "recipe.toml"), "--out", str(out)]
    words = io.StringIO()
    try:
        with redirect_stderr(words):
            regard()
        return 0, words.getvalue()
    except SystemExit as left:
        return int(left.code or 0), words.getvalue()
    finally:
        Trainer.step = step


def main() -> None:
    torch.set_num_threads(1)
    disk = Path(sys.argv[1])
    (disk / "recipe.toml").write_text(dump_toml(tiny_tree(8)))
    recipe = tiny_recipe(8)
    folder = str(disk.resolve())
    recipe = recipe.but(data=recipe.data.but(folder=folder))
    train(recipe, disk / "whole")
    found = {}
    for name, (fault, mend) in FAULTS.items():
        for after in (3, 4):  # the fault shows in a line of the log, or in a checkpoint
            out = disk / f"{name}-{after}"
            code, words = disturbed(disk, out, fault, after)
            path, problems = latest(out / "checkpoints")
            mend(out)
            train(recipe, out, resume=True)
            found[f"{name} after step {after}"] = {
                "code": code, "said": words.splitlines()[-1], "traceback": "Traceback" in words,
                "checkpoint": path.name if path else None, "problems": problems,
                "differences": differences(out, disk / "whole"),
            }  # fmt: skip
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main()
