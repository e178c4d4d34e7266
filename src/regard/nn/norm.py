"""Normalisation: layer norm, RMS norm, or none."""

import math
from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float
from pydantic import NonNegativeFloat, PositiveFloat, model_validator
from torch import Tensor, nn

from regard.config import Family, refuse


class NormConfig(Family):
    """Settings that all norms share."""

    def build(self, width: int) -> nn.Module:
        raise TypeError(f"{type(self).__name__} must build its module")

    def num_params(self, width: int) -> int:
        return 0


class LayerNormConfig(NormConfig):
    """(x − μ)/√(σ² + ε)·γ + β (Ba 2016); the lectures also divide by σ + ε, by √σ + ε and by σ alone."""

    kind: Literal["layer"] = "layer"
    epsilon: NonNegativeFloat = 1e-5
    """Keeps the division safe; 0: divide by σ alone, and a vector of equal elements becomes zero."""
    epsilon_inside: bool = True
    """ε under the root, √(σ² + ε); off: beside it, σ + ε."""
    root_deviation: bool = False
    """Divide by √σ + ε, as CS224n writes it: the root of the deviation σ; needs epsilon_inside off."""
    gain: bool = True
    """Learn γ."""
    shift: bool = True
    """Learn β."""

    @model_validator(mode="after")
    def _has_epsilon_beside_the_root(self) -> "LayerNormConfig":
        if self.root_deviation and self.epsilon_inside:
            raise refuse("root_deviation", "√σ + ε has ε beside the root; set epsilon_inside=false too")
        return self

    def build(self, width: int) -> "LayerNorm":
        return LayerNorm(width, self.epsilon, self.epsilon_inside, self.gain, self.shift, self.root_deviation)

    def num_params(self, width: int) -> int:
        return width * (self.gain + self.shift)


class LayerNorm(nn.Module):
    """(x − μ)/√(σ² + ε)·γ + β, (x − μ)/(σ + ε)·γ + β or (x − μ)/(√σ + ε)·γ + β, over the width of each token."""

    def __init__(
        self,
        width: int,
        epsilon: float = 1e-5,
        epsilon_inside: bool = True,
        gain: bool = True,
        shift: bool = True,
        root_deviation: bool = False,
    ) -> None:
        super().__init__()
        self.width, self.epsilon, self.epsilon_inside = width, epsilon, epsilon_inside
        self.root_deviation = root_deviation
        self.gain = nn.Parameter(torch.ones(width)) if gain else None
        self.shift = nn.Parameter(torch.zeros(width)) if shift else None

    @property
    def usual(self) -> bool:
        """Whether it divides by √(σ² + ε), as fused kernels do; without ε these return NaN where σ = 0."""
        return self.epsilon_inside and self.epsilon > 0

    def forward(self, x: Float[Tensor, "*batch width"]) -> Float[Tensor, "*batch width"]:
        if self.usual:
            return F.layer_norm(x, (self.width,), _fit(self.gain, x), _fit(self.shift, x), self.epsilon)
        if torch.is_autocast_enabled(x.device.type):  # which runs torch's own norms in float32
            x = x.to(torch.promote_types(x.dtype, torch.float32))
        centred = x - x.mean(-1, keepdim=True)
        # torch's norm has gradient zero at zero, where a square root's is infinite
        deviation = torch.linalg.vector_norm(centred, dim=-1, keepdim=True) / math.sqrt(self.width)
        if self.root_deviation or not self.epsilon:  # neither √σ nor 1/σ has a gradient at zero, where y is zero
            deviation = torch.where(deviation == 0, 1.0, deviation)
        y = centred / ((deviation.sqrt() if self.root_deviation else deviation) + self.epsilon)
        y = y if self.gain is None else y * self.gain
        return y if self.shift is None else y + self.shift


class RMSNormConfig(NormConfig):
    """x/√(mean(x²) + ε)·γ: no mean is subtracted, no shift (Zhang 2019)."""

    kind: Literal["rms"] = "rms"
    epsilon: PositiveFloat = 1e-6
    """Keeps the division safe."""
    gain: bool = True
    """Learn γ."""

    def build(self, width: int) -> "RMSNorm":
        return RMSNorm(width, self.epsilon, self.gain)

    def num_params(self, width: int) -> int:
        return width * self.gain


class RMSNorm(nn.Module):
    """x/√(mean(x²) + ε)·γ over the width of each token."""

    def __init__(self, width: int, epsilon: float = 1e-6, gain: bool = True) -> None:
        super().__init__()
        self.width, self.epsilon = width, epsilon
        self.gain = nn.Parameter(torch.ones(width)) if gain else None

    def forward(self, x: Float[Tensor, "*batch width"]) -> Float[Tensor, "*batch width"]:
        gain = _fit(self.gain, x)
        x = x if gain is None else x.to(gain.dtype)  # torch's fused kernel needs one dtype
        return F.rms_norm(x, (self.width,), gain, self.epsilon)


def _fit(weight: nn.Parameter | None, x: Tensor) -> Tensor | None:
    """The weight in at least x's precision: under FSDP a block's weights come in the matmul dtype."""
    return None if weight is None else weight.to(torch.promote_types(weight.dtype, x.dtype))


class NoNormConfig(NormConfig):
    """No normalisation, to show what it does."""

    kind: Literal["none"] = "none"

    def build(self, width: int) -> nn.Module:
        return nn.Identity()

    def num_params(self, width: int) -> int:
        return 0
