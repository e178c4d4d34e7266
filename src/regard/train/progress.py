"""How a run is watched: a live bar on a terminal, a plain line now and then elsewhere.

Both show the phases of preparation (reading, tokenising, storing), then where training stands: step, share of the
budget, smoothed loss (cross-entropy, as the validation's), learning rate, speed, time left; and each validation with
its scores and their trend.
"""

import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Self, TextIO

from regard.metrics.registry import METRICS
from regard.progress import VERBOSITY, shown_on
from regard.progress.display import SECONDS_BETWEEN_LINES, LineDisplay, LiveDisplay, duration, fitted, is_live, with_bar
from regard.train.monitor import Line, Quiet, Watcher
from regard.train.trend import SCORES, SmoothedLoss, Speed, shown_scores, sparkline, verdict

if TYPE_CHECKING:
    from rich.console import Console

NARROW = 80
"""Characters of a plain line at most."""


def make_watcher(peak: float | None = None, stream: TextIO | None = None) -> "Bar | Lines | Quiet":
    """A bar where a person watches, lines where a file does; `peak` is the machine's measured FLOP/s."""
    verbosity = VERBOSITY.get()
    if verbosity == "quiet":
        return Quiet()
    chosen: TextIO = stream if stream is not None else sys.stderr
    progress_state = Progress(peak if verbosity == "verbose" else None, verbosity == "verbose")
    return Bar(progress_state) if is_live(chosen) else Lines(progress_state, chosen)


class Progress:
    """The state that both watchers show, and its text."""

    def __init__(self, peak: float | None = None, verbose: bool = False) -> None:
        self.peak, self.verbose = peak, verbose
        self.metric = "loss"
        self.scores: dict[str, list[float]] = {}
        self.loss, self.speed = SmoothedLoss(), Speed()
        self.line: Line = {}
        self.share = 0.0
        self.tokens_per_second: float | None = None
        self._began: tuple[float, float] | None = None

    def started(self, metric: str, lines: Sequence[Line]) -> None:
        """The validations of a run that resumes belong to the trend."""
        self.metric = metric
        for line in lines:
            if line.get("split") == "valid" and "averaged" not in line:
                self._remember(line)

    def step(self, line: Line, share: float) -> None:
        self._began = self._began or (time.monotonic(), share)
        self.line, self.share = line, share
        self.loss.add(line["loss"])
        self.tokens_per_second = self.speed.add(line["tokens"])

    def parts(self) -> list[str]:
        """Where training stands; the last parts can be left out."""
        line, speed = self.line, self.tokens_per_second
        peak = f" ({line['flops_per_second'] / self.peak:.0%} of peak)" if self.peak else ""
        return [
            f"step {line['step']:,}",
            f"{min(1.0, self.share):.0%}",
            f"loss {self.loss.value:.3f}",
            f"lr {line['lr']:.1e}",
            f"{speed:,.0f} tokens/s{peak}" if speed is not None else "",
            self.left(),
        ]

    def left(self) -> str:
        """How long the rest takes at the pace so far, validations included."""
        if self._began is None or not self._began[1] < self.share < 1:
            return ""
        pace = (time.monotonic() - self._began[0]) / (self.share - self._began[1])
        return f"{duration(pace * max(0.0, 1 - self.share))} left"

    def validation(self, line: Line, unicode: bool) -> list[str]:
        """The scores of a validation and the trend of the one that chooses the best checkpoint."""
        self._remember(line)
        self.speed.pause()
        width = NARROW - len(f"step {line['step']:,}") - 4
        values = self.scores.get(self.metric, [])
        trend = f"{sparkline(values, unicode)} {verdict(values, self.metric, unicode)}".strip()
        most = next((most for most in range(SCORES, 1, -1) if len(self._scores(line, most)) + len(trend) <= width), 2)
        return [f"step {line['step']:,}", self._scores(line, most), trend]

    def _scores(self, line: Line, most: int) -> str:
        return f"validation: {shown_scores(line, self.metric, most)}"

    def _remember(self, line: Line) -> None:
        for name in METRICS.keys() & line.keys():
            self.scores.setdefault(name, []).append(line[name])


class Lines(LineDisplay, Watcher):
    """Lines for a file: each phase of the preparation, training every ten seconds, each validation."""

    def __init__(self, progress_state: Progress | None = None, stream: TextIO | None = None) -> None:
        super().__init__(lasting=True, stream=stream)
        self.state, self._stack, self._last_line = progress_state or Progress(), ExitStack(), 0.0

    def __enter__(self) -> Self:
        self._stack.enter_context(shown_on(self))
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def started(self, metric: str, lines: Sequence[Line]) -> None:
        self.state.started(metric, lines)
        self.lasting = False

    def step(self, line: Line, progress: float) -> None:
        self.state.step(line, progress)
        if time.monotonic() - self._last_line >= SECONDS_BETWEEN_LINES or progress >= 1:
            self._last_line = time.monotonic()
            self.say(fitted(self.state.parts(), NARROW, (3, 4)))

    def measured(self, line: Line) -> None:
        self.say("  ".join(filter(None, self.state.validation(line, self.unicode))))

    def detail(self, sentence: str) -> None:
        if self.state.verbose:
            self.say(sentence)


class Bar(LiveDisplay, Watcher):
    """A bar that moves, with validations and sentences above it."""

    def __init__(self, progress_state: Progress | None = None, console: "Console | None" = None) -> None:
        super().__init__(lasting=True, console=console)
        self.state, self._stack = progress_state or Progress(), ExitStack()

    def __enter__(self) -> Self:
        self._stack.enter_context(shown_on(self))
        return self

    def __exit__(self, *_: object) -> None:
        self.pinned = False
        self.stop()
        self._stack.close()

    def started(self, metric: str, lines: Sequence[Line]) -> None:
        self.state.started(metric, lines)
        self.lasting, self.pinned = False, True
        self.start()

    def step(self, line: Line, progress: float) -> None:
        self.state.step(line, progress)

    def measured(self, line: Line) -> None:
        self.say("  ".join(filter(None, self.state.validation(line, self.unicode))))

    def detail(self, sentence: str) -> None:
        if self.state.verbose:
            self.say(sentence)

    def lines(self, width: int) -> list[str]:
        """The line of training, and of a phase beside it, such as a validation."""
        training = []
        if self.state.line:
            training = [with_bar(self.state.parts(), self.state.share, width, self.unicode, (3, 4))]
        return [*training, *super().lines(width)]
