"""Adversarial training (Miyato 2017): a batch is read again with the vectors of its words moved to where it hurts most.

All vectors of a text move together along the slope of its loss, by a share of their length. Who must be right even
there cannot hang the answer on a few numbers of a few words, which is how a model learns scarce data by heart.
"""

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

Vectors = Float[Tensor, "batch time width"]


def adversarial_loss(
    embedding: nn.Module, read: Callable[[], Tensor], valid: Bool[Tensor, "batch time"], share: float
) -> Tensor:
    """½(L(x) + L(x + r)): the mean of two readings of a batch, whose word vectors x are what `embedding` gives."""
    seen: list[Tensor] = []
    first = _with_vectors(embedding, lambda x: seen.append(x.requires_grad_()), read)
    (slope,) = torch.autograd.grad(first, seen[0], retain_graph=True)
    move = worst_move(seen[0].detach(), slope, valid, share)
    second = _with_vectors(embedding, lambda x: x + move, read)
    return (first + second) / 2


def worst_move(x: Vectors, slope: Vectors, valid: Bool[Tensor, "batch time"], share: float) -> Vectors:
    """r = share·‖x‖·g/‖g‖ over all numbers of a text, padding left out; nothing where its loss is flat."""
    x, slope = (vectors.masked_fill(~valid[..., None], 0.0) for vectors in (x, slope))
    length, steepness = (torch.linalg.vector_norm(vectors, dim=(1, 2), keepdim=True) for vectors in (x, slope))
    return share * length * slope / steepness.clamp(min=torch.finfo(slope.dtype).tiny)


def _with_vectors(
    embedding: nn.Module, change: Callable[[Tensor], Tensor | None], read: Callable[[], Tensor]
) -> Tensor:
    """What `read` gives while each result of `embedding` goes through `change`, which may also only look."""

    def hook(_embedding: nn.Module, _arguments: Any, x: Tensor) -> Tensor | None:  # noqa: ANN401
        return change(x)

    hooked = embedding.register_forward_hook(hook)
    try:
        return read()
    finally:
        hooked.remove()
