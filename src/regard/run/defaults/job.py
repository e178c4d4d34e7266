"""Decisions about single settings, and the rules that all tasks share: model size, batch size, budget and validation.

What the recipe states is kept; what it leaves out gets a value and a reason. A model is as large as the data supports,
and no larger than the budget can train. Sources: docs/defaults.md.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from math import log2
from typing import TypeVar, cast

from regard.config.values import Tree, is_table
from regard.run.defaults.cost import Candidate, Effort, Machine
from regard.run.defaults.facts import Facts

MINUTES = 9.0
"""Longest default budget; with what comes before and after training, about ten minutes."""
LONG_MINUTES = 30.0
"""The same where a pass over the data takes longer than that."""
VALIDATIONS = 10
"""Validations of a run; at least eight, also where they take time from the budget."""
HELD_OUT = 2000
"""Most examples that are held out for validation."""
MEASURED = 2000
"""Most examples that a validation measures."""
TOKENIZER_BYTES = 2e7
"""Most text that a vocabulary is trained on."""
LEAST_STEPS, LEAST_BATCH = 800, 512
"""Steps of a run on small data, and tokens of its batches."""
ENOUGH_SCORED = 200
"""Generated texts from which on their score ranks checkpoints better than the loss."""
PATIENCE = 5
"""Validations without a better one that end a run."""
WARMUP, FLOOR = 0.08, 0.01

LIMITS = ("steps", "epochs", "minutes", "flops", "tokens")
"""The names of a budget's limits, below `train`."""

Value = TypeVar("Value")
Sizes = Sequence[tuple[float, int, int]]
"""From so many bytes of text on: width and depth."""


def power_of_two(number: float, least: int, most: int) -> int:
    """The nearest power of two within limits, which are such powers too."""
    return int(2 ** round(log2(min(max(number, least), most))))


@dataclass(frozen=True)
class Decision:
    """A setting that the recipe leaves out, its value, and why it has this one."""

    path: str
    value: object
    why: str


class Decider:
    """Values by path: those that the recipe states, and what was decided so far."""

    def __init__(self, stated: Iterable[tuple[str, object]]) -> None:
        self.stated = dict(stated)
        self.decisions: list[Decision] = []
        self.kinds: dict[str, str] = {}
        """The kinds in force, stated or decided, by the path of their family."""

    def has(self, path: str) -> bool:
        """Whether the recipe sets this setting, or the whole table that it stands in; a bare name is a kind only."""
        table, _, name = path.rpartition(".")
        if path in self.stated or (name == "kind" and isinstance(self.stated.get(table), str)):
            return True
        parts = path.split(".")
        above = [".".join(parts[:end]) for end in range(1, len(parts))]
        return any(table in self.stated and not isinstance(self.stated[table], str) for table in above)

    def sets_below(self, table: str) -> list[str]:
        """The settings below a table that the recipe sets."""
        return [path.removeprefix(f"{table}.") for path in self.stated if path.startswith(f"{table}.")]

    def __call__(self, path: str, value: Value, why: str) -> Value:
        """The value in force: the recipe's own, or this one, which is noted with its reason.

        The recipe's own may be of another type, which validation refuses.
        """
        if self.has(path):
            return cast(Value, self.stated.get(path, value))
        if (value_in_force := self.value(path)) is not None:
            return cast(Value, value_in_force)
        self.decisions.append(Decision(path, value, why))
        return value

    def value(self, path: str) -> object:
        """The value in force of a setting, as far as it is known here."""
        return next((decision.value for decision in self.decisions if decision.path == path), self.stated.get(path))

    def number(self, path: str, default: int) -> int:
        """A number that the recipe states, or the default."""
        return int(cast(int, self.stated.get(path, default)))

    def kind(self, path: str, value: str, why: str) -> str:
        """The kind in force of a family of settings; a bare name is a kind."""
        named = self.stated.get(path)
        if is_table(named):
            named = named.get("kind", value)
        self.kinds[path] = str(self(f"{path}.kind", value, why) if named is None else named)
        return self.kinds[path]

    def withdraw(self, paths: Collection[str]) -> None:
        """Removes decisions that have no effect beside what the recipe sets."""
        self.decisions = [decision for decision in self.decisions if decision.path not in paths]

    def limits(self) -> dict[str, float]:
        """The limits of the budget that the recipe sets."""
        limits = {name: self.stated.get(f"train.{name}") for name in LIMITS}
        return {name: float(limit) for name, limit in limits.items() if isinstance(limit, int | float)}

    def tree(self) -> Tree:
        """What was decided, as a tree; each table has the kind for which it was decided."""
        tree: Tree = {}
        named = [(f"{path}.kind", kind) for path, kind in self.kinds.items()]
        for path, value in [*named, *((decision.path, decision.value) for decision in self.decisions)]:
            *tables, name = path.split(".")
            table = tree
            for key in tables:
                table = cast(Tree, table.setdefault(key, {}))
            table[name] = value
        return tree


@dataclass
class Job:
    """A recipe whose defaults are being decided."""

    facts: Facts
    machine: Machine
    decide: Decider
    limits: dict[str, float] = field(init=False)
    """The budget that the recipe sets."""
    is_usual_model: bool = True
    """Whether the model is of its task's usual kind; the size of others is the recipe's, or that kind's own default."""
    most_minutes: float = field(default_factory=lambda: MINUTES)
    """Longest budget where the recipe sets none."""
    minutes: float = 0.0
    """How long training will take, about."""

    def __post_init__(self) -> None:
        self.limits = self.decide.limits()

    @property
    def device(self) -> str:
        """The machine, for a reason."""
        return "a GPU" if self.machine.is_gpu else "this CPU"

    def passes(self, target_epochs: float, tokens: float) -> float:
        """Passes over the data: the target, or more where small data needs them for enough steps."""
        return max(target_epochs, min(1000.0, LEAST_STEPS * LEAST_BATCH / max(self.facts.examples * tokens, 1.0)))

    def budget(self, target_epochs: float) -> dict[str, float]:
        """The limits in force; where the recipe sets none, passes over the data and minutes."""
        return self.limits or {"epochs": target_epochs, "minutes": self.most_minutes}

    # Vocabulary

    def subword_size(self, width: int | None = None) -> int:
        """Tokens of a vocabulary of subwords: as the square root of the text, at most 32 for each unit of width."""
        fit = 8000 * (self.facts.bytes / 3.9e6) ** 0.5
        most = 16000 if width is None else min(16000, 32 * width)
        return next(size for size in (500, 1000, 2000, 4000, 8000, 16000, 32000) if size * 1.4 >= min(fit, most))

    def vocabulary(self, kind: str, size: int, why: str) -> tuple[str, int]:
        """Kind and size of the vocabulary in force."""
        decide, stated = self.decide, self.decide.sets_below("tokenizer")
        if "size" in stated and kind in ("char", "byte"):
            kind, why = "bpe", "a size asks for subwords"
        kind = decide.kind("tokenizer", kind, why)
        if kind in ("bpe", "unigram"):
            size = decide("tokenizer.size", size, f"{self.facts.amount}; 4 MB have 8,000, growing as the square root")
            if not self.facts.running:
                decide("tokenizer.prefix_space", True, "a word is the same token at the start as inside")
        if self.facts.bytes > TOKENIZER_BYTES and kind != "byte":
            share = float(f"{TOKENIZER_BYTES / self.facts.bytes:.2g}")
            decide("tokenizer.sample", share, f"{self.facts.amount}: 20 MB are enough for a vocabulary")
        return kind, int(size)

    # Size

    def size(
        self,
        sizes: Sizes,
        make: Callable[[int, int], Candidate],
        target_epochs: float,
        batch: Callable[[Candidate, float], int],
        per_weight: float = 2.0,
        head_width: int | None = None,
    ) -> Effort:
        """The largest model that the data supports and the budget can train, with its batches.

        The budget can train it if it allows the target epochs, or enough tokens per weight of the blocks.
        """
        largest = max((index for index, (least, *_) in enumerate(sizes) if self.facts.bytes >= least), default=0)
        effort, why = None, ""
        for index in range(largest, -1, -1):
            _, width, depth = sizes[index]
            width, depth = self.decide.number("model.width", width), self.decide.number("model.depth", depth)
            effort = self.effort(make(width, depth), target_epochs, batch)
            epochs = effort.epochs(self.budget(target_epochs))
            seen = epochs * self.facts.examples * effort.candidate.tokens
            why = self.facts.amount
            if index < largest:
                why += f": a larger model would see too little of it in the budget on {self.device}"
            if epochs >= 0.9 * target_epochs or seen >= per_weight * effort.candidate.parameters:
                break
        assert effort is not None
        if effort.seconds_per_epoch > 60 * self.most_minutes and self.most_minutes < LONG_MINUTES:
            self.most_minutes = LONG_MINUTES
            return self.size(sizes, make, target_epochs, batch, per_weight, head_width)
        candidate = effort.candidate
        if self.is_usual_model:
            self.decide("model.width", candidate.width, why)
            self.decide("model.depth", candidate.depth, why)
            number = heads(candidate.width, head_width)
            self.decide("model.heads", number, f"each {candidate.width // number} wide")
        return effort

    def effort(self, candidate: Candidate, target_epochs: float, batch: Callable[[Candidate, float], int]) -> Effort:
        """A candidate with its batches."""
        tried = Effort(candidate, self.facts.examples, batch(candidate, target_epochs), self.machine)
        epochs = tried.epochs(self.budget(target_epochs))
        return replace(tried, batch=batch(candidate, epochs))

    def batch_for(self, steps: int, most: int) -> Callable[[Candidate, float], int]:
        """Batches such that the run has so many steps, up to a size; the data fills at least eight."""

        def batch(candidate: Candidate, epochs: float) -> int:
            if isinstance(stated := self.decide.stated.get("train.tokens_per_batch"), int):
                return stated
            tokens = self.facts.examples * max(candidate.reads, candidate.writes, 1.0) * 1.1
            fit = most if "steps" in self.limits else epochs * tokens / steps
            return power_of_two(min(fit, tokens / 8), LEAST_BATCH, most)

        return batch

    # Training

    def train(
        self,
        effort: Effort,
        target_epochs: float,
        lr: float,
        *,
        optimiser: str = "adamw",
        weight_decay: float = 0.01,
        generates: bool = False,
        reach: float = 0.05,
    ) -> None:
        """Budget, batches, schedule, averages and validations."""
        decide, limits = self.decide, self.budget(target_epochs)
        epochs = effort.epochs(limits)
        steps = epochs * effort.steps_per_epoch
        expected = epochs * effort.seconds_per_epoch * 1.1 / 60  # validations and checkpoints take a tenth
        self.minutes = min(expected, limits.get("minutes", expected))
        if not self.limits:
            decide(
                "train.epochs", float(f"{target_epochs:.2g}"), f"{self.facts.amount}: the fewer data, the more passes"
            )
            why = f"at most, on {self.device}; about {self.minutes:.2g} expected"
            decide("train.minutes", limits["minutes"], why)
            decide("train.patience", PATIENCE, "validations without a better one")
        decide("train.tokens_per_batch", effort.batch, f"about {steps:,.0f} steps in the budget")
        self._optimise(lr, optimiser, weight_decay)
        decay = min(0.999, max(0.9, round(1 - 1 / max(10.0, reach * steps), 4)))
        if not decide.has("train.average"):
            decide("train.moving_average.decay", decay, f"the mean of the last {1 / (1 - decay):,.0f} steps")
        decide("train.log_every", int(min(50, max(1, steps // 40))), f"about {steps:,.0f} steps")
        self._validate(effort, generates)

    def _optimise(self, lr: float, optimiser: str, weight_decay: float) -> None:
        decide = self.decide
        kind = decide.kind("train.optimiser", optimiser, "the kind that the shipped recipes of this task use")
        if kind in ("adamw", "muon"):
            decide("train.optimiser.weight_decay", weight_decay, "as in the shipped recipes of this task")
        schedule = decide.kind("train.schedule", "cosine", "it ends with the budget, whatever that is in")
        if kind == optimiser and schedule != "noam":
            decide("train.schedule.lr", lr, f"for {kind} and a model of this width")
        if schedule in ("cosine", "linear"):
            decide("train.schedule.warmup", WARMUP, "a share of the budget")
            decide("train.schedule.floor", FLOOR, "share of the rate that is left at the end")

    def _validate(self, effort: Effort, generates: bool) -> None:
        decide, facts = self.decide, self.facts
        every = round(1 / VALIDATIONS, 3)
        if decide.has("train.save_every"):
            decide("train.valid_every", every, f"{VALIDATIONS} validations a run")
        else:
            decide("train.save_every", every, f"a share of the budget: {VALIDATIONS} validations and checkpoints a run")
        seconds = self.minutes * 60 * 0.1 / VALIDATIONS
        forward = 3 * self.machine.rate(effort.candidate.width) / max(effort.candidate.flops, 1.0)
        affordable = int(min(MEASURED, max(100, float(f"{seconds * forward:.1g}"))))
        available = facts.valid or min(HELD_OUT, max(1, facts.examples // 20))
        if facts.running and not generates:
            self._limit_rows(seconds, effort)
        elif available > affordable:
            decide("train.valid_limit", affordable, f"of {available:,}: validations take a tenth of the time")
        if generates:
            rate = 500.0 if self.machine.is_gpu else 150.0 * 128 / effort.candidate.width
            scored = int(min(1000, available, max(50, float(f"{seconds * rate:.1g}"))))
            decide("train.score_limit", scored, f"of {available:,}: generating takes a tenth of the time")
        if facts.holds_out and facts.examples > 20 * HELD_OUT:
            share = float(f"{HELD_OUT / facts.examples:.2g}")
            decide("data.held_out", share, f"{HELD_OUT:,} of {facts.examples:,} are enough")

    def limit_length(self, long: float, per_token: float) -> None:
        """A larger `data.max_length` where texts are long."""
        needed = long / per_token * 1.3
        if needed > 256:
            most = 1024 if needed > 512 else 512
            self.decide("data.max_length", most, f"tokens; hardly any text has more than {needed:,.0f}")

    def choose_by(self, score: str) -> None:
        """Checkpoints are chosen by the task's own score where enough texts are generated for it."""
        scored = self.decide.value("train.score_limit")
        if isinstance(scored, int) and scored >= ENOUGH_SCORED:
            self.decide("train.best", score, f"of {scored:,} generated texts")

    def _limit_rows(self, seconds: float, effort: Effort) -> None:
        """Of a stream, whose rows are all as long as the context."""
        candidate = effort.candidate
        context = candidate.context or 256
        per_token = candidate.flops / max(candidate.reads, 1.0) / 3
        tokens = min(250_000, max(20_000, seconds * self.machine.rate(candidate.width) / per_token))
        self.decide(
            "train.valid_limit", max(1, int(tokens / context)), f"rows, {tokens:,.0f} tokens: a tenth of the time"
        )


def heads(width: int, head_width: int | None = None) -> int:
    """Heads of about 32 up to width 192 and 64 from there on, unless given; they divide the width."""
    number_of_heads = max(1, width // (head_width or (32 if width <= 192 else 64)))
    return next(number for number in range(number_of_heads, 0, -1) if width % number == 0)


def dropout(epochs: float, passes: Sequence[float] = (4, 15, 60)) -> float:
    """More dropout for more epochs: 0.1 more from each of `passes` on."""
    return round(0.1 * sum(epochs >= least for least in passes), 1)
