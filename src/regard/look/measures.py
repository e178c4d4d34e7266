"""What a head does in one number each: the scores that the page sorts heads by."""

import math

import torch
from jaxtyping import Float
from torch import Tensor

Weights = Float[Tensor, "heads query key"]


def measures(weights: Weights) -> dict[str, list[float]]:
    """Entropy, distance, previous-token score and alignment score of each head."""
    found = {"entropy": entropy(weights), "distance": distance(weights)}
    found |= {"previous": previous(weights), "alignment": alignment(weights)}
    return {name: [round(number, 5) for number in values.tolist()] for name, values in found.items()}


def entropy(weights: Weights) -> Float[Tensor, " heads"]:
    """How widely a head looks, in bits, mean over the queries: 0 for one key only, log₂ n for n keys alike."""
    return torch.special.entr(weights.double()).sum(-1).mean(-1) / math.log(2)


def distance(weights: Weights) -> Float[Tensor, " heads"]:
    """How far a head looks: the mean of |i − j| over what it looks at."""
    _, queries, keys = weights.shape
    apart = torch.arange(queries, device=weights.device)[:, None] - torch.arange(keys, device=weights.device)
    return (weights.double() * apart.abs()).sum(-1).mean(-1)


def previous(weights: Weights) -> Float[Tensor, " heads"]:
    """How much of its weight a head gives to the token just before the query's place."""
    before = weights.double().diagonal(offset=-1, dim1=1, dim2=2)
    return before.mean(-1) if before.shape[-1] else before.sum(-1)


def alignment(weights: Weights) -> Float[Tensor, " heads"]:
    """How much one side finds partners of its own on the other: Σ_j max_i α_ij over the shorter side, 1 at the most."""
    _, queries, keys = weights.shape
    return (weights.double().amax(1).sum(-1) / min(queries, keys)).clamp(max=1)


def value_norms(values: Float[Tensor, "heads key head_width"], output: Tensor | None) -> Float[Tensor, "heads key"]:
    """‖v_j W_h‖: how long the vector is that a weight of one would add (Kobayashi 2020)."""
    if output is None:
        return values.norm(dim=-1)
    heads, _, width = values.shape
    maps = output.unflatten(1, (heads, width))
    return torch.stack([(values[head] @ maps[:, head].T).norm(dim=-1) for head in range(heads)])


def rollout(layers: list[Weights]) -> list[Float[Tensor, "query key"]]:
    """How much each input reaches each place after each layer, half of every vector passing by (Abnar 2020)."""
    reached: list[Tensor] = []
    for weights in layers:
        mean = weights.mean(0)
        mixed = (mean + torch.eye(len(mean), device=mean.device)) / 2
        mixed = mixed / mixed.sum(-1, keepdim=True)
        reached.append(mixed @ reached[-1] if reached else mixed)
    return reached
