"""Losses beside likelihood that help where data is scarce: R-Drop and adversarial training.

R-Drop (Liang 2021) reads a batch twice under different dropout and adds the divergence of the two predictions, which
should not depend on dropout. Adversarial training (Miyato 2017) reads it again with its embeddings moved along the
gradient of the loss, by a share of their norm.
"""

from collections.abc import Callable
from typing import cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.nn.layout import Sequences
from regard.nn.loss import IGNORED, Losses, smoothed_losses

Logits = Float[Tensor, "*positions classes"]
Targets = Int[Tensor, "*positions"]
Embeddings = Float[Tensor, "batch time width"]


def twice(arguments: tuple[object, ...]) -> tuple[object, ...]:
    """The inputs of a model with every sequence two times."""
    return tuple(_twice(argument) for argument in arguments)


def _twice(argument: object) -> object:
    if isinstance(argument, Tensor):
        return torch.cat([argument, argument])
    return argument.twice() if isinstance(argument, Sequences) else argument


def consistent_losses(
    first: Logits,
    second: Logits,
    targets: Targets,
    smoothing: float,
    weight: float,
    spread: Float[Tensor, " classes"] | None = None,
) -> Losses:
    """½(CE₁ + CE₂) + weight·½(KL₁₂ + KL₂₁), summed; and the mean cross-entropy of both predictions alone."""
    one, other = (smoothed_losses(logits, targets, smoothing, spread) for logits in (first, second))
    smoothed = (one.objective + other.objective) / 2
    plain = (one.cross_entropy + other.cross_entropy) / 2
    return Losses(smoothed + weight * divergence(first, second, targets != IGNORED), plain)


def divergence(first: Logits, second: Logits, counted: Tensor) -> Tensor:
    """½ KL(p‖q) + ½ KL(q‖p) = ½ Σ (p − q)(log p − log q), summed over the positions that count."""
    p, q = first.float().log_softmax(-1), second.float().log_softmax(-1)
    apart = ((p.exp() - q.exp()) * (p - q)).sum(-1) / 2
    return torch.where(counted, apart, 0.0).sum()


def adversarial_loss(
    embedding: nn.Module, read: Callable[[], Tensor], valid: Bool[Tensor, "batch time"], share: float
) -> Tensor:
    """½(L(x) + L(x + r)): the mean loss of two readings of a batch, whose embeddings x are what `embedding` gives."""
    outputs: list[Tensor] = []
    first = _with_hook(embedding, lambda x: outputs.append(x.requires_grad_()), read)
    (gradient,) = torch.autograd.grad(first, outputs[0], retain_graph=True)
    perturbation = adversarial_perturbation(outputs[0].detach(), gradient, valid, share)
    second = _with_hook(embedding, lambda x: x + perturbation, read)
    return (first + second) / 2


def adversarial_perturbation(
    x: Embeddings, gradient: Embeddings, valid: Bool[Tensor, "batch time"], share: float
) -> Embeddings:
    """r = share·‖x‖·g/‖g‖ over all elements of a text, padding left out; zero where the gradient is."""
    x, gradient = (vectors.masked_fill(~valid[..., None], 0.0) for vectors in (x, gradient))
    tiny = torch.finfo(gradient.dtype).tiny
    return share * _norm(x) * gradient / _norm(gradient).clamp(min=tiny)


def _norm(x: Embeddings) -> Tensor:
    norm = torch.linalg.vector_norm  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return cast(Tensor, norm(x, dim=(1, 2), keepdim=True))


def _with_hook(embedding: nn.Module, change: Callable[[Tensor], Tensor | None], read: Callable[[], Tensor]) -> Tensor:
    """What `read` gives while each output of `embedding` goes through `change`, which may also only record it."""

    def hook(_embedding: nn.Module, _arguments: object, x: Tensor) -> Tensor | None:
        return change(x)

    handle = embedding.register_forward_hook(hook)
    try:
        return read()
    finally:
        handle.remove()
