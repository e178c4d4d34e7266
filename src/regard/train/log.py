"""`metrics.jsonl`: a line for each measurement, the same lines whether a run was disturbed or not.

    with MetricsLog(run / "metrics.jsonl", resumed=400) as log:
        log.write(step=410, split="train", loss=2.1, tokens=40960, seconds=1.5, …)

A line is written by one call, at once. A step's lines are to be written before its checkpoint is: resuming cuts off
what came after the checkpoint, and the run writes it again. NaN and infinities are written as `strict_json` does.

Trackers show the same lines live, each through a library of the `track` extra.
"""

import importlib
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, Protocol, Self

from regard.errors import DataError, RegardError, RunError
from regard.files.atomic import atomic_writer, report_disk_errors
from regard.files.run_folder import TENSORBOARD_FOLDER
from regard.files.strict_json import from_json, to_json

Line = dict[str, Any]
TrackerName = Literal["trackio", "tensorboard"]


class Tracker(Protocol):
    """Takes the numbers of each line of the metrics."""

    def write(self, step: int, split: str, numbers: Mapping[str, float]) -> None:
        """Shows the numbers of a step."""
        ...

    def close(self) -> None:
        """Sends what is still waiting."""
        ...


class MetricsLog:
    """Appends lines to a file and hands each on to the trackers; of several ranks, only the first writes one.

    A new run must have no such file yet; one that resumes after step `resumed` (0: from the start) truncates it there.
    """

    def __init__(self, file: Path, *, resumed: int | None = None, trackers: Sequence[Tracker] = ()) -> None:
        self.file = file
        self._trackers = list(trackers)
        self.validation: Line | None = None
        if resumed is None and file.exists() and file.stat().st_size:
            raise RunError(f"{file}: a run was here already; continue it with --resume, or choose another --out")
        with report_disk_errors(file.name, file.parent, 0):
            if resumed is not None:
                self.validation = _cut(file, resumed)
            self._descriptor = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def write(
        self,
        *,
        step: int,
        split: str,
        loss: float,
        tokens: int,
        seconds: float,
        tokens_per_second: float,
        flops: float,
        lr: float,
        **more: float,
    ) -> None:
        """Appends a line; `more` are further numbers, such as `gradient_norm` or a score."""
        numbers = {"loss": loss, "tokens": tokens, "seconds": seconds, "tokens_per_second": tokens_per_second}
        numbers |= {"flops": flops, "lr": lr, **more}
        self._append({"step": step, "split": split, **numbers})
        for tracker in tuple(self._trackers):
            self._guard(tracker, lambda tracker=tracker: tracker.write(step, split, numbers))

    def event(self, name: str, step: int, **more: str | float) -> None:
        """Appends a line about something that happened, such as an early stop."""
        self._append({"event": name, "step": step, **more})

    def sync(self) -> None:
        """Waits until all lines are on the disk: a checkpoint must not survive a power cut that its lines do not."""
        with report_disk_errors(self.file.name, self.file.parent, 0):
            os.fsync(self._descriptor)

    def close(self) -> None:
        """Closes the file and the trackers."""
        os.close(self._descriptor)
        for tracker in tuple(self._trackers):
            self._guard(tracker, tracker.close)

    def _append(self, line: Line) -> None:
        data = _encoded(line)
        with report_disk_errors(f"a line of {self.file.name}", self.file.parent, len(data)):
            while data:
                data = data[os.write(self._descriptor, data) :]

    def _guard(self, tracker: Tracker, action: Callable[[], None]) -> None:
        """A tracker that fails is given up with a warning: it is no reason to lose a run."""
        try:
            action()
        except Exception as error:
            self._trackers.remove(tracker)
            warnings.warn(f"{type(tracker).__name__} failed and is given up: {error}", stacklevel=3)


def read_metrics(file: Path) -> list[Line]:
    """All lines of a metrics file, events included; a last line that a kill truncated is left out."""
    try:
        return list(_lines(file))
    except OSError as error:
        raise DataError(file, f"cannot be read ({error.strerror})") from None


def _cut(file: Path, step: int) -> Line | None:
    """Rewrites the file without the lines after a step, and marks that the run resumed there; the step's validation.

    The validation of averaged checkpoints is the last line of a finished run, and is measured again at its new end.
    """
    lines, validation = _lines(file) if file.exists() else iter(()), None
    with atomic_writer(file) as stream:
        for line in lines:
            if line["step"] <= step and "averaged" not in line:
                stream.write(_encoded(line))
                if line.get("split") == "valid" and line["step"] == step:
                    validation = line
        stream.write(_encoded({"event": "resume", "step": step}))
    return validation


def _lines(file: Path) -> Iterator[Line]:
    with file.open("rb") as stream:
        for number, raw in enumerate(stream, start=1):
            try:
                yield _decoded(raw)
            except ValueError as error:
                if not stream.read(1):
                    return
                raise DataError(file, f"is not a line of metrics ({error})", number) from None


def _decoded(raw: bytes) -> Line:
    line = from_json(raw)
    if not isinstance(line, dict) or type(line.get("step")) is not int:
        raise ValueError("expected an object with a step")
    return line


def _encoded(line: Line) -> bytes:
    return f"{to_json(line)}\n".encode()


# Trackers


class TrackioTracker:
    """A run in a local Trackio project; one that resumes is found by its name."""

    def __init__(self, project: str, name: str, settings: Mapping[str, Any] | None = None) -> None:
        trackio = _library("trackio")
        with redirect_stdout(sys.stderr):  # it announces itself, and standard output is not the place
            self._run = trackio.init(project=project, name=name, config=dict(settings or {}), resume="allow")

    def write(self, step: int, split: str, numbers: Mapping[str, float]) -> None:
        """Shows the numbers as `train/loss` and so on."""
        self._run.log({f"{split}/{name}": value for name, value in numbers.items()}, step=step)

    def close(self) -> None:
        """Waits until everything is stored."""
        with redirect_stdout(sys.stderr):
            self._run.finish()


class TensorBoardTracker:
    """Event files for TensorBoard; what it showed after step `resumed` is hidden, as the run will write it again."""

    def __init__(self, folder: Path, resumed: int | None = None) -> None:
        tensorboard = _library("torch.utils.tensorboard")
        purge_step = None if resumed is None else resumed + 1
        self._writer = tensorboard.SummaryWriter(log_dir=str(folder), purge_step=purge_step)

    def write(self, step: int, split: str, numbers: Mapping[str, float]) -> None:
        """Shows the numbers as `train/loss` and so on."""
        for name, value in numbers.items():
            self._writer.add_scalar(f"{split}/{name}", value, global_step=step)
        self._writer.flush()

    def close(self) -> None:
        """Closes the event file."""
        self._writer.close()


def open_trackers(
    names: Sequence[TrackerName], run: Path, settings: Mapping[str, Any], resumed: int | None
) -> list[Tracker]:
    """The trackers of a run folder: its name is the run's, the folder around it the project's."""
    opened: list[Tracker] = []
    for name in dict.fromkeys(names):
        if name == "trackio":
            opened.append(TrackioTracker(run.resolve().parent.name, run.resolve().name, settings))
        else:
            opened.append(TensorBoardTracker(run / TENSORBOARD_FOLDER, resumed))
    return opened


def require_trackers(names: Sequence[TrackerName]) -> None:
    """RegardError for a tracker whose library is not installed."""
    for name in names:
        _library("trackio" if name == "trackio" else "torch.utils.tensorboard")


def _library(module: str) -> ModuleType:
    try:
        return importlib.import_module(module)
    except ImportError:
        name = "TensorBoard" if "tensorboard" in module else "Trackio"
        raise RegardError(f"{name} is not installed: pip install 'regard[track]'") from None
