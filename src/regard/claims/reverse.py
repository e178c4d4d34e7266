"""A task that any small encoder can learn and whose loss tells at once when it cannot: write a row backwards."""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.models import EncoderConfig
from regard.nn.layout import Sequences

VOCAB, LENGTH, ROWS = 16, 8, 32


def encoder(depth: int, **settings: Any) -> nn.Module:  # noqa: ANN401
    """A small encoder with an output at each place."""
    shape = {"width": 32, "heads": 4, "dropout": 0.0, "depth": depth, "feedforward": {"kind": "plain", "hidden": 64}}
    return EncoderConfig.from_tree({**shape, **settings}).build(VOCAB)


def batch(rows: int, generator: torch.Generator) -> tuple[Sequences, Tensor]:
    """Random rows, and the same backwards."""
    tokens = torch.randint(VOCAB, (rows, LENGTH), generator=generator)
    return Sequences.full(tokens), tokens.flip(1)


def loss_on(inputs: Sequences, targets: Tensor) -> Callable[[nn.Module], Tensor]:
    """The cross-entropy of a model on given rows."""
    return lambda model: F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())


def drawn_loss(generator: torch.Generator) -> Callable[[nn.Module], Tensor]:
    """The cross-entropy of a model on new rows each time."""
    return lambda model: loss_on(*batch(ROWS, generator))(model)
