"""Where checkpoints stand in their folder, and the two names that point to one: `best` and `last`.

    checkpoints/step-300/  checkpoints/step-400/  checkpoints/best → step-300  checkpoints/last → step-400

A link is relative, so the folder can be moved; where a file system has none, a file that holds the name stands for it.
"""

import errno
import os
import re
from pathlib import Path

from regard.errors import RunError
from regard.files.atomic import discard, sync_file, sync_folder

BEST, LAST = "best", "last"
STEP = re.compile(r"step-(0|[1-9][0-9]{0,17})(\.old)?")
"""`step-N`, and `step-N.old` while the same step is being saved anew."""
NO_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS}


def step_of(path: Path) -> int | None:
    """The step that a folder is named after."""
    match = STEP.fullmatch(path.name)
    return int(match[1]) if match else None


def checkpoints(folder: Path) -> list[tuple[int, Path]]:
    """All checkpoints, whole or not, newest first."""
    if not folder.is_dir():
        return []
    found = [(step, path) for path in folder.iterdir() if (step := step_of(path)) is not None and path.is_dir()]
    return sorted(found, key=lambda item: (-item[0], item[1].suffix))


def point(folder: Path, name: str, step: int) -> None:
    """Lets a name point to the checkpoint of a step, from one moment to the next."""
    link, aside, target = folder / name, folder / f".{name}.new", f"step-{step}"
    if not (folder / target).is_dir():
        raise RunError(f"{folder / target}: no such checkpoint, so '{name}' cannot point to it")
    aside.unlink(missing_ok=True)
    try:
        aside.symlink_to(target)
    except OSError as error:
        if error.errno not in NO_LINKS:
            raise
        aside.write_text(f"{target}\n", encoding="utf-8")
        sync_file(aside)
    if link.is_dir() and not link.is_symlink():
        discard(link)  # a copy of the run without links has a full copy of the checkpoint here
    aside.replace(link)
    sync_folder(folder)


def pointed(folder: Path, name: str) -> int | None:
    """The step that a name points to."""
    return step_of(follow(folder / name))


def follow(path: Path) -> Path:
    """The checkpoint that a path means, which may be one of the two names."""
    if path.is_symlink():
        target = os.readlink(path)
        return path.with_name(target) if STEP.fullmatch(target) else Path(os.path.realpath(path))  # which takes loops
    if path.name in (BEST, LAST) and path.is_file() and path.stat().st_size < 100:
        target = path.read_text(encoding="utf-8", errors="replace").strip()
        return path.with_name(target) if STEP.fullmatch(target) else path
    return path
