"""Length penalties: how beam search compares hypotheses of different lengths."""

from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

Formula = Literal["power", "gnmt"]


class LengthPenalty:
    """A hypothesis of log-probability s and length l (the end token counted) scores s / lp(l).

    `power`: lp(l) = l^alpha, so that the score is the mean log-probability at alpha 1.
    `gnmt`: lp(l) = ((5 + l) / 6)^alpha, which is milder for short sequences.
    Both are 1 everywhere at alpha 0, and never fall as l grows.
    """

    def __init__(self, alpha: float = 1.0, formula: Formula = "power") -> None:
        self.alpha, self.formula = alpha, formula

    def divisor(self, lengths: Int[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """lp(l)."""
        base = lengths.double() if self.formula == "power" else (5 + lengths.double()) / 6
        return base.pow(self.alpha).float()

    def score(self, totals: Float[Tensor, "*shape"], length: int) -> Float[Tensor, "*shape"]:
        """s / lp(l), for hypotheses of one length."""
        return totals / self.divisor(torch.full_like(totals, length, dtype=torch.long))

    def bound(self, totals: Float[Tensor, "*shape"], limits: Int[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """The highest score that open hypotheses of these log-probabilities can still reach: s / lp(L).

        Proof. Let s ≤ 0 be the log-probability of an open hypothesis and L the most tokens it may come to have. Each
        further token adds a log-probability ≤ 0, so any finished continuation has s' ≤ s and a length l ≤ L. As
        lp(l) > 0, s' / lp(l) ≤ s / lp(l); as s ≤ 0 and 0 < lp(l) ≤ lp(L), s / lp(l) ≤ s / lp(L). Rounding keeps both
        steps: sums and quotients of floats are rounded in an order-preserving way, and powers are taken in double
        precision, whose error is far below the difference between two lengths. ∎

        So a sentence whose n-th best finished score is at least the bound of its best open hypothesis is done: whatever
        finishes later scores no higher than the n best do, and among equal scores the one that finished first is kept.
        """
        return totals / self.divisor(limits)
