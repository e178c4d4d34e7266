"""The best few of many scores, with a rule for ties: `torch.topk` alone promises none, and 16-bit logits tie often."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

LOWEST = -1e300  # below every finite float32, yet not infinite


def top(
    scores: Float[Tensor, "*rows choices"], count: int
) -> tuple[Float[Tensor, "*rows count"], Int[Tensor, "*rows count"]]:
    """The `count` highest log-probabilities (none above zero), best first, and where they stand; lower places win ties.

    A double has 29 bits of mantissa more than a float. The place is added there, which makes a negative number smaller
    by less than any difference between floats, so that one `topk` sees no ties and `argmax` would agree with it.
    Ties are rare where a CPU computes, and to ask costs it nothing: there the plain answer comes first.
    """
    if scores.device.type == "cpu":
        best, places = scores.topk(min(count + 1, scores.shape[-1]), dim=-1)
        if not bool((best[..., 1:] == best[..., :-1]).any()):
            return best[..., :count], places[..., :count]
    keys = scores.double().clamp_(min=LOWEST)
    keys.view(torch.int64).add_(torch.arange(scores.shape[-1], device=scores.device))
    places = keys.topk(count, dim=-1).indices
    return scores.gather(-1, places), places
