"""Dropout of every usual kind, as one group of settings."""

from typing import Annotated

import torch
from jaxtyping import Bool, Float
from pydantic import BeforeValidator, Field
from torch import Tensor, nn

from regard.config import Config

Rate = Annotated[float, Field(ge=0, lt=1)]


class DropoutSettings(Config):
    """What is dropped while training, and how often."""

    embedding: Rate = 0.0
    """Numbers of the input vectors, positions included."""
    residual: Rate = 0.0
    """Numbers of what each sub-layer adds."""
    attention: Rate = 0.0
    """Attention weights."""
    feedforward: Rate = 0.0
    """Numbers inside the feed-forward part."""
    layer: Rate = 0.0
    """Whole sub-layers, for a sentence at a time (stochastic depth)."""
    word: Rate = 0.0
    """Whole input tokens."""


DropoutConfig = Annotated[
    DropoutSettings,
    BeforeValidator(lambda rate: {"embedding": rate, "residual": rate} if isinstance(rate, int | float) else rate),
]
"""`dropout = 0.1` is short for that rate on embeddings and residuals, as in Vaswani 2017."""


class Dropout(nn.Dropout):
    """Numbers replaced by zero, the others scaled up to keep the mean.

    torch draws a number a place. A CPU takes as long for that as for a small matrix product, so there four places share
    the 64 bits of one draw, which makes the rate exact to 1/65,536.
    """

    def forward(self, input: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """Some numbers silenced while training."""
        if not self.training or self.p == 0 or input.device.type != "cpu":
            return super().forward(input)
        return torch.where(kept(input.shape, self.p), input, 0.0).mul_(1 / (1 - self.p))


def kept(shape: torch.Size, rate: float) -> Bool[Tensor, "..."]:
    """Which places of a tensor of that shape stay, by torch's own generator."""
    places = shape.numel()
    bits = torch.empty(-(-places // 4), dtype=torch.int64).random_(-(2**63), None)
    dropped = min(round(rate * 65536), 65535)  # of 65,536 numbers; all of them would be more than 16 bits can say
    return (bits.view(torch.int16)[:places] >= dropped - 32768).view(shape)


class DropWords(nn.Module):
    """Replaces whole token vectors by zero."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    def forward(self, x: Float[Tensor, "batch time width"]) -> Float[Tensor, "batch time width"]:
        """Some tokens silenced while training."""
        if not self.training or self.rate == 0:
            return x
        kept = torch.rand(x.shape[:2], device=x.device) >= self.rate
        return x * kept[..., None].to(x.dtype)


class DropLayers(nn.Module):
    """Silences what a sub-layer adds, for whole rows of the batch; the rest is scaled up to keep the mean."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    def forward(self, x: Float[Tensor, "batch time width"]) -> Float[Tensor, "batch time width"]:
        """Some rows silenced while training."""
        if not self.training or self.rate == 0:
            return x
        kept = (torch.rand(len(x), 1, 1, device=x.device) >= self.rate).to(x.dtype)
        return x * kept / (1 - self.rate)


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
        return nn.Sequential(DropWords(self.word), LockedDropout(self.embedding, self.locked))


RecurrentDropoutConfig = Annotated[
    RecurrentDropoutSettings,
    BeforeValidator(
        lambda rate: {"embedding": rate, "between": rate, "output": rate} if isinstance(rate, int | float) else rate
    ),
]
"""`dropout = 0.3` is short for that rate on the way in, between layers and on the way out."""


class LockedDropout(nn.Module):
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
