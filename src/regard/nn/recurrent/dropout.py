"""Dropout of recurrent models: on the way into, between and out of the layers, and of the maps from token to token."""

from typing import Annotated

import torch
from jaxtyping import Float
from pydantic import BeforeValidator
from torch import Tensor, nn

from regard.config import Config
from regard.nn.dropout import DropWords, Rate


class RecurrentDropoutSettings(Config):
    """What is dropped while training, and how often."""

    embedding: Rate = 0.0
    """Numbers of the input vectors."""
    between: Rate = 0.0
    """Numbers on their way from one layer to the next, and of what experts add."""
    output: Rate = 0.0
    """Numbers that the output layer is given."""
    attention: Rate = 0.0
    """Attention weights."""
    word: Rate = 0.0
    """Whole input tokens."""
    memory: Rate = 0.0
    """Weights between one token's memory and the next (Merity 2018), the same ones at every token."""
    locked: bool = False
    """Drop the same numbers at every token of a row (Gal 2016), as strong recurrent language models do."""

    def on_inputs(self) -> nn.Module:
        """Drops tokens and numbers of the input vectors."""
        return nn.Sequential(DropWords(self.word), Drop(self.embedding, self.locked))


RecurrentDropoutConfig = Annotated[
    RecurrentDropoutSettings,
    BeforeValidator(
        lambda rate: {"embedding": rate, "between": rate, "output": rate} if isinstance(rate, int | float) else rate
    ),
]
"""`dropout = 0.3` is short for that rate on the way in, between layers and on the way out."""


class Drop(nn.Module):
    """Zeroes numbers and scales the rest up to keep the mean; locked, the same numbers at every token of a row."""

    def __init__(self, rate: float, locked: bool = False) -> None:
        super().__init__()
        self.rate, self.locked = rate, locked

    def forward(self, x: Float[Tensor, "batch time width"]) -> Float[Tensor, "batch time width"]:
        """Some numbers silenced while training."""
        if not self.locked:
            return nn.functional.dropout(x, self.rate, self.training)
        if not self.training or self.rate == 0:
            return x
        kept = torch.rand(len(x), 1, x.shape[2], device=x.device) >= self.rate
        return x * kept.to(x.dtype) / (1 - self.rate)
