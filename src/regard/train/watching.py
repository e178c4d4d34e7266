"""Who hears of a run while it goes on: a watcher that shows it, and a log that keeps its numbers."""

from collections.abc import Mapping
from typing import Any, Protocol


class Watcher(Protocol):
    """Who is told how a run goes."""

    def step(self, line: Mapping[str, Any], progress: float) -> None:
        """A step was made."""

    def measured(self, line: Mapping[str, Any]) -> None:
        """The model was measured on the validation data."""

    def say(self, sentence: str) -> None:
        """Something a person should know."""


class Log(Protocol):
    """Where the numbers of a run are written."""

    @property
    def validation(self) -> Mapping[str, Any] | None:
        """The line of the validation at the step that the run resumed from, if it was written before."""

    def write(self, **line: Any) -> None:  # noqa: ANN401
        """Appends a line."""

    def sync(self) -> None:
        """Waits until all lines are safe."""
