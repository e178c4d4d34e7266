"""How a run is watched: a live bar on a terminal, a plain line now and then elsewhere."""

import sys
import time
from collections.abc import Mapping
from typing import Any, TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from regard.metrics.registry import METRICS
from regard.train.watching import Watcher

SECONDS_BETWEEN_LINES = 10.0


def make_watcher(peak: float | None = None, stream: TextIO | None = None) -> "Bar | Lines":
    """A bar where a person watches, lines where a file does; `peak` is the machine's measured FLOP/s."""
    chosen: TextIO = stream if stream is not None else sys.stderr
    return Bar(peak) if chosen.isatty() else Lines(peak, chosen)


def speed_of(line: Mapping[str, Any], peak: float | None) -> str:
    """Tokens per second, and the fraction of the machine's peak where that is known."""
    text = f"{line['tokens_per_second']:,.0f} tokens/s"
    return text + (f" ({line['flops_per_second'] / peak:.0%} of peak)" if peak else "")


def scores_of(line: Mapping[str, Any]) -> str:
    """The metrics of a validation."""
    return ", ".join(f"{name} {value:.4f}" for name, value in line.items() if name in METRICS)


def time_left(seconds: float, progress: float) -> str:
    """How long the rest takes at the pace so far."""
    if progress <= 0:
        return "?"
    left = round(seconds * max(0.0, 1 / progress - 1))
    return f"{left // 3600}:{left // 60 % 60:02}:{left % 60:02}"


class Lines(Watcher):
    """A line every ten seconds, and one for each validation."""

    def __init__(self, peak: float | None = None, stream: TextIO | None = None) -> None:
        self.peak, self.stream = peak, stream or sys.stderr
        self._last = 0.0

    def __enter__(self) -> "Lines":
        return self

    def __exit__(self, *_: object) -> None: ...

    def step(self, line: Mapping[str, Any], progress: float) -> None:
        """Tells where training stands, if nothing was told for a while."""
        if time.monotonic() - self._last >= SECONDS_BETWEEN_LINES or progress >= 1:
            self._last = time.monotonic()
            left = time_left(line["seconds"], progress)
            self.say(
                f"step {line['step']:,}  {progress:.0%}  loss {line['loss']:.4f}  lr {line['lr']:.2e}  "
                f"{speed_of(line, self.peak)}  {left} left"
            )

    def measured(self, line: Mapping[str, Any]) -> None:
        """Tells the scores."""
        self.say(f"step {line['step']:,}  validation: {scores_of(line)}")

    def say(self, sentence: str) -> None:
        """A line."""
        print(sentence, file=self.stream, flush=True)


class Bar(Watcher):
    """A bar that moves, with the last validation above it."""

    def __init__(self, peak: float | None = None) -> None:
        self.peak = peak
        columns = [TextColumn("{task.fields[step]}"), BarColumn(), TextColumn("{task.percentage:>3.0f} %")]
        columns += [TextColumn("{task.fields[told]}"), TimeElapsedColumn(), TextColumn("{task.fields[left]} left")]
        self.bar = Progress(*columns, console=Console(stderr=True))
        self.task = self.bar.add_task("", total=1.0, step="starting", told="", left="?")

    def __enter__(self) -> "Bar":
        self.bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.bar.stop()

    def step(self, line: Mapping[str, Any], progress: float) -> None:
        """Moves the bar."""
        told = f"loss {line['loss']:.3f}  {speed_of(line, self.peak)}"
        left = time_left(line["seconds"], progress)
        self.bar.update(self.task, completed=min(1.0, progress), step=f"step {line['step']:,}", told=told, left=left)

    def measured(self, line: Mapping[str, Any]) -> None:
        """A line above the bar."""
        self.say(f"step {line['step']:,}  validation: {scores_of(line)}")

    def say(self, sentence: str) -> None:
        """A line above the bar."""
        self.bar.console.print(sentence, markup=False, highlight=False)
