"""A bias on the scores: one table and one rule, read in two ways like a pattern.

All kinds that act on scores have the same form: score(i, j) += table[…, rule(i, j)], where the rule is a small whole
number such as a distance. Dense, it is a gather; inside a fused kernel, a lookup per score.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from jaxtyping import Float, Int
from torch import Tensor

Rule = Callable[[Tensor, Tensor, Tensor], Tensor]
"""(batch, query, key) indices into the grid → column of the table."""


@dataclass(frozen=True, eq=False)
class Bias:
    """What is added to the scaled scores."""

    table: Float[Tensor, "#batch #heads #query column"]
    rule: Rule
    per_batch: bool = False
    """Whether the rule differs between rows of the batch."""
    _dense: dict[tuple[int, int, int], Tensor] = field(default_factory=dict, repr=False)

    def columns(self, batch: int, queries: int, keys: int) -> Int[Tensor, "#batch query key"]:
        """The rule for all pairs."""
        device = self.table.device
        row = torch.arange(batch if self.per_batch else 1, device=device)[:, None, None]
        query = torch.arange(queries, device=device)[None, :, None]
        key = torch.arange(keys, device=device)[None, None, :]
        return self.rule(row, query, key).expand(len(row), queries, keys)

    def dense(self, batch: int, queries: int, keys: int) -> Float[Tensor, "#batch #heads query key"]:
        """The bias as a matrix to add; layers that share a bias share the matrix."""
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
        """The bias as FlexAttention wants it."""
        rows, heads, queries, _ = self.table.shape
        row = batch if rows > 1 else torch.zeros_like(batch)
        head = head if heads > 1 else torch.zeros_like(head)
        place = query if queries > 1 else torch.zeros_like(query)
        return score + self.table[row, head, place, self.rule(batch, query, key)]
