"""Recurrent layers above one another, with what stands between them."""

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.nn.experts import Experts
from regard.nn.recurrent.dropout import Drop
from regard.nn.recurrent.layers import Memory, Recurrence, Vectors


class RecurrentStack(nn.Module):
    """Layers that are given to it: x ← layer(x), or x ← x + layer(x) from layer `residual_from` on.

    A mixture of experts stands below the top layer, x ← x + σ(experts(x)), as in Shazeer 2017.
    """

    def __init__(
        self,
        layers: Sequence[Recurrence],
        *,
        residual_from: int | None = None,
        dropout: float = 0.0,
        locked: bool = False,
        experts: Experts | None = None,
    ) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.residual_from = len(layers) if residual_from is None else residual_from
        self.dropout = Drop(dropout, locked)
        self.experts = experts

    def forward(
        self,
        x: Float[Tensor, "batch time inputs"],
        lengths: Int[Tensor, " batch"] | None = None,
        memories: Sequence[Memory | None] | None = None,
        valid: Bool[Tensor, "batch time"] | None = None,
        context: Float[Tensor, "batch time context"] | None = None,
    ) -> tuple[Vectors, tuple[Memory, ...]]:
        """The vectors after the top layer, and what each layer remembers.

        `lengths` as a single layer takes them; `valid` says which tokens count for the experts; the `context`, if there
        is one, is put beside every layer's input.
        """
        before = [None] * len(self.layers) if memories is None else memories
        after = []
        for number, layer in enumerate(self.layers):
            if self.experts is not None and number == len(self.layers) - 1:
                x = x + self.dropout(torch.sigmoid(self.experts(x, valid)))
            inputs = x if number == 0 else self.dropout(x)
            inputs = inputs if context is None else torch.cat([inputs, context], -1)
            y, memory = layer(inputs, lengths, before[number])
            x = x + y if number >= self.residual_from else y
            after.append(memory)
        return x, tuple(after)

    def blank(self, rows: int) -> tuple[Memory, ...]:
        """What the layers remember before the first token."""
        return tuple(layer.blank(rows) for layer in self.layers)  # type: ignore[operator]
