"""A user's own functions, called after each step and each validation."""

from collections.abc import Callable, Mapping, Sequence

from regard.train.monitor import Line, Watcher
from regard.train.signals import StopRequest

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
