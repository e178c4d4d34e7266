"""`metrics.jsonl`: a line for each measurement, the same lines whether a run was disturbed or not.

    with MetricsLog(run / "metrics.jsonl", resumed=400) as log:
        log.write(step=410, split="train", loss=2.1, tokens=40960, seconds=1.5, …)

A line is written by one call, at once. A step's lines are to be written before its checkpoint is: resuming cuts off
what came after the checkpoint, and the run writes it again. NaN and infinities are written as `strict_json` does.
"""

import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Self

from regard.errors import DataError, RunError
from regard.files.atomic import atomic_writer, report_disk_errors
from regard.files.strict_json import from_json, to_json
from regard.train.trackers import Tracker

Line = dict[str, Any]


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
