"""The queue of runs, and the outcome of each: trained, resumed, or skipped when finished; a failed one has its error.

All state is in the run folders, outcomes as `result.json`. Started again after a kill, the queue resumes and retries
failed runs; two processes started at once share it, since each run is locked by the process that works on it.
"""

import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from os import getpid
from pathlib import Path
from typing import Any

from regard.data.content_hash import source_sha256
from regard.errors import Interrupted, RegardError, RunError
from regard.files.atomic import write_atomic
from regard.files.lock import RunLock
from regard.files.run_folder import CHECKPOINTS_FOLDER, METRICS_FILE, is_run
from regard.files.strict_json import from_json, to_json
from regard.metrics.registry import METRICS
from regard.run import Recipe
from regard.run.fingerprint import changed_settings
from regard.run.scoring import score_run
from regard.run.trained import Run, read_run_recipe
from regard.run.training import train_run
from regard.train.log import read_metrics
from regard.train.loop import STOPPED
from regard.train.monitor import Watcher

Watch = Callable[[], AbstractContextManager[Watcher]]
POLL_SECONDS = 1.0
RESULT_FILE = "result.json"
Values = list[Any]
"""Texts, truth values or numbers, one for each example or batch."""


@dataclass(frozen=True)
class Outcome:
    """The outcome of one run, or why it failed."""

    problem: str | None = None
    """Why it failed; None where it did not."""
    metrics: dict[str, float] = field(default_factory=dict)
    """Scores on the test data, or on the validation data where there is no other."""
    split: str = ""
    fingerprint: str = ""
    """SHA-256 of the examples that were tested."""
    targets: str = ""
    """What a mean over targets is a mean over: which labels, or which vocabulary's tokens."""
    signatures: dict[str, str] = field(default_factory=dict)
    valid: dict[str, float] = field(default_factory=dict)
    """Scores on the validation data when training ended."""
    params: int = 0
    steps: int = 0
    tokens: int = 0
    flops: float = 0.0
    seconds: float = 0.0
    evidence: dict[str, Values] = field(default_factory=dict)
    """What a paired test needs: `written` and `references`, whether each answer is `right`, or `losses` and `targets`
    of batches."""
    data: dict[str, str] = field(default_factory=dict)
    """SHA-256 of the contents of each split: a result holds for these only."""

    def save(self, folder: Path) -> None:
        write_atomic(folder / RESULT_FILE, to_json(asdict(self), indent=1))


@dataclass(frozen=True)
class Job:
    key: str
    """Its folder below the queue's, such as `runs/lstm/seed-1`."""
    recipe: Recipe
    tested: bool = True
    """Whether it is tested when it is trained."""


@dataclass(frozen=True)
class Queue:
    folder: Path
    watch: Watch
    keep_weights: bool = True
    began: float = field(default_factory=time.time)
    contents: dict[str, dict[str, str]] = field(default_factory=dict, init=False, repr=False)

    def work(self, jobs: Sequence[Job]) -> dict[str, Outcome]:
        """The outcome of every job; those that another process works on are waited for."""
        self._refuse_others(jobs)
        finished: dict[str, Outcome] = {}
        with RunLock(self.folder / "locks" / f"process-{getpid()}"):  # fails here where nothing can be locked
            while left := [job for job in jobs if job.key not in finished]:
                before = len(finished)
                for job in left:
                    outcome = self._attempt(job, f"[{len(finished) + 1}/{len(jobs)}] {job.key}")
                    if outcome is not None:
                        finished[job.key] = outcome
                if len(finished) == before:
                    time.sleep(POLL_SECONDS)
        return finished

    def _refuse_others(self, jobs: Sequence[Job]) -> None:
        """A folder that holds runs of another comparison, or on other data, is not mixed with this one."""
        for job in jobs:
            folder = self.folder / job.key
            if is_run(folder) and _differ(read_run_recipe(folder), job.recipe):
                raise RunError(f"{folder}: was run with other settings or another budget; choose another --out")
            before = outcome.data if (outcome := saved_outcome(folder)) is not None else {}
            now = self._contents(job.recipe) if before else {}
            changed = [split for split, old in before.items() if now.get(split, old) != old]
            if changed:
                raise RunError(f"{folder}: data.{changed[0]} changed since its result; choose another --out")

    def _contents(self, recipe: Recipe) -> dict[str, str]:
        """Hashes of a recipe's data, computed once for all jobs that share it."""
        name = repr(recipe.data.but(batching=None).tree())
        if name not in self.contents:
            self.contents[name] = data_contents(recipe)
        return self.contents[name]

    def _attempt(self, job: Job, title: str) -> Outcome | None:
        """The outcome of a job, run now if needed; None while another process works on it."""
        with ExitStack() as stack:
            try:
                stack.enter_context(RunLock(self.folder / "locks" / job.key))
            except RunError:
                return None
            folder = self.folder / job.key
            return self._finished(folder) or self._run(job, folder, title)

    def _finished(self, folder: Path) -> Outcome | None:
        """The stored outcome of a run that finished, or failed in another process since this one started."""
        outcome = saved_outcome(folder)
        if outcome is None or outcome.problem is None:
            return outcome
        return outcome if (folder / RESULT_FILE).stat().st_mtime >= self.began else None

    def _run(self, job: Job, folder: Path, title: str) -> Outcome:
        with self.watch() as watcher:
            watcher.say(title)
            try:
                begun = is_run(folder)
                ended = train_run(job.recipe, folder, watcher, resume=begun)
                if ended == STOPPED:
                    raise KeyboardInterrupt
                outcome = replace(trained_outcome(folder, tested=job.tested), data=self._contents(job.recipe))
            except KeyboardInterrupt:
                raise Interrupted(f"stopped at {job.key}; the same command resumes there") from None
            except Exception as error:  # any failure costs one row, not the table
                outcome = Outcome(problem=_first_line(error))
                watcher.say(f"failed: {outcome.problem}")
                with suppress(RegardError, OSError):  # the disk may be full
                    folder.mkdir(parents=True, exist_ok=True)  # a run that is refused leaves no folder
                    outcome.save(folder)
                return outcome
        outcome.save(folder)
        if not self.keep_weights:
            shutil.rmtree(folder / CHECKPOINTS_FOLDER)
        return outcome


def saved_outcome(folder: Path) -> Outcome | None:
    """The outcome of a finished run; None where it is not finished."""
    file = folder / RESULT_FILE
    if not file.is_file():
        return None
    try:
        stored: Any = from_json(file.read_bytes())
        return Outcome(**stored)
    except (ValueError, TypeError):
        raise RunError(f"{file}: not the result of a finished run; remove it, and the run is tested again") from None


def trained_outcome(folder: Path, *, tested: bool) -> Outcome:
    """The outcome of a trained run; with test scores if `tested`."""
    lines = read_metrics(folder / METRICS_FILE)
    trained, measured = ([line for line in lines if line.get("split") == split] for split in ("train", "valid"))
    if not trained or not measured:
        raise RunError(f"{folder / METRICS_FILE}: has no line about training and validation; remove {folder}")
    spent, validation = trained[-1], measured[-1]
    run = Run.open(folder)
    outcome = Outcome(
        valid={name: value for name, value in validation.items() if name in METRICS},
        params=run.task.num_params(run.recipe.model), steps=spent["step"], tokens=spent["tokens"],
        flops=spent["flops"], seconds=spent["seconds"],
    )  # fmt: skip
    if not tested:
        return outcome
    split = scored_split(run.recipe)
    report = score_run(run, run.recipe.data.split(split))
    return replace(
        outcome, split=split, metrics=report.metrics, fingerprint=report.fingerprint, targets=report.targets,
        signatures=report.signatures, evidence=report.evidence,
    )  # fmt: skip


def scored_split(recipe: Recipe) -> str:
    """The split that a finished model is tested on."""
    return "test" if recipe.data.test is not None else "valid"


def data_contents(recipe: Recipe) -> dict[str, str]:
    """SHA-256 of the contents of each split that can be read now."""
    splits = [split for split in ("train", "valid", "test") if split != "test" or recipe.data.test is not None]
    hashes: dict[str, str] = {}
    for split in splits:
        with suppress(RegardError):  # a finished result outlives its data
            hashes[split] = source_sha256(recipe.data.split(split), Path(recipe.data.folder or ""))
    return hashes


def _differ(one: Recipe, other: Recipe) -> bool:
    """Whether recipes are of different runs; where data lies is no difference, as its contents are compared."""
    return any(path != "data.folder" for path, _, _ in changed_settings(one, other))


@contextmanager
def turn(folder: Path) -> Iterator[None]:
    """One process after the other: waits while another one holds the folder's lock."""
    with ExitStack() as stack:
        while True:
            try:
                stack.enter_context(RunLock(folder))
                break
            except RunError:
                time.sleep(POLL_SECONDS)
        yield


def _first_line(error: Exception) -> str:
    """Why something failed, in one line."""
    text = " ".join(str(error).split()) or "no reason given"
    return text if isinstance(error, RegardError) else f"{type(error).__name__}: {text[:200]}"
