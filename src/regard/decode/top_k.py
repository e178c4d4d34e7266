"""Top-k with a defined order of ties: `torch.topk` promises none, and 16-bit logits tie often."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

LOWEST = -1e300  # below every finite float32, yet not infinite


def stable_top_k(
    scores: Float[Tensor, "*rows choices"], count: int
) -> tuple[Float[Tensor, "*rows count"], Int[Tensor, "*rows count"]]:
    """The `count` highest log-probabilities (none above zero), best first, and their indices; lower indices win ties.

    A double has 29 bits of mantissa more than a float. The index is added there, which makes a negative number smaller
    by less than any difference between floats, so that `topk` sees no ties and agrees with `argmax`. On a CPU, where
    ties are rare and looking for them is cheap, plain `topk` comes first.
    """
    if scores.device.type == "cpu":
        best, indices = scores.topk(min(count + 1, scores.shape[-1]), dim=-1)
        if not bool((best[..., 1:] == best[..., :-1]).any()):
            return best[..., :count], indices[..., :count]
    keys = scores.double().clamp_(min=LOWEST)
    keys.view(torch.int64).add_(torch.arange(scores.shape[-1], device=scores.device))
    indices = keys.topk(count, dim=-1).indices
    return scores.gather(-1, indices), indices
