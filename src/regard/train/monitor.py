"""Who hears of a run while it goes on: a watcher that shows it, and a log that keeps its numbers."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, Self

Line = Mapping[str, Any]
"""A line of metrics.jsonl."""


class Watcher(Protocol):
    """Who is told how a run goes."""

    def started(self, metric: str, lines: Sequence[Line]) -> None:
        """Training begins: the metric that chooses the best checkpoint, and the lines of a run that resumes."""

    def step(self, line: Line, progress: float) -> None:
        """A step was made."""

    def measured(self, line: Line) -> None:
        """The model was measured on the validation data."""

    def say(self, sentence: str) -> None:
        """Something a person should know."""

    def detail(self, sentence: str) -> None:
        """The reason of an automatic choice, for who asks for it."""


class Log(Protocol):
    """Where the numbers of a run are written."""

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
        """Nothing."""

    def measured(self, line: Line) -> None:
        """Nothing."""

    def say(self, sentence: str) -> None:
        """Nothing."""

    def write(self, **_: Any) -> None:  # noqa: ANN401
        """Nothing."""

    def sync(self) -> None:
        """Nothing."""
