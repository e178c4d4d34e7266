"""Residual connection with normalisation before or after the sub-layer; each of the two can be switched off."""

from collections.abc import Callable
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.nn.dropout import DropLayers, Dropout

NormPlace = Literal["before", "after"]
Vectors = Float[Tensor, "batch time width"]


class Residual(nn.Module):
    """before: x + f(norm(x));  after: norm(x + f(x));  without residual: f(norm(x)) or norm(f(x))."""

    def __init__(
        self,
        norm: nn.Module,
        place: NormPlace = "before",
        connected: bool = True,
        dropout: float = 0.0,
        layer_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.norm, self.place, self.connected = norm, place, connected
        self.dropout = nn.Sequential(Dropout(dropout), DropLayers(layer_dropout))

    def forward(self, x: Vectors, f: Callable[[Vectors], Vectors]) -> Vectors:
        """The sub-layer `f` with its residual connection around it."""
        if self.place == "before":
            return self.add(x, f(self.norm(x)))
        return self.norm(self.add(x, f(x)))

    def add(self, x: Vectors, change: Vectors) -> Vectors:
        """x + change in a format no longer than x, or the change alone where the connection is cut."""
        change = self.dropout(change)
        if not self.connected:
            return change
        wider = torch.promote_types(x.dtype, change.dtype) != x.dtype
        return x + (change.to(x.dtype) if wider else change)
