"""Progress of long work: any layer reports phases and counts; whoever runs it decides how they are shown.

    with phase("storing", unit="pairs") as advance:
        for chunk in chunks:
            …
            advance(len(chunk))

Nothing is shown unless a display is installed, as the command line does: `with shown_on(display): …`. Threads other
than the one that installed it show nothing.
"""

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeVar

Item = TypeVar("Item")
Verbosity = Literal["quiet", "normal", "verbose"]
"""quiet: errors and results only; verbose: the reasons of automatic choices too."""

VERBOSITY: ContextVar[Verbosity] = ContextVar("verbosity", default="normal")


@dataclass(eq=False)
class Phase:
    """A piece of work, and how much of it is completed."""

    label: str
    unit: str
    """What is counted, in the plural."""
    total: int | None = None
    completed: int = 0
    began: float = field(default_factory=lambda: time.monotonic())

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.began

    @property
    def counts(self) -> bool:
        """Whether there is more to show than its name."""
        return self.completed > 0 or self.total is not None


class Display(Protocol):
    """Shows phases and sentences."""

    def begin(self, phase: Phase) -> None:
        """A phase begins, perhaps inside another."""

    def advance(self, phase: Phase) -> None:
        """More of a phase is completed."""

    def end(self, phase: Phase) -> None:
        """A phase has ended, or failed."""

    def say(self, sentence: str) -> None:
        """A sentence that stays."""


_DISPLAY: ContextVar[Display | None] = ContextVar("display", default=None)


@contextmanager
def shown_on(display: Display | None) -> Iterator[None]:
    """All phases within it are shown on a display; on none, with None."""
    token = _DISPLAY.set(display)
    try:
        yield
    finally:
        _DISPLAY.reset(token)


def current_display() -> Display | None:
    return _DISPLAY.get()


def tell(text: str) -> None:
    """Lines about the work: on the display, or on standard error where there is none; with --quiet nowhere."""
    if VERBOSITY.get() == "quiet":
        return
    display = _DISPLAY.get()
    if display is not None:
        display.say(text)
    else:
        print(text, file=sys.stderr, flush=True)  # noqa: T201


@contextmanager
def phase(label: str, total: int | None = None, unit: str = "examples") -> Iterator[Callable[[int], None]]:
    """A piece of work; yields a function to call with the number of units completed since."""
    display = _DISPLAY.get()
    if display is None:
        yield _nothing
        return
    current = Phase(label, unit, total)

    def advance(count: int) -> None:
        current.completed += count
        display.advance(current)

    display.begin(current)
    try:
        yield advance
    finally:
        display.end(current)


def tracked(items: Iterable[Item], label: str, total: int | None = None, unit: str = "examples") -> Iterator[Item]:
    """The same items; one is completed when the next is requested."""
    if _DISPLAY.get() is None:
        yield from items
        return
    with phase(label, total, unit) as advance:
        for item in items:
            yield item
            advance(1)


def _nothing(_: int) -> None:
    pass
