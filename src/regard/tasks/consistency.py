"""R-Drop (Liang 2021): a batch is read twice under different dropout, and the two predictions are pulled together.

What dropout changes is chance, so a model whose answer depends on it has learnt chance. The divergence of the two
answers is a loss of its own, and a strong one where data is scarce.
"""

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.nn.layout import Sequences
from regard.nn.loss import IGNORED, Losses, smoothed_losses

Logits = Float[Tensor, "*places classes"]
Targets = Int[Tensor, "*places"]


def twice(arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """The inputs of a model with every sequence two times."""
    return tuple(_twice(argument) for argument in arguments)


def _twice(argument: Any) -> Any:  # noqa: ANN401
    if isinstance(argument, Tensor):
        return torch.cat([argument, argument])
    return argument.twice() if isinstance(argument, Sequences) else argument


def consistent_cross_entropy(
    first: Logits,
    second: Logits,
    targets: Targets,
    smoothing: float,
    weight: float,
    spread: Float[Tensor, " classes"] | None = None,
) -> Tensor:
    """Mean cross-entropy of two answers, and how far they are apart: ½(CE₁ + CE₂) + weight·½(KL₁₂ + KL₂₁), summed."""
    return consistent_losses(first, second, targets, smoothing, weight, spread).objective


def consistent_losses(
    first: Logits,
    second: Logits,
    targets: Targets,
    smoothing: float,
    weight: float,
    spread: Float[Tensor, " classes"] | None = None,
) -> Losses:
    """The same, and the mean cross-entropy of both answers alone."""
    one, other = (smoothed_losses(logits, targets, smoothing, spread) for logits in (first, second))
    right = (one.objective + other.objective) / 2
    plain = (one.cross_entropy + other.cross_entropy) / 2
    return Losses(right + weight * disagreement(first, second, targets != IGNORED), plain)


def disagreement(first: Logits, second: Logits, counted: Tensor) -> Tensor:
    """½ KL(p‖q) + ½ KL(q‖p) = ½ Σ (p − q)(log p − log q), summed over the places that count."""
    p, q = first.float().log_softmax(-1), second.float().log_softmax(-1)
    apart = ((p.exp() - q.exp()) * (p - q)).sum(-1) / 2
    return torch.where(counted, apart, 0.0).sum()
