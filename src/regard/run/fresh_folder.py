"""A run that ends before its first step leaves nothing behind: the next try finds its folder as this one found it."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from regard.files.lock import RunLock
from regard.files.run_folder import LOCK_FILE, WRITTEN


@contextmanager
def fresh_folder(folder: Path, rank: int, begun: Callable[[], bool]) -> Iterator[None]:
    """Holds the lock of a run folder; an error before the run has `begun` removes what this run made there."""
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    with RunLock(folder, rank=rank):
        before = {path.name for path in folder.iterdir()} if rank == 0 else set()  # under the lock nobody else writes
        try:
            yield
        except BaseException:
            if rank == 0 and not begun():
                with suppress(OSError):  # the first error is the one to report
                    _remove(folder, before, made)
            raise


def _remove(folder: Path, before: set[str], made: list[Path]) -> None:
    for path in {path for name in WRITTEN for path in folder.glob(name)}:
        if path.name not in before:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    if made and [path.name for path in folder.iterdir()] == [LOCK_FILE]:
        (folder / LOCK_FILE).unlink()
        for path in made:  # the innermost first; one that holds something stays
            path.rmdir()
