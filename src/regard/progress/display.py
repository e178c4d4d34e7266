"""Two displays of progress on standard error: a live line on a terminal, plain lines now and then elsewhere.

Bars, durations and lines that fit a terminal are below them.
"""

import os
import sys
import textwrap
import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, TextIO

from regard.progress import VERBOSITY, Display, Phase

if TYPE_CHECKING:
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

SHORT = 0.5
"""Seconds: shorter phases are not shown."""
LONG = 2.0
"""Seconds after which a plain line says what is going on."""
SECONDS_BETWEEN_LINES = 10.0
REFRESHES = 4
"""Of the live line in a second."""
NARROWEST_BAR, WIDEST_BAR = 4, 30
BLOCKS = ("━", "╺", "─")
ASCII_BLOCKS = ("#", "-", "-")


def make_display(lasting: bool = False, stream: TextIO | None = None) -> Display | None:
    """A display for the stream; `lasting`: a line of each phase stays. None with --quiet."""
    if VERBOSITY.get() == "quiet":
        return None
    chosen: TextIO = stream if stream is not None else sys.stderr
    return LiveDisplay(lasting) if is_live(chosen) else LineDisplay(lasting, chosen)


def is_live(stream: TextIO) -> bool:
    """Whether the stream is a terminal that can redraw lines."""
    return stream.isatty() and os.environ.get("TERM", "") not in ("dumb", "unknown")


class LineDisplay(Display):
    """Plain lines: one every ten seconds; with `lasting` the first after two, and one at the end of each phase."""

    def __init__(self, lasting: bool = False, stream: TextIO | None = None) -> None:
        self.lasting, self.stream = lasting, stream if stream is not None else sys.stderr
        self.unicode = is_unicode(self.stream)
        self.phases: list[Phase] = []
        self._last = time.monotonic()

    def begin(self, phase: Phase) -> None:
        if not self.phases:
            self._last = phase.began
            if self.lasting:
                self._last += LONG - SECONDS_BETWEEN_LINES  # the first line comes sooner
        self.phases.append(phase)

    def advance(self, phase: Phase) -> None:
        now = time.monotonic()
        if now - self._last >= SECONDS_BETWEEN_LINES:
            self._last = now
            self.say(self._line(phase))

    def end(self, phase: Phase) -> None:
        if phase in self.phases:
            self.phases.remove(phase)
        if self.lasting and not self.phases and phase.seconds >= SHORT:
            self.say(finished_line(phase))

    def say(self, sentence: str) -> None:
        print(sentence, file=self.stream, flush=True)

    def _line(self, phase: Phase) -> str:
        label = self.phases[0].label if self.phases else phase.label
        share = f", {phase.completed / phase.total:.0%}" if phase.total else ""
        return f"{label}: {phase.completed:,} {phase.unit}{share} after {duration(phase.seconds)}"


class LiveDisplay(Display):
    """One line that moves, for the outermost phase, with the count of whichever phase within it counts."""

    def __init__(self, lasting: bool = False, console: "Console | None" = None) -> None:
        from rich.console import Console

        self.lasting = lasting
        self.console = console or Console(stderr=True)
        self.unicode = is_unicode(self.console.file)  # type: ignore[arg-type]
        self.phases: list[Phase] = []
        self.pinned = False
        """Whether the line stays between phases."""
        self._live: Live | None = None
        self._timer: threading.Timer | None = None
        self._lock = threading.RLock()

    def begin(self, phase: Phase) -> None:
        with self._lock:
            self.phases.append(phase)
            if self._live is None and self._timer is None:
                self._timer = threading.Timer(SHORT, self.start)
                self._timer.daemon = True
                self._timer.start()

    def advance(self, phase: Phase) -> None:
        """Nothing: the line is drawn anew in any case."""

    def end(self, phase: Phase) -> None:
        with self._lock:
            if phase in self.phases:
                self.phases.remove(phase)
            if self.phases:
                return
            if not self.pinned:
                self.stop()
        if self.lasting and phase.seconds >= SHORT:
            self.say(finished_line(phase))

    def start(self) -> None:
        from rich.live import Live

        with self._lock:
            if self._live is None and (self.phases or self.pinned):
                # standard output is for results, wherever it leads
                self._live = Live(
                    get_renderable=self._drawn, console=self.console, refresh_per_second=REFRESHES, transient=True,
                    redirect_stdout=False,
                )  # fmt: skip
                self._live.start()

    def stop(self) -> None:
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            live, self._live = self._live, None
        if live is not None:
            live.stop()

    def say(self, sentence: str) -> None:
        text = wrapped(sentence, self.console.width)
        self.console.print(text, markup=False, highlight=False, emoji=False, soft_wrap=True)

    def lines(self, width: int) -> list[str]:
        phases = list(self.phases)
        if not phases:
            return []
        counting = next((phase for phase in phases if phase.counts), phases[0])
        return [phase_line(counting, phases[0].label, width, self.unicode)]

    def _drawn(self) -> "Text":
        from rich.text import Text

        return Text("\n".join(self.lines(self.console.width - 1)), no_wrap=True, overflow="crop")


def is_unicode(stream: TextIO) -> bool:
    """Whether a stream can write bars and trends."""
    try:
        "━▁█↑".encode(getattr(stream, "encoding", None) or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def duration(seconds: float) -> str:
    """A time for people: 0.8 s, 12 s, 2:13, 1:02:13."""
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    hours = f"{whole // 3600}:{whole // 60 % 60:02}" if whole >= 3600 else f"{whole // 60}"
    return f"{hours}:{whole % 60:02}"


def bar(share: float, width: int, unicode: bool = True) -> str:
    """A bar of so many characters."""
    full, _, empty = BLOCKS if unicode else ASCII_BLOCKS
    filled = round(min(1.0, max(0.0, share)) * width)
    return full * filled + empty * (width - filled)


def fitted(parts: Sequence[str], width: int, optional: Sequence[int] = ()) -> str:
    """Parts of a line, two spaces apart; where it is too long, the `optional` ones (by index) are dropped, in order."""
    shown = dict(enumerate(parts))
    for index in optional:
        if len("  ".join(shown.values())) <= width:
            break
        shown.pop(index, None)
    return "  ".join(part for part in shown.values() if part)[:width]


def with_bar(parts: Sequence[str], share: float, width: int, unicode: bool = True, optional: Sequence[int] = ()) -> str:
    """A line of parts with a bar after the first, as long as there is room for one."""
    line = fitted(parts, width, optional)
    bar_width = min(WIDEST_BAR, width - len(line) - 2)
    if bar_width < NARROWEST_BAR or not line.startswith(parts[0]):
        return line
    return f"{parts[0]}  {bar(share, bar_width, unicode)}{line[len(parts[0]) :]}"


def phase_line(phase: Phase, label: str, width: int, unicode: bool = True) -> str:
    """How far a phase is, in one line."""
    took, count = phase.seconds, f"{phase.completed:,} {phase.unit}"
    speed = f"{phase.completed / took:,.0f}/s" if took > 1 and phase.completed >= took else ""
    if not phase.total:
        return fitted([label, count if phase.completed else "", speed, duration(took)], width, (2, 3))
    share = phase.completed / phase.total
    left = f"{duration(took * (1 / share - 1))} left" if share > 0 and took > 1 else ""
    return with_bar(
        [label, f"{share:.0%}", f"{phase.completed:,} of {phase.total:,} {phase.unit}", left], share, width, unicode
    )


def finished_line(phase: Phase) -> str:
    """What a phase did, once it is over."""
    amount = f"{phase.completed:,} {phase.unit} in " if phase.completed else ""
    return f"{phase.label}: {amount}{duration(phase.seconds)}"


def wrapped(sentence: str, width: int) -> str:
    """A sentence of several lines where it is longer than a terminal is wide; paths and commands stay whole."""
    lines = [
        textwrap.fill(line, width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
        if len(line) > width
        else line
        for line in sentence.split("\n")
    ]
    return "\n".join(lines)
