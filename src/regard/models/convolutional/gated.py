"""What ConvS2S is made of (Gehring 2017): gated convolutions, attention in every layer, how their weights are drawn.

Each sum of two things of equal variance is multiplied by √½, so that variance neither grows nor shrinks with depth.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from pydantic import PositiveFloat
from torch import Tensor, nn

from regard.config import Config
from regard.nn.attention.reference import AttentionSteps, reference_attention
from regard.nn.convolution import Convolution, Window, blank, convolution_flops, convolution_params
from regard.nn.dropout import Dropout
from regard.nn.pattern import Padding
from regard.nn.weight_norm import linear_map, linear_params

ROOT_HALF = math.sqrt(0.5)


@dataclass(frozen=True, eq=False)
class SourceKV:
    """What the encoder says of a source."""

    keys: Float[Tensor, "batch key width"]
    """z_j: the encoder's last word on each token"""
    values: Float[Tensor, "batch key width"]
    """(z_j + e_j)√½: with the token's own vector, so that what is attended to can also be named"""
    lengths: Int[Tensor, " batch"]
    """How many tokens each source has."""


class MultiStepAttention(nn.Module):
    """c_i = √m Σ_j softmax_j(d_i·z_j)(z_j + e_j)√½ with d_i = (W h_i + b + g_i)√½, mapped back to the layer's width.

    g_i is the vector of the token written last, m the number of the source's tokens: m·√(1/m) undoes what averaging
    does to the variance.
    """

    def __init__(self, hidden: int, width: int, weight_norm: bool = False) -> None:
        super().__init__()
        self.query = linear_map(hidden, width, weight_norm=weight_norm)
        self.output = linear_map(width, hidden, weight_norm=weight_norm)
        self.recorder: Callable[[AttentionSteps], None] | None = None

    def forward(
        self, h: Float[Tensor, "batch time hidden"], written: Float[Tensor, "batch time width"], source_kv: SourceKV
    ) -> Float[Tensor, "batch time hidden"]:
        """What the source has to say to each token of the target."""
        query = (self.query(h) + written) * ROOT_HALF
        # one head as wide as the model: wider than fused kernels take, so the reference is also the fast way
        steps = reference_attention(
            query[:, None],
            source_kv.keys[:, None],
            source_kv.values[:, None],
            Padding(keys=source_kv.lengths),
            scale=1.0,
        )
        if self.recorder is not None:
            self.recorder(steps)
        context = steps.output[:, 0]
        return self.output(context * source_kv.lengths[:, None, None].to(context.dtype).sqrt())


@dataclass(frozen=True)
class LayerShape:
    """The sizes of one layer."""

    into: int
    out: int
    kernel: int

    @property
    def bends(self) -> bool:
        """Whether the residual connection must be mapped to another width."""
        return self.into != self.out

    def num_params(self, weight_norm: bool, source_width: int | None = None) -> int:
        """Learned numbers; those of the attention too where the layer listens to vectors of some width."""
        total = convolution_params(self.into, 2 * self.out, self.kernel, weight_norm=weight_norm)
        total += linear_params(self.into, self.out, weight_norm=weight_norm) if self.bends else 0
        if source_width is not None:
            total += linear_params(self.out, source_width, weight_norm=weight_norm)
            total += linear_params(source_width, self.out, weight_norm=weight_norm)
        return total

    def flops(self, tokens: int, source_width: int | None = None, source: int = 0) -> int:
        """FLOPs over this many tokens, each of which attends to `source` others."""
        total = convolution_flops(self.into, 2 * self.out, self.kernel, tokens)
        total += 2 * tokens * self.into * self.out if self.bends else 0
        return total if source_width is None else total + 4 * tokens * source_width * (self.out + source)


class GatedLayer(nn.Module):
    """(GLU(K ∗ x) + x)√½, GLU([a; b]) = a ⊗ σ(b): one half of what a window says opens and closes the other."""

    def __init__(
        self, shape: LayerShape, *, causal: bool = False, dropout: float = 0.0, weight_norm: bool = False
    ) -> None:
        super().__init__()
        self.dropout = Dropout(dropout)
        self.convolution = Convolution(shape.into, 2 * shape.out, shape.kernel, causal=causal, weight_norm=weight_norm)
        self.shortcut = linear_map(shape.into, shape.out, weight_norm=weight_norm) if shape.bends else nn.Identity()

    def gated(
        self,
        x: Float[Tensor, "batch time into"],
        valid: Bool[Tensor, "batch time"] | None = None,
        window: Window | None = None,
    ) -> Float[Tensor, "batch time out"]:
        """GLU(K ∗ x)."""
        return F.glu(self.convolution(blank(self.dropout(x), valid), window), dim=-1)

    def forward(
        self, x: Float[Tensor, "batch time into"], valid: Bool[Tensor, "batch time"] | None = None
    ) -> Float[Tensor, "batch time out"]:
        """Each token with its neighbours."""
        return (self.gated(x, valid) + self.shortcut(x)) * ROOT_HALF


class GatedAttentionLayer(GatedLayer):
    """((h + attention(h))√½ + x)√½ with h = GLU(K ∗ x): a masked layer that attends to the source."""

    def __init__(self, shape: LayerShape, width: int, *, dropout: float = 0.0, weight_norm: bool = False) -> None:
        super().__init__(shape, causal=True, dropout=dropout, weight_norm=weight_norm)
        self.cross = MultiStepAttention(shape.out, width, weight_norm)

    def forward(  # type: ignore[override]
        self,
        x: Float[Tensor, "batch time into"],
        written: Float[Tensor, "batch time width"],
        source_kv: SourceKV,
        window: Window | None = None,
    ) -> Float[Tensor, "batch time out"]:
        """Each token with those before it and with the source."""
        h = self.gated(x, None, window)
        h = (h + self.cross(h, written, source_kv)) * ROOT_HALF
        return (h + self.shortcut(x)) * ROOT_HALF


def scale_gradient(x: Float[Tensor, "batch time width"], factor: float) -> Float[Tensor, "batch time width"]:
    """x itself, but its gradient is multiplied by a factor."""
    return x.detach() + factor * (x - x.detach())


class GatedNormalConfig(Config):
    """Normal with the variance that keeps activations as they are: 4p/n before a gate, 1/n elsewhere (Gehring 2017).

    n counts a matrix's inputs, p is the share of them that dropout leaves.
    """

    kind: Literal["gated-normal"] = "gated-normal"
    embedding: PositiveFloat = 0.1
    """Standard deviation of the vectors of tokens and places."""

    def apply(self, model: nn.Module, depth: int) -> None:
        """Draws all matrices anew."""
        for part in model.modules():
            if isinstance(part, nn.Embedding):
                nn.init.normal_(part.weight, std=self.embedding)
            elif isinstance(part, nn.Linear):
                nn.init.normal_(part.weight, std=part.in_features**-0.5)
                if part.bias is not None:
                    nn.init.zeros_(part.bias)
        for part in model.modules():
            if isinstance(part, GatedLayer):
                into = part.convolution.linear
                nn.init.normal_(into.weight, std=math.sqrt(4 * (1 - part.dropout.p) / into.in_features))
