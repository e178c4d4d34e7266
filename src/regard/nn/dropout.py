"""Dropout of every usual kind, as one group of settings."""

from typing import Annotated

import torch
from jaxtyping import Bool, Float
from pydantic import BeforeValidator, Field
from torch import Tensor, nn

from regard.config import Config

Rate = Annotated[float, Field(ge=0, lt=1)]


class DropoutSettings(Config):
    """Dropout rates while training."""

    embedding: Rate = 0.0
    """Elements of the input vectors, positions included."""
    residual: Rate = 0.0
    """Elements of each sub-layer's output."""
    attention: Rate = 0.0
    """Attention weights."""
    feedforward: Rate = 0.0
    """Elements of the feed-forward network's hidden layer."""
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
    """`nn.Dropout`, faster on a CPU: there four elements share one 64-bit random number, so that the rate is exact to
    1/65,536."""

    def forward(self, input: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        if not self.training or self.p == 0 or input.device.type != "cpu":
            return super().forward(input)
        return torch.where(keep_mask(input.shape, self.p), input, 0.0).mul_(1 / (1 - self.p))


def keep_mask(shape: torch.Size, rate: float) -> Bool[Tensor, "..."]:
    """A random mask of the elements to keep, from torch's generator."""
    count = shape.numel()
    bits = torch.empty(-(-count // 4), dtype=torch.int64).random_(-(2**63), None)
    threshold = min(round(rate * 65536), 65535)  # of 65,536, at most what 16 bits can express
    return (bits.view(torch.int16)[:count] >= threshold - 32768).view(shape)


class DropWords(nn.Module):
    """Zeroes whole token vectors."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    def forward(self, x: Float[Tensor, "batch time width"]) -> Float[Tensor, "batch time width"]:
        if not self.training or self.rate == 0:
            return x
        keep_mask = torch.rand(x.shape[:2], device=x.device) >= self.rate
        return x * keep_mask[..., None].to(x.dtype)


class DropLayers(nn.Module):
    """Stochastic depth: zeroes a sub-layer's output for whole rows of the batch; the rest is scaled up."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    def forward(self, x: Float[Tensor, "batch time width"]) -> Float[Tensor, "batch time width"]:
        if not self.training or self.rate == 0:
            return x
        keep_mask = (torch.rand(len(x), 1, 1, device=x.device) >= self.rate).to(x.dtype)
        return x * keep_mask / (1 - self.rate)


class RecurrentDropoutSettings(Config):
    """Dropout rates while training."""

    embedding: Rate = 0.0
    """Elements of the input vectors."""
    between: Rate = 0.0
    """Elements passed from one layer to the next, and of the experts' output."""
    output: Rate = 0.0
    """Elements of the output layer's input."""
    attention: Rate = 0.0
    """Attention weights."""
    word: Rate = 0.0
    """Whole input tokens."""
    memory: Rate = 0.0
    """Recurrent weights (Merity 2018), the same ones at every token."""
    locked: bool = False
    """Drop the same elements at every token of a row (Gal 2016), as strong recurrent language models do."""

    def on_inputs(self) -> nn.Module:
        """Word dropout, then dropout of the input vectors."""
        return nn.Sequential(DropWords(self.word), LockedDropout(self.embedding, self.locked))


RecurrentDropoutConfig = Annotated[
    RecurrentDropoutSettings,
    BeforeValidator(
        lambda rate: {"embedding": rate, "between": rate, "output": rate} if isinstance(rate, int | float) else rate
    ),
]
"""`dropout = 0.3` is short for that rate on the way in, between layers and on the way out."""


class LockedDropout(nn.Module):
    """Dropout; locked, with the same mask at every token of a row."""

    def __init__(self, rate: float, locked: bool = False) -> None:
        super().__init__()
        self.rate, self.locked = rate, locked

    def forward(self, x: Float[Tensor, "batch time width"]) -> Float[Tensor, "batch time width"]:
        if not self.locked:
            return nn.functional.dropout(x, self.rate, self.training)
        if not self.training or self.rate == 0:
            return x
        keep_mask = torch.rand(len(x), 1, x.shape[2], device=x.device) >= self.rate
        return x * keep_mask.to(x.dtype) / (1 - self.rate)
