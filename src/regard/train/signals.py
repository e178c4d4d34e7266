"""Requests to stop, answered between two steps: SIGTERM and Ctrl-C are noted, and the training loop asks.

with StopRequest() as stop:
    while not stop.requested:
        …
"""

import signal
import threading
from types import FrameType
from typing import Any, Literal, Self


class Stopped(Exception):  # noqa: N818
    """Raised out of work that can be repeated later, when a stop is requested meanwhile."""


class StopRequest:
    """Notes SIGTERM and the first Ctrl-C in `requested`; a second Ctrl-C interrupts at once.

    Python gives signals to the main thread only: in any other, nothing is changed and nothing is ever requested.
    """

    def __init__(self) -> None:
        self.requested: Literal["SIGTERM", "Ctrl-C", "callback"] | None = None
        self._interrupts = 0
        self._previous: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._previous[signal.SIGTERM] = signal.signal(signal.SIGTERM, self._on_terminate)
            self._previous[signal.SIGINT] = signal.signal(signal.SIGINT, self._on_interrupt)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)
        self._previous.clear()

    def _on_terminate(self, _number: int, _frame: FrameType | None) -> None:
        self.requested = self.requested or "SIGTERM"

    def _on_interrupt(self, _number: int, _frame: FrameType | None) -> None:
        self._interrupts += 1
        if self._interrupts > 1:
            raise KeyboardInterrupt
        self.requested = self.requested or "Ctrl-C"
