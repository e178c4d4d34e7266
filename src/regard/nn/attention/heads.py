"""Three shapes of heads (row A4 of the lectures): projections to queries, keys or values.

standard   each head projects the whole input by a d × d/h matrix; all heads together cost as much as one
narrow     the input is split into h chunks of d/h; each head projects its chunk by a d/h × d/h matrix
wide       each head has a whole d × d matrix; h times the cost
"""

from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.nn.shapes import expect

HeadShape = Literal["standard", "narrow", "wide"]


def split_heads(x: Float[Tensor, "batch time all"], heads: int) -> Float[Tensor, "batch heads time head_width"]:
    """Each token's vector split into heads."""
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def join_heads(x: Float[Tensor, "batch heads time head_width"]) -> Float[Tensor, "batch time all"]:
    """The heads concatenated."""
    return x.transpose(1, 2).flatten(2)


class HeadProjection(nn.Linear):
    """Standard and wide heads: one matrix for all heads, whose output is split."""

    def __init__(self, width: int, heads: int, head_width: int, bias: bool = True) -> None:
        super().__init__(width, heads * head_width, bias=bias)
        self.heads = heads

    def forward(self, input: Float[Tensor, "batch time width"]) -> Float[Tensor, "batch heads time head_width"]:
        expect("width", self.in_features, input.shape[-1])
        return split_heads(super().forward(input), self.heads)


class NarrowHeadProjection(nn.Module):
    """Narrow heads: the input is split first, and each chunk has its own small matrix."""

    def __init__(self, width: int, heads: int, bias: bool = True) -> None:
        super().__init__()
        chunk = width // heads
        self.weight = nn.Parameter(torch.empty(heads, chunk, chunk))
        self.bias = nn.Parameter(torch.zeros(heads, 1, chunk)) if bias else None
        for matrix in self.matrices():
            nn.init.xavier_uniform_(matrix)

    def matrices(self) -> list[Tensor]:
        """The matrix of each head, initialised separately."""
        return list(self.weight.data)

    def forward(self, x: Float[Tensor, "batch time width"]) -> Float[Tensor, "batch heads time head_width"]:
        """W_r x_r for each head r and its chunk x_r."""
        expect("width", len(self.weight) * self.weight.shape[-1], x.shape[-1])
        y = split_heads(x, len(self.weight)) @ self.weight.transpose(1, 2)
        return y if self.bias is None else y + self.bias


class NoHeadProjection(nn.Module):
    """No projection: queries, keys and values are the input itself, split into heads (row A1)."""

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.heads = heads

    def forward(self, x: Float[Tensor, "batch time width"]) -> Float[Tensor, "batch heads time head_width"]:
        return split_heads(x, self.heads)
