"""Dropout of every usual kind, as one group of settings."""

from typing import Annotated

import torch
from jaxtyping import Float
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
