"""Losses: cross-entropy with label smoothing, binary cross-entropy, and cross-entropy that never holds all logits."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from regard.nn.device import HAS_TRITON

IGNORED = -100
"""Target of places that count for nothing."""
ROWS, ROWS_ON_CPU = 2048, 128
"""Tokens whose logits are held at a time: as many as keep a GPU busy, as few as a CPU's caches hold."""
ROWS_IN_PLACE = 8192
"""The same where slopes take the place of the logits, so that these are held once."""
ALIGNED = 64
"""Sizes that a GPU's matrix units divide without a rest."""


def evenly(vocab: int, never: Sequence[int]) -> Float[Tensor, " vocab"]:
    """Shares of smoothing for all tokens but those that are never written."""
    shares = torch.ones(vocab)
    shares[list(never)] = 0.0
    return shares / shares.sum()


class Losses(NamedTuple):
    """What training minimises, and the cross-entropy that validation reports, in the same unit; both summed."""

    objective: Tensor
    plain: Tensor | None = None
    """Cross-entropy of the targets alone: no smoothing, nothing added, no gradient; None where the objective is it."""

    @property
    def cross_entropy(self) -> Tensor:
        """The plain one, without gradient."""
        return self.objective.detach() if self.plain is None else self.plain


def smoothed_losses(
    logits: Float[Tensor, "*batch vocab"],
    targets: Int[Tensor, "*batch"],
    smoothing: float = 0.0,
    spread: Float[Tensor, " vocab"] | None = None,
) -> Losses:
    """`cross_entropy` with and without smoothing, by one softmax.

    Both are Σ log Z − … of the same logits x: plain = smoothed + ε Σ (mean(x) − x[target]).
    """
    smoothed = cross_entropy(logits, targets, smoothing, spread)
    if not smoothing:
        return Losses(smoothed)
    with torch.no_grad():
        x, target = logits.detach().flatten(0, -2).float(), targets.flatten()
        difference = _mean(x, spread) - x.gather(-1, target.clamp(min=0)[:, None])[:, 0]
        return Losses(smoothed, smoothed.detach() + smoothing * torch.where(target != IGNORED, difference, 0.0).sum())


def cross_entropy(
    logits: Float[Tensor, "*batch vocab"],
    targets: Int[Tensor, "*batch"],
    smoothing: float = 0.0,
    spread: Float[Tensor, " vocab"] | None = None,
) -> Float[Tensor, ""]:
    """Sum over all places of −log softmax(logits)[target], the target spread a little over all tokens if smoothed.

    `spread` is each token's share of what is spread; without it, all have the same.
    """
    if smoothing and spread is not None:
        logs = torch.log_softmax(logits.flatten(0, -2), -1, dtype=torch.float32)
        right = F.nll_loss(logs, targets.flatten(), ignore_index=IGNORED, reduction="sum")
        all_tokens = torch.where(targets.flatten() != IGNORED, _mean(logs, spread), 0.0).sum()
        return (1 - smoothing) * right - smoothing * all_tokens
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
    rows: int | None = None,
    spread: Float[Tensor, " vocab"] | None = None,
) -> Float[Tensor, ""]:
    """`cross_entropy(x Wᵀ + b, targets)` with the logits of at most `rows` tokens in memory at a time."""
    return linear_losses(x, weight, bias, targets, smoothing, rows, spread).objective


def linear_losses(
    x: Float[Tensor, "tokens width"],
    weight: Float[Tensor, "vocab width"],
    bias: Float[Tensor, " vocab"] | None,
    targets: Int[Tensor, " tokens"],
    smoothing: float = 0.0,
    rows: int | None = None,
    spread: Float[Tensor, " vocab"] | None = None,
) -> Losses:
    """`smoothed_losses(x Wᵀ + b, targets)` with the logits of at most `rows` tokens in memory at a time."""
    some = ROWS_ON_CPU if x.device.type == "cpu" else ROWS
    if torch.is_grad_enabled():
        in_place = x.device.type == "cuda" and HAS_TRITON
        slopes, some = (in_one_kernel, ROWS_IN_PLACE) if in_place else (losses_and_slopes, some)
        both: Any = _LinearCrossEntropy.apply(x, weight, bias, targets, smoothing, rows or some, slopes, spread)
        return Losses(*both) if smoothing else Losses(both[0])
    rows = rows or some
    parts = zip(x.split(rows), targets.split(rows), strict=True)
    losses = [cross_entropy(F.linear(part, weight, bias), wanted, smoothing, spread) for part, wanted in parts]
    return Losses(torch.stack(losses).sum() if losses else x.new_zeros((), dtype=torch.float32))


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
        losses_and_slopes: "Slopes",
        spread: Tensor | None,
    ) -> tuple[Tensor, Tensor]:
        x_type, vocab = x.dtype, len(weight)
        x = x.to(_type_of_products(x))
        matrix, offset = _aligned(weight, bias, x.dtype)
        total, plain = (x.new_zeros((), dtype=torch.float32) for _ in range(2))
        grad_x, grad_w = torch.empty_like(x), torch.zeros_like(matrix, dtype=torch.float32)
        grad_b = grad_w.new_zeros(len(matrix), 1)
        for start in range(0, len(x), rows):
            part = slice(start, start + rows)
            counted = (targets[part] != IGNORED)[:, None].to(x.dtype)
            logits = F.linear(x[part], matrix, offset)
            losses, unsmoothed, slope = losses_and_slopes(logits, targets[part], vocab, smoothing, spread)
            total += (losses * counted[:, 0]).sum()
            if smoothing:
                plain += (unsmoothed * counted[:, 0]).sum()
            torch.mul(slope @ matrix, counted, out=grad_x[part])
            if grad_w.dtype == x.dtype:
                grad_w.addmm_(slope.T, x[part] * counted)
            elif x.device.type == "cuda" and torch.version.hip is None:  # half-precision products summed in single
                torch.addmm(grad_w, slope.T, x[part] * counted, out_dtype=grad_w.dtype, out=grad_w)
            else:
                grad_w += slope.T @ (x[part] * counted)
            if bias is not None:
                grad_b += slope.T @ counted
        of_bias = None if bias is None else grad_b[:vocab, 0].to(bias.dtype)
        ctx.save_for_backward(grad_x.to(x_type), grad_w[:vocab].to(weight.dtype), of_bias)
        ctx.mark_non_differentiable(plain)
        return total, plain

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        (grad, _), (grad_x, grad_w, grad_b) = grad_outputs, ctx.saved_tensors
        return (
            grad_x * grad.to(grad_x.dtype),
            grad_w.mul_(grad),
            None if grad_b is None else grad_b * grad,
            None,
            None,
            None,
            None,
            None,
        )


def _type_of_products(x: Tensor) -> torch.dtype:
    """The number format of matrix products with x: its own, or what autocast makes of it."""
    device = x.device.type
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else x.dtype


def _aligned(weight: Tensor, bias: Tensor | None, dtype: torch.dtype) -> tuple[Tensor, Tensor | None]:
    """W and b, filled up with tokens of probability zero: sizes that are odd make the products of a GPU slow."""
    extra = -len(weight) % ALIGNED if weight.device.type == "cuda" else 0
    if not extra:
        return weight.to(dtype), None if bias is None else bias.to(dtype)
    bias = weight.new_zeros(len(weight)) if bias is None else bias
    return F.pad(weight.to(dtype), (0, 0, 0, extra)), F.pad(bias.to(dtype), (0, extra), value=-torch.inf)


def losses_and_slopes(
    logits: Float[Tensor, "rows aligned"],
    targets: Int[Tensor, " rows"],
    vocab: int,
    smoothing: float,
    spread: Float[Tensor, " vocab"] | None = None,
) -> tuple[Float[Tensor, " rows"], Float[Tensor, " rows"], Float[Tensor, "rows aligned"]]:
    """The loss of each row, the same without smoothing, and its derivative: softmax − (smoothed target)."""
    target = targets.clamp(min=0)[:, None]
    logs = torch.log_softmax(logits, -1, dtype=torch.float32)
    chosen = logs.gather(1, target)[:, 0]
    losses = (smoothing - 1) * chosen
    if smoothing:
        losses -= smoothing * _mean(logs[:, :vocab], spread)
    slopes = logs.exp_()
    if smoothing and spread is not None:
        slopes[:, :vocab] -= smoothing * spread
    elif smoothing:
        slopes -= smoothing / vocab
    slopes.scatter_add_(1, target, slopes.new_full(target.shape, smoothing - 1))
    return losses, -chosen, slopes.to(logits.dtype)


def _mean(logs: Float[Tensor, "rows vocab"], spread: Float[Tensor, " vocab"] | None) -> Float[Tensor, " rows"]:
    """The mean over all tokens, each with its share."""
    return logs.mean(-1) if spread is None else (logs * spread).sum(-1)


Slopes = Callable[[Tensor, Tensor, int, float, Tensor | None], tuple[Tensor, Tensor, Tensor]]


def in_one_kernel(
    logits: Tensor, targets: Tensor, vocab: int, smoothing: float, spread: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """The same by one kernel, slopes in place of the logits."""
    from regard.nn.fast.logits_triton import cross_entropy_with_gradient

    return cross_entropy_with_gradient(logits, targets, vocab, smoothing, spread)
