"""Advice during training: small rules over what is known of the data and over the metrics, and who applies them.

Each rule is a pure function that gives one sentence, or None where all is well. Rules over metrics take lines as in
metrics.jsonl, training losses as means over some steps, with `progress`, the share of the budget, beside.
"""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from regard.errors import counted
from regard.metrics.registry import METRICS
from regard.train.monitor import Line, Watcher

FEW_EXAMPLES, FEW_TOKENS, FEW_VALID_EXAMPLES, FEW_VALID_TOKENS = 300, 20_000, 200, 5_000
MANY_EPOCHS = 100
LARGE_SHARE = 0.1
"""Of examples that are cut or left out."""
WORSE_VALIDATIONS = 3
"""In a row, beyond the best, before over-fitting is said."""


@dataclass(frozen=True)
class Facts:
    """What is known of a run before its first step."""

    unit: str
    """What an example is called: pair, sentence, image."""
    examples: int
    valid_examples: int
    tokens: int | None = None
    """Of running text, which is counted in tokens; None: count examples."""
    valid_tokens: int | None = None
    left_out: Mapping[str, int] = field(default_factory=dict)
    """Training examples that were left out, by reason."""
    cut: Mapping[str, int] = field(default_factory=dict)
    """Training texts that were cut, by reason."""
    started: bool = False
    """Whether weights come from another run, so that the loss need not fall far."""


# What is off before the first step


def little_data(facts: Facts) -> str | None:
    """Too few examples to learn anything but them."""
    few = facts.examples < FEW_EXAMPLES if facts.tokens is None else facts.tokens < FEW_TOKENS
    if not few:
        return None
    amount = counted(facts.examples, facts.unit) if facts.tokens is None else counted(facts.tokens, "token")
    return (
        f"only {amount} to train on: the model will memorise them; get more, or start from a trained run with "
        "model.from"
    )


def much_left_out(facts: Facts) -> str | None:
    """Limits of length that cost more than a tenth of the data."""
    for counts, what in ((facts.left_out, "left out"), (facts.cut, "cut")):
        if not counts:
            continue
        before = facts.examples + sum(facts.left_out.values())
        reason, most = max(counts.items(), key=lambda item: item[1])
        if sum(counts.values()) > LARGE_SHARE * before:
            share = min(1.0, most / before)
            return (
                f"{share:.0%} of the training {facts.unit}s are {what} ({reason}); raise that limit: data.max_length, "
                "or task.input_tokens or model.position.length where the recipe sets one"
            )
    return None


# What is off at a validation


def small_validation(facts: Facts, line: Line) -> str | None:
    """Too little to measure on: differences are mostly chance."""
    if facts.tokens is None:
        few, amount = facts.valid_examples < FEW_VALID_EXAMPLES, counted(facts.valid_examples, facts.unit)
    else:
        few, amount = (facts.valid_tokens or 0) < FEW_VALID_TOKENS, counted(facts.valid_tokens or 0, "token")
    if not few:
        return None
    sure = ""
    if "accuracy" in line and facts.tokens is None:
        points = 196 * math.sqrt(max(0.05, line["accuracy"] * (1 - line["accuracy"])) / max(1, facts.valid_examples))
        sure = f" (accuracy ± {points:.0f} points)"
    return f"only {amount} to validate on: scores are noisy{sure}; give data.valid more"


def overfitting(lines: Sequence[Line], metric: str = "loss") -> str | None:
    """Validation has become worse several times in a row while the training loss falls."""
    valid, train = _of(lines, "valid"), _of(lines, "train")
    best = _best(valid, "loss")
    if best is None or not train or len(valid) - 1 - best < WORSE_VALIDATIONS:
        return None
    chosen = _best(valid, metric)
    if chosen is not None and len(valid) - 1 - chosen < WORSE_VALIDATIONS:
        return None  # the loss knows less than the score that counts, which still gets better
    step, low, high = valid[best]["step"], valid[best]["loss"], valid[-1]["loss"]
    then = [line for line in train if line["step"] <= step] or train[:1]
    if high < 1.02 * low or train[-1]["loss"] > 0.98 * then[-1]["loss"]:
        return None
    return (
        f"over-fitting since step {step:,}: validation loss {low:.3f} → {high:.3f} while the training loss fell from "
        f"{then[-1]['loss']:.3f} to {train[-1]['loss']:.3f}; the best checkpoint is kept, so you can stop here; more "
        "data, a smaller model or more model.dropout helps"
    )


def not_falling(lines: Sequence[Line], facts: Facts | None = None) -> str | None:
    """The training loss is where it began, a fifth of the budget later and with the learning rate up."""
    train = _of(lines, "train")
    if len(train) < 5 or train[-1].get("progress", 1.0) < 0.2 or _still_rising(train):
        return None
    if facts is not None and facts.started:
        return None
    first, last = max(line["loss"] for line in train[:2]), sum(line["loss"] for line in train[-3:]) / 3
    if last < 0.98 * first:
        return None
    return (
        f"the loss has not fallen: {first:.3f} at the beginning, {last:.3f} at step {train[-1]['step']:,}; try another "
        f"train.schedule.lr (now {_peak(train):.1e}), and check the files with regard data check"
    )


def diverging(lines: Sequence[Line]) -> str | None:
    """The training loss has risen far above its lowest."""
    train = _of(lines, "train")
    if len(train) < 4:
        return None
    low = min(train[:-2], key=lambda line: line["loss"])
    last = min(line["loss"] for line in train[-2:])
    if last < 1.5 * low["loss"] or last < low["loss"] + 0.5:
        return None
    lr = _peak(train)
    return (
        f"the training loss has risen from {low['loss']:.3f} (step {low['step']:,}) to {last:.3f}: the learning rate "
        f"is too high; lower train.schedule.lr from {lr:.1e} to {lr / 3:.1e} or less"
    )


def still_warming_up(lines: Sequence[Line]) -> str | None:
    """Half of the budget is used, and the learning rate still rises."""
    train = _of(lines, "train")
    if len(train) < 3 or train[-1].get("progress", 0.0) < 0.5 or not _still_rising(train):
        return None
    last = train[-1]
    return (
        f"the learning rate still rises at step {last['step']:,}, {last['progress']:.0%} of the budget: the warm-up is "
        f"too long for this run; train.schedule.warmup = {max(1, round(last['step'] / last['progress'] / 10)):,} would "
        "be a tenth of it"
    )


def rate_used_up(lines: Sequence[Line]) -> str | None:
    """The learning rate is next to nothing long before the end."""
    train = _of(lines, "train")
    if not train or train[-1].get("progress", 1.0) > 0.85 or train[-1]["lr"] > 0.01 * _peak(train):
        return None
    return (
        f"the learning rate is down to {train[-1]['lr']:.1e} with {1 - train[-1]['progress']:.0%} of the budget left: "
        "training will change little more; see train.schedule"
    )


def many_epochs(lines: Sequence[Line]) -> str | None:
    """The budget goes more than a hundred times over the same data."""
    train = _of(lines, "train")
    if not train or not train[-1].get("progress"):
        return None
    epochs = train[-1].get("epoch", 0.0) / train[-1]["progress"]
    if train[-1]["progress"] < 0.02 or epochs <= MANY_EPOCHS:
        return None
    return f"the budget is about {epochs:,.0f} passes over the training data; fewer steps, or more data, would do"


def mostly_validating(seconds: float, validating: float, validations: int) -> str | None:
    """More than half of the time goes into validations."""
    if validations < 3 or validating <= 0.5 * seconds:
        return None
    return (
        f"validations take {validating / seconds:.0%} of the time; raise train.valid_every, or give data.valid a limit"
    )


def _of(lines: Sequence[Line], split: str) -> list[Line]:
    """The lines of a split whose loss is finite."""
    return [line for line in lines if line.get("split") == split and math.isfinite(line.get("loss", math.nan))]


def _best(valid: Sequence[Line], metric: str) -> int | None:
    """The index of the first best validation; None where none has the metric."""
    indices = [index for index, line in enumerate(valid) if math.isfinite(line.get(metric, math.nan))]
    if not indices:
        return None
    sign = -1 if METRICS[metric].higher_is_better else 1
    return min(indices, key=lambda index: sign * valid[index][metric])


def _peak(train: Sequence[Line]) -> float:
    return max(line["lr"] for line in train)


def _still_rising(train: Sequence[Line]) -> bool:
    rates = [line["lr"] for line in train]
    return all(before < after for before, after in pairwise(rates))


# Who applies the rules

STEPS_OF_A_POINT = 25
MOST_POINTS = 400


class Adviser(Watcher):
    """A watcher that passes everything on to another, and adds advice at the start and at each validation."""

    def __init__(self, watcher: Watcher, time_source: Callable[[], float] = time.monotonic) -> None:
        self.watcher, self._time_source = watcher, time_source
        self.facts: Facts | None = None
        """To be set once the data is stored."""
        self._metric, self._lines = "loss", list[Line]()
        self._losses: list[float] = []
        self._given_advice: set[str] = set()
        self._began = self._stepped = self._validating = 0.0
        self._validations = 0

    def started(self, metric: str, lines: Sequence[Line]) -> None:
        self.watcher.started(metric, lines)
        self._metric, self._began, self._stepped = metric, self._time_source(), self._time_source()
        self._lines = [line for line in lines if "split" in line and "averaged" not in line]
        if self.facts is not None:
            self._advise("data", little_data(self.facts))
            self._advise("left out", much_left_out(self.facts))

    def step(self, line: Line, progress: float) -> None:
        self.watcher.step(line, progress)
        self._stepped = self._time_source()
        self._losses.append(line["loss"])
        self._last = {**line, "progress": progress}
        if len(self._losses) >= STEPS_OF_A_POINT or line["step"] == 1:
            self._close_point()

    def measured(self, line: Line) -> None:
        self.watcher.measured(line)
        now = self._time_source()
        self._validating += now - self._stepped
        self._validations += 1
        self._stepped = now
        self._close_point()
        self._lines.append(line)
        lines, facts = self._lines, self.facts
        if facts is not None:
            self._advise("validation", small_validation(facts, line))
        advice = {
            "over-fitting": overfitting(lines, self._metric),
            "not falling": not_falling(lines, facts),
            "diverging": diverging(lines),
            "warm-up": still_warming_up(lines),
            "rate": rate_used_up(lines),
            "epochs": many_epochs(lines),
            "validating": mostly_validating(now - self._began, self._validating, self._validations),
        }
        for name, sentence in advice.items():
            self._advise(name, sentence)

    def say(self, sentence: str) -> None:
        self.watcher.say(sentence)

    def detail(self, sentence: str) -> None:
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
        """Each kind of advice once."""
        if sentence is not None and name not in self._given_advice:
            self._given_advice.add(name)
            self.watcher.say(f"note: {sentence}")
