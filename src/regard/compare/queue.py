"""The queue of runs: each is trained, or resumed, or skipped when it is done; a failed one says why.

All state is in the run folders. Started again after a kill, the queue goes on where it was and tries again what failed;
started twice at once, two processes share it, since each run is locked by whoever works on it.
"""

import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from os import getpid
from pathlib import Path

from regard.compare.outcome import RESULT_FILE, Outcome, saved_outcome, trained_outcome
from regard.errors import Failure, RegardError, RunError
from regard.run import Recipe
from regard.run.opened import CHECKPOINTS, RECIPE_FILE, read_run_recipe
from regard.run.training import train_run
from regard.train.lock import RunLock
from regard.train.watching import Watcher

Watch = Callable[[], AbstractContextManager[Watcher]]
SECONDS_BETWEEN_LOOKS = 1.0


@dataclass(frozen=True)
class Job:
    """One run that is to be there."""

    key: str
    """Its folder below the queue's, such as `runs/lstm/seed-1`."""
    recipe: Recipe
    tested: bool = True
    """Whether it is tested when it is trained."""


@dataclass(frozen=True)
class Queue:
    """Works through jobs in a folder."""

    folder: Path
    watch: Watch
    keep_weights: bool = True
    began: float = field(default_factory=time.time)

    def work(self, jobs: Sequence[Job]) -> dict[str, Outcome]:
        """The outcome of every job; those that another process works on are waited for."""
        self._refuse_others(jobs)
        done: dict[str, Outcome] = {}
        with RunLock(self.folder / "locks" / f"process-{getpid()}"):  # fails here where nothing can be locked
            while left := [job for job in jobs if job.key not in done]:
                before = len(done)
                for job in left:
                    outcome = self._attempt(job, f"[{len(done) + 1}/{len(jobs)}] {job.key}")
                    if outcome is not None:
                        done[job.key] = outcome
                if len(done) == before:
                    time.sleep(SECONDS_BETWEEN_LOOKS)
        return done

    def _refuse_others(self, jobs: Sequence[Job]) -> None:
        """A folder that holds runs of another comparison is not mixed with this one."""
        for job in jobs:
            folder = self.folder / job.key
            if (folder / RECIPE_FILE).is_file() and read_run_recipe(folder) != job.recipe:
                raise RunError(f"{folder}: was run with other settings or another budget; choose another --out")

    def _attempt(self, job: Job, title: str) -> Outcome | None:
        """The outcome of a job, done now if it was not; None while another process works on it."""
        with ExitStack() as stack:
            try:
                stack.enter_context(RunLock(self.folder / "locks" / job.key))
            except RunError:
                return None
            folder = self.folder / job.key
            return self._known(folder) or self._done_now(job, folder, title)

    def _known(self, folder: Path) -> Outcome | None:
        """What is known of a run: it was finished, or it failed at another process's hands since this one began."""
        outcome = saved_outcome(folder)
        if outcome is None or outcome.problem is None:
            return outcome
        return outcome if (folder / RESULT_FILE).stat().st_mtime >= self.began else None

    def _done_now(self, job: Job, folder: Path, title: str) -> Outcome:
        with self.watch() as watcher:
            watcher.say(title)
            try:
                begun = (folder / RECIPE_FILE).is_file()
                ended = train_run(job.recipe, folder, watcher, resume=begun)
                if ended == "stopped on request":
                    raise KeyboardInterrupt
                outcome = trained_outcome(folder, tested=job.tested)
            except KeyboardInterrupt:
                raise Failure(f"stopped at {job.key}; the same command goes on from there") from None
            except Exception as error:  # whatever it was, it costs one row and not the table
                outcome = Outcome(problem=_said(error))
                watcher.say(f"failed: {outcome.problem}")
                with suppress(RegardError, OSError):  # what kept the run from being written may keep this from it too
                    outcome.save(folder)
                return outcome
        outcome.save(folder)
        if not self.keep_weights:
            shutil.rmtree(folder / CHECKPOINTS)
        return outcome


@contextmanager
def turn(folder: Path) -> Iterator[None]:
    """One process after the other: waits while another one holds the folder's lock."""
    with ExitStack() as stack:
        while True:
            try:
                stack.enter_context(RunLock(folder))
                break
            except RunError:
                time.sleep(SECONDS_BETWEEN_LOOKS)
        yield


def _said(error: Exception) -> str:
    """Why something failed, in one line."""
    text = " ".join(str(error).split()) or "no reason given"
    return text if isinstance(error, RegardError) else f"{type(error).__name__}: {text[:200]}"
