"""What measurements share: thoroughness and seeds, one trained translator, training of small models, timing."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.data.street import pairs
from regard.errors import ConfigError
from regard.nn.context import AttentionContext
from regard.nn.layout import Layout, Sequences
from regard.run import Run
from regard.run.recipe import Recipe, demo_recipe
from regard.run.training import train_run
from regard.tasks import Translation
from regard.train.monitor import Quiet

Choice = TypeVar("Choice")
QUICK = ("train.steps=8", "model.width=32", "model.depth=2", "data.train.street=valid", "tokenizer.size=1000")
DIVERGED = 20.0
"""A cross-entropy from which no run recovers."""
END_OF_SENTENCE = 0
"""The token between two sentences of the stream."""


@dataclass(frozen=True)
class Setup:
    """How to measure. Quick measurements take seconds and run every line, but prove nothing."""

    work: Path
    """Folder of the runs that are trained for a measurement."""
    quick: bool = False
    seed: int = 1
    run: Path | None = None
    """A trained translator of the embedded corpus; if None, one is trained."""
    say: Callable[[str], None] = field(default=lambda sentence: None)
    """Called with a sentence before something that takes long."""

    def pick(self, thorough: Choice, quick: Choice) -> Choice:
        return quick if self.quick else thorough

    def seeded(self, extra: int = 0) -> torch.Generator:
        """Seeds torch and returns a seeded generator, so that a measurement does not depend on those before it."""
        torch.manual_seed(1000 * self.seed + extra)
        return torch.Generator().manual_seed(1000 * self.seed + extra)

    @cached_property
    def translator(self) -> Run:
        """A Transformer that translates the embedded corpus: `run`, or one that is trained at the first use."""
        if self.run is not None:
            run = Run.open(self.run, "cpu")
            if not isinstance(run.task, Translation):
                raise ConfigError("--run", f"{self.run} is a run of {run.recipe.task.kind}, expected translation")
            return run
        settings = self.pick(("train.steps=1600",), QUICK)
        return self.trained("translator", demo_recipe([f"seed={self.seed}", "train.device=cpu", *settings]))

    def trained(self, name: str, recipe: Recipe) -> Run:
        """Trains a recipe into the working folder."""
        self.say(f"training {name}")
        train_run(recipe, self.work / name, Quiet())
        return Run.open(self.work / name, "cpu")


def train(model: nn.Module, loss_of: Callable[[nn.Module], Tensor], steps: int, lr: float = 3e-3) -> list[float]:
    """Trains with AdamW, a short warm-up and linear decay; returns the loss of every step.

    A run that diverges (NaN, or a loss far above that of a uniform guess) ends there: its last loss is repeated.
    """
    optimiser = torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=0.0)
    warmup = max(1, min(50, steps // 10))
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimiser, lambda step: min((step + 1) / warmup, (steps - step) / max(1, steps - warmup))
    )
    model.train()
    losses: list[float] = []
    for _ in range(steps):
        loss = loss_of(model)
        losses.append(loss.item())
        if not losses[-1] < DIVERGED:
            break
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        schedule.step()
    model.eval()
    bounded = [min(loss, DIVERGED) if loss == loss else DIVERGED for loss in losses]
    return bounded + bounded[-1:] * (steps - len(losses))


def smoothed(losses: list[float], window: int = 20) -> list[float]:
    """The running mean of the losses."""
    return [mean(losses[max(0, i + 1 - window) : i + 1]) for i in range(len(losses))]


def next_token_loss(model: nn.Module, tokens: Tensor) -> Tensor:
    return F.cross_entropy(model(Sequences.full(tokens[:, :-1])).flatten(0, 1), tokens[:, 1:].flatten())


def accuracy(logits: Tensor, targets: Tensor) -> float:
    return float((logits.argmax(-1) == targets).float().mean())


@cache
def vocabulary() -> dict[str, int]:
    """Ids of the words of the training and validation sentences; id 0 is the end of a sentence."""
    sentences = [*_words("train", 20_000), *_words("valid", 1000)]
    words = sorted({word for sentence in sentences for word in sentence})
    return {word: number for number, word in enumerate(words, END_OF_SENTENCE + 1)}


def _words(split: str, size: int) -> list[list[str]]:
    return [source.lower().rstrip(".?").split() for source, _ in pairs(split, size)]


@cache
def token_stream(split: str, sentences: int) -> Tensor:
    """The first English sentences of a split as one row of word ids."""
    ids = vocabulary()
    sentence_words = _words(split, sentences)
    return torch.tensor([token for words in sentence_words for token in [*map(ids.get, words), END_OF_SENTENCE]])


def sample_rows(stream: Tensor, count: int, length: int, generator: torch.Generator) -> Tensor:
    """Random windows of the stream."""
    starts = torch.randint(len(stream) - length, (count, 1), generator=generator)
    return stream[starts + torch.arange(length)]


def full_context(x: Tensor) -> AttentionContext:
    """The attention context in which every token attends to every other."""
    positions = Layout.full(x.shape[0], x.shape[1]).positions
    return AttentionContext(None, positions, positions)


def fastest(function: Callable[[], object], repeats: int = 5, warmup: int = 1) -> float:
    """Seconds of the fastest repeat: other load on the machine can only add to it."""
    for _ in range(warmup):
        function()
    seconds: list[float] = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def exponent(sizes: Sequence[float], values: Sequence[float]) -> float:
    """The exponent of a power law fitted to the values: 1 is linear growth, 2 quadratic."""
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])


def growth_rate(sizes: Sequence[float], values: Sequence[float]) -> float:
    """The growth per unit of size, by a least-squares line."""
    return float(np.polyfit(sizes, values, 1)[0])
