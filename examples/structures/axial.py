"""A grid that needs its rows, its columns and its pairs: AlphaFold2's Evoformer in small.

    python examples/structures/axial.py [--steps 300]

Each row of a grid holds six symbols in random order, and the columns go in couples, another coupling in every example.
Only the pairs tell which columns are a couple, as contacts of a protein would. Each cell below the first row has to say

    (symbol of its partner column in its own row + symbol of its own column in the first row)  mod 6

The first needs attention along rows and the pairs as its bias, the second attention along columns. Each is then taken
away, and nothing is left but to guess: one symbol of the five others in the row, or one of all six.
"""

import argparse
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.nn.attention.axial import AxialBlock

ROWS, COLUMNS = 4, 6
SYMBOLS = COLUMNS
WIDTH, HEADS, PAIR_WIDTH, DEPTH = 32, 4, 8, 2


def examples(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Symbols (count, rows, columns), who is whose partner (count, columns, columns), and what all rows but one say."""
    symbols = torch.rand(count, ROWS, COLUMNS, generator=generator).argsort(2)
    order = torch.rand(count, COLUMNS, generator=generator).argsort(1)
    partner = torch.empty_like(order)
    partner.scatter_(1, order, order.unflatten(1, (-1, 2)).flip(2).flatten(1))
    answers = symbols.gather(2, partner[:, None].expand_as(symbols)) + symbols[:, :1]
    return symbols, F.one_hot(partner, COLUMNS), answers[:, 1:] % SYMBOLS


class Model(nn.Module):
    """Symbols in, symbols out; `pairs` and `columns` say what it may use."""

    def __init__(self, pairs: bool = True, columns: bool = True) -> None:
        super().__init__()
        self.symbol, self.first = nn.Embedding(SYMBOLS, WIDTH), nn.Parameter(torch.randn(WIDTH))
        self.pair = nn.Embedding(2, PAIR_WIDTH)
        self.blocks = nn.ModuleList(AxialBlock(WIDTH, HEADS, PAIR_WIDTH if pairs else None) for _ in range(DEPTH))
        self.head = nn.Linear(WIDTH, SYMBOLS)
        self.columns = columns

    def forward(self, symbols: Tensor, partners: Tensor) -> Tensor:
        """Scores of each answer below the first row."""
        first = (torch.arange(ROWS) == 0)[:, None, None] * self.first
        grid, pairs = self.symbol(symbols) + first, self.pair(partners)
        for block in self.blocks:
            if self.columns:
                grid, _ = block(grid, pairs)
            else:
                grid = grid + block.rows(grid, pairs)
                grid = grid + block.transition(grid)
        return self.head(grid[:, 1:])


def learn(model: Model, steps: int, seed: int = 1) -> float:
    """Trains on fresh examples; the accuracy on others."""
    generator = torch.Generator().manual_seed(seed)
    optimiser = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for _ in range(steps):
        symbols, partners, answers = examples(64, generator)
        loss = F.cross_entropy(model(symbols, partners).flatten(0, 2), answers.flatten())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    symbols, partners, answers = examples(500, torch.Generator().manual_seed(seed + 1000))
    with torch.no_grad():
        return float((model(symbols, partners).argmax(-1) == answers).float().mean())


VARIANTS: dict[str, dict[str, Any]] = {
    "rows, columns and pair bias": {},
    "without the pair bias": {"pairs": False},
    "without columns": {"columns": False},
}


def trial(settings: dict[str, Any], steps: int) -> float:
    """The accuracy of one variant."""
    torch.manual_seed(1)
    return learn(Model(**settings), steps)


def main() -> None:
    """Trains each variant and prints how well it does."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=300)
    steps = parser.parse_args().steps
    print(f"{'model':<30} accuracy   (guessing: {1 / SYMBOLS:.2f} to {1 / (SYMBOLS - 1):.2f})")
    for name, settings in VARIANTS.items():
        print(f"{name:<30} {trial(settings, steps):.3f}", flush=True)


if __name__ == "__main__":
    main()
