"""Losses: cross-entropy with label smoothing, binary cross-entropy, and cross-entropy that never holds all logits."""

from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

IGNORED = -100
"""Target of places that count for nothing."""


def cross_entropy(
    logits: Float[Tensor, "*batch vocab"], targets: Int[Tensor, "*batch"], smoothing: float = 0.0
) -> Float[Tensor, ""]:
    """Sum over all places of −log softmax(logits)[target], the target spread a little over the others if smoothed."""
    return F.cross_entropy(
        logits.flatten(0, -2).float(),
        targets.flatten(),
        ignore_index=IGNORED,
        reduction="sum",
        label_smoothing=smoothing,
    )


def binary_cross_entropy(logits: Float[Tensor, "*batch"], targets: Float[Tensor, "*batch"]) -> Float[Tensor, ""]:
    """Sum of −y log σ(x) − (1 − y) log(1 − σ(x)): for labels that do not exclude one another."""
    return F.binary_cross_entropy_with_logits(logits.float(), targets.float(), reduction="sum")


def linear_cross_entropy(
    x: Float[Tensor, "tokens width"],
    weight: Float[Tensor, "vocab width"],
    bias: Float[Tensor, " vocab"] | None,
    targets: Int[Tensor, " tokens"],
    smoothing: float = 0.0,
    rows: int = 2048,
) -> Float[Tensor, ""]:
    """`cross_entropy(x Wᵀ + b, targets)` with the logits of at most `rows` tokens in memory at a time."""
    return _LinearCrossEntropy.apply(x, weight, bias, targets, smoothing, rows)  # type: ignore[return-value]


class _LinearCrossEntropy(torch.autograd.Function):
    """Computes the gradients together with the loss, a slice of tokens at a time, so no logits need to be kept."""

    @staticmethod
    def forward(  # type: ignore[override]
        ctx: Any,  # noqa: ANN401
        x: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        targets: Tensor,
        smoothing: float,
        rows: int,
    ) -> Tensor:
        total = x.new_zeros((), dtype=torch.float32)
        grad_x, grad_w = torch.empty_like(x), torch.zeros_like(weight, dtype=torch.float32)
        grad_b = torch.zeros_like(bias, dtype=torch.float32) if bias is not None else None
        matrix = weight.to(x.dtype)
        for start in range(0, len(x), rows):
            part = slice(start, start + rows)
            logits = F.linear(x[part], matrix, None if bias is None else bias.to(x.dtype))
            loss, slope = _loss_and_slope(logits.float(), targets[part], smoothing)
            total += loss
            slope = slope.to(x.dtype)
            grad_x[part] = slope @ matrix
            grad_w += (slope.T @ x[part]).float()
            if grad_b is not None:
                grad_b += slope.sum(0).float()
        ctx.save_for_backward(grad_x, grad_w.to(weight.dtype), None if grad_b is None else grad_b.to(bias.dtype))  # type: ignore[union-attr]
        return total

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        (grad,), (grad_x, grad_w, grad_b) = grad_outputs, ctx.saved_tensors
        return (
            grad_x * grad.to(grad_x.dtype),
            grad_w * grad,
            None if grad_b is None else grad_b * grad,
            None,
            None,
            None,
        )


def _loss_and_slope(
    logits: Float[Tensor, "rows vocab"], targets: Int[Tensor, " rows"], smoothing: float
) -> tuple[Float[Tensor, ""], Float[Tensor, "rows vocab"]]:
    """The summed loss, and its derivative by the logits: softmax − (smoothed target)."""
    counted = targets != IGNORED
    target = targets.clamp(min=0)
    logs = logits.log_softmax(-1)
    vocab = logits.shape[-1]
    of_target = logs.gather(1, target[:, None])[:, 0]
    losses = -(1 - smoothing) * of_target - smoothing * logs.mean(-1)
    slope = logs.exp() - smoothing / vocab
    slope.scatter_add_(1, target[:, None], slope.new_full((len(target), 1), smoothing - 1))
    return (losses * counted).sum(), slope * counted[:, None]
