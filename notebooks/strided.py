"""A plugin with a kind of attention: neighbours, and every n-th token (the strided pattern of Child 2019)."""

from typing import Literal

import torch
from pydantic import PositiveInt
from torch import Tensor

from regard.nn.attention.module import AttentionConfig
from regard.nn.pattern import Pattern


class Strided(Pattern):
    """Allows |i − j| ≤ reach, and |i − j| divisible by the stride."""

    by_distance = True

    def __init__(self, reach: int, stride: int) -> None:
        self.reach, self.stride = reach, stride

    def allowed(self, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        distance = (query - key).abs()
        return (distance <= self.reach) | (distance % self.stride == 0)


class StridedConfig(AttentionConfig):
    """Each token attends to its neighbours and to every n-th token."""

    kind: Literal["strided"] = "strided"
    reach: PositiveInt = 2
    """Neighbours to each side."""
    stride: PositiveInt = 4
    """Beyond them, every so many tokens."""

    def pattern(self, heads: int, length: int, causal: bool, device: torch.device | str) -> Pattern | None:
        return Strided(self.reach, self.stride) & super().pattern(heads, length, causal, device)

    def pairs(self, heads: int, length: int) -> int:
        """Pairs that are computed, for the count of FLOPs."""
        distances = [d for d in range(1, length) if d <= self.reach or d % self.stride == 0]
        return heads * (length + 2 * sum(length - d for d in distances))
