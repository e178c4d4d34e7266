"""Interfaces of a run's observers: a watcher that shows it, and a log that keeps its metrics."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, Self

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
