"""Losses: cross-entropy with label smoothing, binary cross-entropy, and cross-entropy that never holds all logits."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from regard.nn.device import HAS_TRITON

IGNORED = -100
"""Target of positions that do not contribute to the loss."""
ROWS, ROWS_ON_CPU = 2048, 128
"""Tokens per chunk of logits: enough to keep a GPU busy, few enough for a CPU's caches."""
ROWS_IN_PLACE = 8192
"""The same where gradients overwrite the logits."""
ALIGNED = 64
"""Vocabulary sizes are padded to a multiple of this for the GPU's matrix units."""


def uniform_smoothing(vocab: int, never: Sequence[int]) -> Float[Tensor, " vocab"]:
    """Label smoothing spread uniformly over all tokens except those that are never generated."""
    shares = torch.ones(vocab)
    shares[list(never)] = 0.0
    return shares / shares.sum()


class Losses(NamedTuple):
    """The training objective and the plain cross-entropy that validation reports; both summed over tokens."""

    objective: Tensor
    plain: Tensor | None = None
    """Cross-entropy without smoothing or added terms, without gradient; None where the objective is just that."""

    @property
    def cross_entropy(self) -> Tensor:
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
    """Sum over all positions of −log softmax(logits)[target], the target spread a little over all tokens if smoothed.

    `spread` is each token's share of the smoothing; uniform when left out.
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
        gradients, some = (losses_and_gradients_triton, ROWS_IN_PLACE) if in_place else (losses_and_gradients, some)
        both: Any = _LinearCrossEntropy.apply(x, weight, bias, targets, smoothing, rows or some, gradients, spread)
        return Losses(*both) if smoothing else Losses(both[0])
    rows = rows or some
    parts = zip(x.split(rows), targets.split(rows), strict=True)
    losses = [cross_entropy(F.linear(part, weight, bias), target, smoothing, spread) for part, target in parts]
    return Losses(torch.stack(losses).sum() if losses else x.new_zeros((), dtype=torch.float32))


class _LinearCrossEntropy(torch.autograd.Function):
    """Computes gradients together with the loss, a chunk of tokens at a time, so that no logits are stored."""

    @staticmethod
    def forward(  # type: ignore[override]
        ctx: Any,  # noqa: ANN401
        x: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        targets: Tensor,
        smoothing: float,
        rows: int,
        losses_and_gradients: "LossesAndGradients",
        spread: Tensor | None,
    ) -> tuple[Tensor, Tensor]:
        x_type, vocab = x.dtype, len(weight)
        x = x.to(_matmul_dtype(x))
        matrix, offset = _aligned(weight, bias, x.dtype)
        total, plain = (x.new_zeros((), dtype=torch.float32) for _ in range(2))
        grad_x, grad_w = torch.empty_like(x), torch.zeros_like(matrix, dtype=torch.float32)
        grad_b = grad_w.new_zeros(len(matrix), 1)
        for start in range(0, len(x), rows):
            part = slice(start, start + rows)
            counted = (targets[part] != IGNORED)[:, None].to(x.dtype)
            logits = F.linear(x[part], matrix, offset)
            losses, unsmoothed, gradient = losses_and_gradients(logits, targets[part], vocab, smoothing, spread)
            total += (losses * counted[:, 0]).sum()
            if smoothing:
                plain += (unsmoothed * counted[:, 0]).sum()
            torch.mul(gradient @ matrix, counted, out=grad_x[part])
            if grad_w.dtype == x.dtype:
                grad_w.addmm_(gradient.T, x[part] * counted)
            elif x.device.type == "cuda" and torch.version.hip is None:  # half-precision matmuls accumulated in float32
                torch.addmm(grad_w, gradient.T, x[part] * counted, out_dtype=grad_w.dtype, out=grad_w)
            else:
                grad_w += gradient.T @ (x[part] * counted)
            if bias is not None:
                grad_b += gradient.T @ counted
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


def _matmul_dtype(x: Tensor) -> torch.dtype:
    """The data type of matmuls with x: its own, or autocast's."""
    device = x.device.type
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else x.dtype


def _aligned(weight: Tensor, bias: Tensor | None, dtype: torch.dtype) -> tuple[Tensor, Tensor | None]:
    """W and b padded with tokens of probability zero: unaligned sizes make a GPU's matmuls slow."""
    extra = -len(weight) % ALIGNED if weight.device.type == "cuda" else 0
    if not extra:
        return weight.to(dtype), None if bias is None else bias.to(dtype)
    bias = weight.new_zeros(len(weight)) if bias is None else bias
    return F.pad(weight.to(dtype), (0, 0, 0, extra)), F.pad(bias.to(dtype), (0, extra), value=-torch.inf)


def losses_and_gradients(
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
    gradients = logs.exp_()
    if smoothing and spread is not None:
        gradients[:, :vocab] -= smoothing * spread
    elif smoothing:
        gradients -= smoothing / vocab
    gradients.scatter_add_(1, target, gradients.new_full(target.shape, smoothing - 1))
    return losses, -chosen, gradients.to(logits.dtype)


def _mean(logs: Float[Tensor, "rows vocab"], spread: Float[Tensor, " vocab"] | None) -> Float[Tensor, " rows"]:
    """The mean over all tokens, weighted by `spread`."""
    return logs.mean(-1) if spread is None else (logs * spread).sum(-1)


LossesAndGradients = Callable[[Tensor, Tensor, int, float, Tensor | None], tuple[Tensor, Tensor, Tensor]]


def losses_and_gradients_triton(
    logits: Tensor, targets: Tensor, vocab: int, smoothing: float, spread: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """The same by one Triton kernel, which overwrites the logits."""
    from regard.nn.fast.logits_triton import cross_entropy_with_gradient

    return cross_entropy_with_gradient(logits, targets, vocab, smoothing, spread)
