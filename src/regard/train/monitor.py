"""Interfaces of a run's observers: a watcher that shows it, and a log that keeps its metrics."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, Self

from regard.train.signals import StopRequest

Line = Mapping[str, Any]
"""A line of metrics.jsonl."""


class Watcher(Protocol):
    """Is told how training proceeds."""

    def started(self, metric: str, lines: Sequence[Line]) -> None:
        """Training begins: the metric that chooses the best checkpoint, and the lines of a run that resumes."""

    def step(self, line: Line, progress: float) -> None:
        """After each step."""

    def measured(self, line: Line) -> None:
        """After each validation."""

    def say(self, sentence: str) -> None:
        """Something a person should know."""

    def detail(self, sentence: str) -> None:
        """The reason of an automatic choice, shown with --verbose."""


class Log(Protocol):
    """Where the metrics of a run are written."""

    @property
    def validation(self) -> Line | None:
        """The line of the validation at the step that the run resumed from, if it was written before."""

    def write(self, **line: Any) -> None:  # noqa: ANN401
        """Appends a line."""

    def sync(self) -> None:
        """Waits until all lines are safe."""


class Quiet(Watcher):
    """A watcher that shows nothing and a log that writes nothing."""

    validation: Line | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...

    def step(self, line: Line, progress: float) -> None:
        pass

    def measured(self, line: Line) -> None:
        pass

    def say(self, sentence: str) -> None:
        pass

    def write(self, **_: Any) -> None:  # noqa: ANN401
        pass

    def sync(self) -> None:
        pass


# A user's own functions

Callback = Callable[[Mapping[str, float]], object]
"""Gets the values of a line of metrics.jsonl, with `progress`, the share of the budget that is used."""


class Callbacks(Watcher):
    """A watcher that also calls functions. An error in one requests a stop, so that the run is saved first."""

    def __init__(
        self, watcher: Watcher, stop: StopRequest, on_step: Callback | None, on_validation: Callback | None
    ) -> None:
        self.watcher, self.stop, self.on_step, self.on_validation = watcher, stop, on_step, on_validation
        self.error: BaseException | None = None
        self._progress = 0.0

    def started(self, metric: str, lines: Sequence[Line]) -> None:
        self.watcher.started(metric, lines)

    def step(self, line: Line, progress: float) -> None:
        self._progress = progress
        self.watcher.step(line, progress)
        self._call(self.on_step, line)

    def measured(self, line: Line) -> None:
        self.watcher.measured(line)
        self._call(self.on_validation, line)

    def say(self, sentence: str) -> None:
        self.watcher.say(sentence)

    def detail(self, sentence: str) -> None:
        self.watcher.detail(sentence)

    def _call(self, function: Callback | None, line: Line) -> None:
        if function is None or self.error is not None:
            return
        values = {name: value for name, value in line.items() if not isinstance(value, str)}
        try:
            function({**values, "progress": min(1.0, self._progress)})
        except BaseException as error:
            self.error, self.stop.requested = error, "callback"
