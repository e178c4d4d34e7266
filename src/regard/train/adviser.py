"""Watches a run for whoever watches it: says in one sentence, once, when something is off."""

import time
from collections.abc import Callable, Sequence
from typing import Any

from regard.train import advice
from regard.train.advice import Facts
from regard.train.monitor import Line, Watcher

STEPS_OF_A_POINT = 25
MOST_POINTS = 400


class Adviser(Watcher):
    """A watcher that hands everything on to another, and adds advice at the beginning and at each validation."""

    def __init__(self, watcher: Watcher, clock: Callable[[], float] = time.monotonic) -> None:
        self.watcher, self._clock = watcher, clock
        self.facts: Facts | None = None
        """To be set once the data is stored."""
        self._metric, self._lines = "loss", list[Line]()
        self._losses: list[float] = []
        self._said: set[str] = set()
        self._began = self._stepped = self._validating = 0.0
        self._validations = 0

    def started(self, metric: str, lines: Sequence[Line]) -> None:
        """Takes the lines of a run that resumes; says what can be known of its data."""
        self.watcher.started(metric, lines)
        self._metric, self._began, self._stepped = metric, self._clock(), self._clock()
        self._lines = [line for line in lines if "split" in line and "averaged" not in line]
        if self.facts is not None:
            self._advise("data", advice.little_data(self.facts))
            self._advise("left out", advice.much_left_out(self.facts))

    def step(self, line: Line, progress: float) -> None:
        """Remembers the mean of some steps as one point."""
        self.watcher.step(line, progress)
        self._stepped = self._clock()
        self._losses.append(line["loss"])
        self._last = {**line, "progress": progress}
        if len(self._losses) >= STEPS_OF_A_POINT or line["step"] == 1:
            self._close_point()

    def measured(self, line: Line) -> None:
        """Says what is off, if it has not been said yet."""
        self.watcher.measured(line)
        now = self._clock()
        self._validating += now - self._stepped
        self._validations += 1
        self._stepped = now
        self._close_point()
        self._lines.append(line)
        lines, facts = self._lines, self.facts
        if facts is not None:
            self._advise("validation", advice.small_validation(facts, line))
        found = {
            "over-fitting": advice.overfitting(lines, self._metric),
            "not falling": advice.not_falling(lines, facts),
            "diverging": advice.diverging(lines),
            "warm-up": advice.still_warming_up(lines),
            "rate": advice.rate_used_up(lines),
            "epochs": advice.many_epochs(lines),
            "validating": advice.mostly_validating(now - self._began, self._validating, self._validations),
        }
        for name, sentence in found.items():
            self._advise(name, sentence)

    def say(self, sentence: str) -> None:
        """Hands it on."""
        self.watcher.say(sentence)

    def detail(self, sentence: str) -> None:
        """Hands it on."""
        self.watcher.detail(sentence)

    def _close_point(self) -> None:
        if not self._losses:
            return
        point: dict[str, Any] = {**self._last, "split": "train", "loss": sum(self._losses) / len(self._losses)}
        self._losses = []
        self._lines.append(point)
        if sum(line["split"] == "train" for line in self._lines) > MOST_POINTS:
            train = [line for line in self._lines if line["split"] == "train"]
            dropped = {id(line) for line in train[1:-1:2]}
            self._lines = [line for line in self._lines if id(line) not in dropped]

    def _advise(self, name: str, sentence: str | None) -> None:
        """Says a sentence, of each kind once."""
        if sentence is not None and name not in self._said:
            self._said.add(name)
            self.watcher.say(f"note: {sentence}")
