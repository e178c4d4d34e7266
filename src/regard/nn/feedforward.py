"""The feed-forward part: the same small network at each place, one of the block's two sources of non-linearity."""

import math
from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from pydantic import PositiveInt
from torch import Tensor, nn

from regard.config import Family
from regard.nn.dropout import Dropout

SQRT_8_BY_PI = math.sqrt(8 / math.pi)
Activation = Literal["relu", "gelu", "gelu-tanh", "silu", "tanh", "none"]


def activate(x: Float[Tensor, "*batch hidden"], activation: Activation) -> Float[Tensor, "*batch hidden"]:
    """The activation of that name; may overwrite x, as an in-place ReLU saves fresh memory on a CPU."""
    if activation == "gelu-tanh":
        compiled = torch.compiler.is_compiling() and not torch.compiler.is_exporting()
        return _gelu_tanh(x) if compiled else F.gelu(x, approximate="tanh")
    if activation == "none":
        return x
    return {"relu": torch.relu_, "gelu": F.gelu, "silu": F.silu, "tanh": torch.tanh}[activation](x)


def _gelu_tanh(x: Float[Tensor, "*batch hidden"]) -> Float[Tensor, "*batch hidden"]:
    """x·½(1 + tanh u) = x·σ(2u), u = √(2/π)(x + 0.044715x³): in compiled kernels exp is faster than tanh."""
    return x * torch.sigmoid(x * (SQRT_8_BY_PI + 0.044715 * SQRT_8_BY_PI * x * x))


class AnyFeedForwardConfig(Family):
    """Settings that all feed-forward networks share."""

    def build(self, width: int, dropout: float = 0.0) -> nn.Module | None:
        """None without a feed-forward network."""
        raise TypeError(f"{type(self).__name__} must build its module")

    def num_params(self, width: int) -> int:
        return 0

    def flops(self, width: int, tokens: int) -> int:
        """Matmul FLOPs of one forward pass over this many tokens."""
        return 0


class FeedForwardConfig(AnyFeedForwardConfig):
    """W₂ f(W₁ x + b₁) + b₂ with an activation f (Vaswani 2017: ReLU)."""

    kind: Literal["plain"] = "plain"
    hidden: PositiveInt | None = None
    """Inner width; four times the model's width when left out."""
    activation: Activation = "relu"
    """The bend."""
    bias: bool = True
    """Learn b₁ and b₂."""

    def hidden_of(self, width: int) -> int:
        return self.hidden or 4 * width

    def build(self, width: int, dropout: float = 0.0) -> "FeedForward":
        return FeedForward(width, self.hidden_of(width), self.activation, self.bias, dropout)

    def num_params(self, width: int) -> int:
        hidden = self.hidden_of(width)
        return 2 * width * hidden + (width + hidden if self.bias else 0)

    def flops(self, width: int, tokens: int) -> int:
        return 4 * tokens * width * self.hidden_of(width)


class FeedForward(nn.Module):
    """FF(x) = W₂ f(W₁ x + b₁) + b₂."""

    def __init__(
        self, width: int, hidden: int, activation: Activation = "relu", bias: bool = True, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.up = nn.Linear(width, hidden, bias=bias)
        self.down = nn.Linear(hidden, width, bias=bias)
        self.activation: Activation = activation
        self.dropout = Dropout(dropout)

    def forward(
        self, x: Float[Tensor, "batch time width"], valid: Bool[Tensor, "batch time"] | None = None
    ) -> Float[Tensor, "batch time width"]:
        return self.down(self.dropout(activate(self.up(x), self.activation)))


class GatedConfig(AnyFeedForwardConfig):
    """W₃(f(W₁ x) ⊙ W₂ x): a gated linear unit (Shazeer 2020; with silu: SwiGLU)."""

    kind: Literal["gated"] = "gated"
    hidden: PositiveInt | None = None
    """Inner width; 8/3 of the model's width when left out, for the same size as a plain part."""
    activation: Activation = "silu"
    """The bend of the gate."""
    bias: bool = False
    """Learn biases."""

    def hidden_of(self, width: int) -> int:
        """The hidden width, a multiple of eight."""
        return self.hidden or -(-8 * width // 3 // 8) * 8

    def build(self, width: int, dropout: float = 0.0) -> "GatedFeedForward":
        return GatedFeedForward(width, self.hidden_of(width), self.activation, self.bias, dropout)

    def num_params(self, width: int) -> int:
        hidden = self.hidden_of(width)
        return 3 * width * hidden + (width + 2 * hidden if self.bias else 0)

    def flops(self, width: int, tokens: int) -> int:
        return 6 * tokens * width * self.hidden_of(width)


class GatedFeedForward(nn.Module):
    """FF(x) = W₃(f(W₁ x) ⊙ W₂ x)."""

    def __init__(
        self, width: int, hidden: int, activation: Activation = "silu", bias: bool = False, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.gate = nn.Linear(width, hidden, bias=bias)
        self.up = nn.Linear(width, hidden, bias=bias)
        self.down = nn.Linear(hidden, width, bias=bias)
        self.activation: Activation = activation
        self.dropout = Dropout(dropout)

    def forward(
        self, x: Float[Tensor, "batch time width"], valid: Bool[Tensor, "batch time"] | None = None
    ) -> Float[Tensor, "batch time width"]:
        return self.down(self.dropout(activate(self.gate(x), self.activation) * self.up(x)))


class NoFeedForwardConfig(AnyFeedForwardConfig):
    """No feed-forward network: stacked attention then only re-averages values."""

    kind: Literal["none"] = "none"

    def build(self, width: int, dropout: float = 0.0) -> None:
        """Nothing."""

    def num_params(self, width: int) -> int:
        return 0

    def flops(self, width: int, tokens: int) -> int:
        return 0
