"""Small models on synthetic data: a training loop, the reversal task, and the embedded corpus as a stream of words."""

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.data.street import pairs
from regard.models import EncoderConfig
from regard.nn.layout import Sequences

DIVERGED = 20.0
"""A cross-entropy from which no run recovers."""
REVERSAL_VOCAB, REVERSAL_LENGTH, REVERSAL_ROWS = 16, 8, 32
END_OF_SENTENCE = 0
"""The token between two sentences of the stream."""


def train(
    model: nn.Module, loss_of: Callable[[nn.Module], Tensor], steps: int, lr: float = 3e-3, clip: float = 1.0
) -> list[float]:
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
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimiser.step()
        schedule.step()
    model.eval()
    last = losses[-1] if losses[-1] < DIVERGED else DIVERGED
    return [min(loss, DIVERGED) if loss == loss else DIVERGED for loss in losses] + [last] * (steps - len(losses))


def smoothed(losses: list[float], window: int = 20) -> list[float]:
    """The running mean of the losses."""
    return [sum(part) / len(part) for part in (losses[max(0, i + 1 - window) : i + 1] for i in range(len(losses)))]


def reversal_encoder(depth: int, **settings: Any) -> nn.Module:  # noqa: ANN401
    """A small encoder that predicts a token at each position."""
    shape = {"width": 32, "heads": 4, "dropout": 0.0, "depth": depth, "feedforward": {"kind": "plain", "hidden": 64}}
    return EncoderConfig.from_tree({**shape, **settings}).build(REVERSAL_VOCAB)


def reversal_batch(rows: int, generator: torch.Generator) -> tuple[Sequences, Tensor]:
    """Random sequences, and the same reversed."""
    tokens = torch.randint(REVERSAL_VOCAB, (rows, REVERSAL_LENGTH), generator=generator)
    return Sequences.full(tokens), tokens.flip(1)


def reversal_loss(inputs: Sequences, targets: Tensor) -> Callable[[nn.Module], Tensor]:
    """The cross-entropy of a model on one batch."""
    return lambda model: F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())


def sampled_reversal_loss(generator: torch.Generator) -> Callable[[nn.Module], Tensor]:
    """The cross-entropy of a model on a new batch at each call."""
    return lambda model: reversal_loss(*reversal_batch(REVERSAL_ROWS, generator))(model)


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
