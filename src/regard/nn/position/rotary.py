"""Rotary positions: queries and keys turn by an angle that grows with their place; their product knows the distance."""

from typing import Annotated, Literal

import torch
from jaxtyping import Float, Int
from pydantic import Field, PositiveFloat
from torch import Tensor
from typing_extensions import override

from regard.errors import ConfigError
from regard.nn.position.base import Position, PositionConfig


class RotaryConfig(PositionConfig):
    """Rotates queries and keys by an angle proportional to their position (Su 2021)."""

    kind: Literal["rotary"] = "rotary"
    theta: PositiveFloat = 1e4
    """Base period; larger reaches further."""
    interleaved: bool = False
    """Turn neighbouring numbers (as the paper writes it) instead of the two halves (as Llama does)."""
    share: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Fraction of each head's width that turns."""

    @override
    def build(self, *, width: int, heads: int, head_width: int, causal: bool) -> "Rotary":
        return Rotary(head_width, self.theta, self.interleaved, self.share)


class Rotary(Position):
    """(q_2i, q_2i+1) rotated by pos·θ^(−2i/d); dot products then depend on the distance alone."""

    def __init__(self, head_width: int, theta: float = 1e4, interleaved: bool = False, share: float = 1.0) -> None:
        super().__init__()
        self.turned = int(head_width * share)
        if not 2 <= self.turned <= head_width or self.turned % 2:
            raise ConfigError(
                "model.position.kind",
                f"rotary turns pairs of numbers: expected an even width per head, got {self.turned} "
                f"(head width {head_width} × share {share})",
            )
        self.theta, self.interleaved = theta, interleaved

    def rotate(
        self, x: Float[Tensor, "batch heads time head_width"], index: Int[Tensor, "#batch time"]
    ) -> Float[Tensor, "batch heads time head_width"]:
        """The rotated queries or keys."""
        pair = torch.arange(0, self.turned, 2, device=x.device, dtype=torch.float32)
        angle = index[:, None, :, None] * self.theta ** (-pair / self.turned)
        cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
        turning, still = x[..., : self.turned], x[..., self.turned :]
        if self.interleaved:
            a, b = turning[..., 0::2], turning[..., 1::2]
            turned = torch.stack([a * cos - b * sin, a * sin + b * cos], dim=-1).flatten(-2)
        else:
            a, b = turning.chunk(2, dim=-1)
            turned = torch.cat([a * cos - b * sin, a * sin + b * cos], dim=-1)
        return torch.cat([turned, still], dim=-1) if still.shape[-1] else turned
