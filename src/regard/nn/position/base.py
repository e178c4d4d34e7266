"""The contract of all position kinds: the places to act in, each doing nothing unless a kind says otherwise."""

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.config import Family
from regard.nn.context import AttentionContext

Rule = Callable[[Tensor, Tensor, Tensor], Tensor]
"""(batch, query, key) indices into the grid → column of the table."""


@dataclass(frozen=True, eq=False)
class Bias:
    """A bias on the scaled scores: a table, and a rule for the column of each pair."""

    table: Float[Tensor, "#batch #heads #query column"]
    rule: Rule
    per_batch: bool = False
    """Whether the rule differs between rows of the batch."""
    _dense: dict[tuple[int, int, int], Tensor] = field(default_factory=dict, repr=False)

    def columns(self, batch: int, queries: int, keys: int) -> Int[Tensor, "#batch query key"]:
        """The column of every pair."""
        device = self.table.device
        row = torch.arange(batch if self.per_batch else 1, device=device)[:, None, None]
        query = torch.arange(queries, device=device)[None, :, None]
        key = torch.arange(keys, device=device)[None, None, :]
        return self.rule(row, query, key).expand(len(row), queries, keys)

    def dense(self, batch: int, queries: int, keys: int) -> Float[Tensor, "#batch #heads query key"]:
        """The bias of every pair; layers that share a bias share it."""
        shape = (batch, queries, keys)
        if shape not in self._dense:
            self._dense[shape] = self._gather(batch, queries, keys)
        return self._dense[shape]

    def _gather(self, batch: int, queries: int, keys: int) -> Float[Tensor, "#batch #heads query key"]:
        columns = self.columns(batch, queries, keys)[:, None]
        rows, heads = max(len(self.table), len(columns)), self.table.shape[1]
        table = self.table.expand(rows, heads, queries, -1)
        return torch.gather(table, 3, columns.expand(rows, heads, queries, keys))

    def score_mod(self, score: Tensor, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        """The bias as FlexAttention's score_mod."""
        rows, heads, queries, _ = self.table.shape
        row = batch if rows > 1 else torch.zeros_like(batch)
        head = head if heads > 1 else torch.zeros_like(head)
        row_of_query = query if queries > 1 else torch.zeros_like(query)
        return score + self.table[row, head, row_of_query, self.rule(batch, query, key)]


class Position(nn.Module):
    """Base of position encodings; attention alone is permutation-equivariant."""

    def embed(
        self, x: Float[Tensor, "batch time width"], context: AttentionContext
    ) -> Float[Tensor, "batch time width"]:
        """On the inputs of a layer: added or concatenated."""
        return x

    def rotate(
        self, x: Float[Tensor, "batch heads time head_width"], index: Int[Tensor, "#batch time"]
    ) -> Float[Tensor, "batch heads time head_width"]:
        """On queries and keys."""
        return x

    def on_values(
        self, x: Float[Tensor, "batch heads time value_width"], index: Int[Tensor, "#batch time"]
    ) -> Float[Tensor, "batch heads time value_width"]:
        """On values."""
        return x

    def bias(self, query: Float[Tensor, "batch heads query head_width"], context: AttentionContext) -> Bias | None:
        """On the scores; `query` is scaled already."""
        return None

    def values(
        self, weights: Float[Tensor, "batch heads query key"], context: AttentionContext
    ) -> Float[Tensor, "batch heads query head_width"] | None:
        """Added to the outputs: values by distance (Shaw 2018)."""
        return None

    def on_scores(
        self, query: Float[Tensor, "batch heads query head_width"], scale: float, context: AttentionContext
    ) -> Bias | None:
        """The bias of unscaled queries."""
        return self.bias(query * scale, context) if self.acts_on_scores else None

    @property
    def acts_on_scores(self) -> bool:
        """Whether `bias` or `values` act."""
        return type(self).bias is not Position.bias or type(self).values is not Position.values

    @property
    def needs_weights(self) -> bool:
        """Whether `values` acts, which needs the attention weights."""
        return False


class PositionConfig(Family):
    """Settings that all position encodings share."""

    def build(self, *, width: int, heads: int, head_width: int, causal: bool) -> Position:
        raise TypeError(f"{type(self).__name__} must build its module")

    def num_params(self, *, width: int, heads: int, head_width: int) -> int:
        """Parameters of one module."""
        return 0

    def flops(self, *, width: int, heads: int, head_width: int, batch: int, queries: int, keys: int) -> int:
        """Matmul FLOPs added to one attention layer."""
        return 0

    def input_flops(self, *, width: int, batch: int, time: int) -> int:
        """Matmul FLOPs of one application to the inputs."""
        return 0

    @property
    def every_layer(self) -> bool:
        """Whether it acts on the inputs of every layer, or of the first only."""
        return False

    @property
    def per_layer(self) -> bool:
        """Whether each layer has its own parameters."""
        return False

    @property
    def in_heads(self) -> bool:
        """Whether it adds vectors of the model's width to queries, keys and values, split into heads."""
        return False

    @property
    def values_by_distance(self) -> bool:
        """Whether it has vectors that are added to the values, of the width of a head."""
        return False

    @property
    def longest(self) -> int | None:
        """The longest sequence, if there is a limit."""
        return None

    @property
    def needs_tree(self) -> bool:
        """Whether tokens must come with a dependency tree."""
        return False
