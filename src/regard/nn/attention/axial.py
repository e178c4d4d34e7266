"""Attention along the rows and the columns of a grid, with a bias for each pair of columns: AlphaFold2's Evoformer.

A grid holds aligned sequences: row r is one sequence, column c an aligned position. A pair representation beside it has
a vector for every two columns (i, j).

    rows      m_rc ← m_rc + Σ_j α_j v_rj      α = softmax_j(q_rc·k_rj/√d + b_cj),   b from the pairs
    columns   m_rc ← m_rc + Σ_s α_s v_sc      α = softmax_s(q_rc·k_sc/√d)
    pairs     z_ij ← z_ij + W mean_r(a_ri ⊗ b_rj), then z_ij ← z_ij + Σ_k a_ik ⊙ b_jk: its triangles with a third column

Alternating rows and columns connect all cells in two steps, with R·C·(R + C) scores instead of (R·C)². Each attention
is gated (Jumper 2021, algorithms 7 to 12).
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from typing_extensions import override

from regard.nn.attention.heads import HeadProjection, join_heads
from regard.nn.attention.module import attend, head_width_of
from regard.nn.feedforward import FeedForward
from regard.nn.norm import LayerNorm
from regard.nn.pattern import Pattern
from regard.nn.position import Bias

Grid = Float[Tensor, "batch rows columns width"]
Present = Bool[Tensor, "batch rows columns"]
Pairs = Float[Tensor, "batch columns columns pair_width"]
Lines = Float[Tensor, "lines time width"]


@dataclass(frozen=True, eq=False)
class PresentKeys(Pattern):
    """Masks empty cells; the output of an empty line is zero."""

    present: Bool[Tensor, "lines time"]
    per_batch = True
    may_mask_all_keys = True

    @override
    def allowed(self, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return self.present[batch, key].expand(torch.broadcast_shapes(batch.shape, query.shape, key.shape))


class GatedAttention(nn.Module):
    """y_i = W_o(σ(W_g x_i) ⊙ Σ_j α_ij v_j) along every line of a grid; gates are initialised open."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        head_width = head_width_of(width, heads, "standard")
        self.query, self.key, self.value = (HeadProjection(width, heads, head_width, bias=False) for _ in range(3))
        self.gate, self.output = nn.Linear(width, width), nn.Linear(width, width)
        nn.init.zeros_(self.gate.weight)
        nn.init.ones_(self.gate.bias)

    def forward(self, x: Lines, pattern: Pattern | None = None, bias: Bias | None = None) -> Lines:
        output = join_heads(attend(self.query(x), self.key(x), self.value(x), pattern, bias))
        return self.output(torch.sigmoid(self.gate(x)) * output)


class RowAttention(nn.Module):
    """Attention along the rows; with `pair_width`, the pair representation biases the scores."""

    def __init__(self, width: int, heads: int, pair_width: int | None = None) -> None:
        super().__init__()
        self.norm, self.attention = LayerNorm(width), GatedAttention(width, heads)
        self.pair_norm = LayerNorm(pair_width) if pair_width else None
        self.pair_bias = nn.Linear(pair_width, heads, bias=False) if pair_width else None

    def forward(self, grid: Grid, pairs: Pairs | None = None, present: Present | None = None) -> Grid:
        batch, rows = grid.shape[:2]
        pattern = None if present is None else PresentKeys(present.flatten(0, 1))
        output = self.attention(self.norm(grid).flatten(0, 1), pattern, self._bias(pairs, rows))
        return output.unflatten(0, (batch, rows))

    def _bias(self, pairs: Pairs | None, rows: int) -> Bias | None:
        """The bias of the scores: the same for all rows, different per head."""
        if self.pair_bias is None or self.pair_norm is None or pairs is None:
            return None
        table = self.pair_bias(self.pair_norm(pairs)).permute(0, 3, 1, 2)
        return Bias(table.repeat_interleave(rows, 0), _column_of_key)


def _column_of_key(batch: Tensor, query: Tensor, key: Tensor) -> Tensor:
    return key


class ColumnAttention(nn.Module):
    """Attention along the columns: the rows of the transposed grid."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.turned = RowAttention(width, heads)

    def forward(self, grid: Grid, present: Present | None = None) -> Grid:
        present = None if present is None else present.transpose(1, 2)
        return self.turned(grid.transpose(1, 2), None, present).transpose(1, 2)


class Transition(nn.Module):
    """The feed-forward network of each cell or pair, after a norm."""

    def __init__(self, width: int, factor: int = 4) -> None:
        super().__init__()
        self.norm, self.feedforward = LayerNorm(width), FeedForward(width, factor * width)

    def forward(self, x: Float[Tensor, "batch one other width"]) -> Float[Tensor, "batch one other width"]:
        return self.feedforward(self.norm(x).flatten(1, 2)).unflatten(1, x.shape[1:3])


class OuterProductMean(nn.Module):
    """z_ij = W mean_r(a_ri ⊗ b_rj) over the rows r."""

    def __init__(self, width: int, pair_width: int, hidden: int = 8) -> None:
        super().__init__()
        self.norm = LayerNorm(width)
        self.left, self.right = nn.Linear(width, hidden), nn.Linear(width, hidden)
        self.output = nn.Linear(hidden * hidden, pair_width)

    def forward(self, grid: Grid, present: Present | None = None) -> Pairs:
        """Empty cells are left out of the mean."""
        x = self.norm(grid)
        filled = torch.ones_like(grid[..., :1]) if present is None else present[..., None].to(grid.dtype)
        left, right = self.left(x) * filled, self.right(x) * filled
        products = torch.einsum("brix,brjy->bijxy", left, right).flatten(3)
        both = torch.einsum("brix,brjx->bijx", filled, filled)
        return self.output(products / both.clamp(min=1))


class TriangleMultiplication(nn.Module):
    """z_ij from its triangles: Σ_k a_ik ⊙ b_jk (outgoing) or Σ_k a_ki ⊙ b_kj (incoming), everything gated."""

    def __init__(self, pair_width: int, hidden: int | None = None, outgoing: bool = True) -> None:
        super().__init__()
        hidden = hidden or pair_width
        self.equation = "bikc,bjkc->bijc" if outgoing else "bkic,bkjc->bijc"
        self.norm, self.inner_norm = LayerNorm(pair_width), LayerNorm(hidden)
        self.left, self.right = nn.Linear(pair_width, hidden), nn.Linear(pair_width, hidden)
        self.left_gate, self.right_gate = nn.Linear(pair_width, hidden), nn.Linear(pair_width, hidden)
        self.gate, self.output = nn.Linear(pair_width, pair_width), nn.Linear(hidden, pair_width)

    def forward(self, pairs: Pairs) -> Pairs:
        z = self.norm(pairs)
        left = torch.sigmoid(self.left_gate(z)) * self.left(z)
        right = torch.sigmoid(self.right_gate(z)) * self.right(z)
        product = self.inner_norm(torch.einsum(self.equation, left, right))
        return torch.sigmoid(self.gate(z)) * self.output(product)


class AxialBlock(nn.Module):
    """Rows, columns, transition; with `update_pairs`, the grid updates the pair representation.

    Without `pair_width` it is plain axial attention (Ho 2019), without pairs.
    """

    def __init__(self, width: int, heads: int, pair_width: int | None = None, update_pairs: bool = False) -> None:
        super().__init__()
        self.rows, self.columns = RowAttention(width, heads, pair_width), ColumnAttention(width, heads)
        self.transition = Transition(width)
        self.pairs = PairUpdate(width, pair_width) if pair_width and update_pairs else None

    def forward(
        self, grid: Grid, pairs: Pairs | None = None, present: Present | None = None
    ) -> tuple[Grid, Pairs | None]:
        grid = grid + self.rows(grid, pairs, present)
        grid = grid + self.columns(grid, present)
        grid = grid + self.transition(grid)
        return grid, pairs if self.pairs is None or pairs is None else self.pairs(grid, pairs, present)


class PairUpdate(nn.Module):
    """The grid's update of the pairs: outer products, triangles out and in, transition."""

    def __init__(self, width: int, pair_width: int) -> None:
        super().__init__()
        self.outer = OuterProductMean(width, pair_width)
        self.outgoing = TriangleMultiplication(pair_width)
        self.incoming = TriangleMultiplication(pair_width, outgoing=False)
        self.transition = Transition(pair_width)

    def forward(self, grid: Grid, pairs: Pairs, present: Present | None = None) -> Pairs:
        pairs = pairs + self.outer(grid, present)
        pairs = pairs + self.outgoing(pairs)
        pairs = pairs + self.incoming(pairs)
        return pairs + self.transition(pairs)
