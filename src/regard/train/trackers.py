"""Trackers that show a run live, each through a library of the `track` extra."""

import importlib
import sys
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, Protocol

from regard.errors import RegardError
from regard.files.run_folder import TENSORBOARD_FOLDER

TrackerName = Literal["trackio", "tensorboard"]


class Tracker(Protocol):
    """Takes the numbers of each line of the metrics."""

    def write(self, step: int, split: str, numbers: Mapping[str, float]) -> None:
        """Shows the numbers of a step."""
        ...

    def close(self) -> None:
        """Sends what is still waiting."""
        ...


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
