"""Pure functions between distributions over the next token: log-probabilities in, normalised log-probabilities out.

None of those that narrow or sharpen changes which of two kept tokens is the likelier. Where equally likely tokens
compete for the last place, lower ids win.
"""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.decode.top_k import top


def temper(logprobs: Float[Tensor, "rows vocab"], temperature: float) -> Float[Tensor, "rows vocab"]:
    """Sharpens (below one) or flattens (above one): p becomes p^(1/temperature), renormalised."""
    best = logprobs.amax(-1, keepdim=True)  # subtracted first, as tiny temperatures would overflow
    return ((logprobs - best) / temperature).log_softmax(-1)


def keep_top_k(logprobs: Float[Tensor, "rows vocab"], k: int) -> Float[Tensor, "rows vocab"]:
    """Keeps the k likeliest tokens, exactly k where at least k are possible."""
    if k >= logprobs.shape[-1]:
        return logprobs.log_softmax(-1)
    places = top(logprobs, k)[1]
    return _keep(logprobs, torch.zeros_like(logprobs, dtype=torch.bool).scatter_(-1, places, True))


def keep_top_p(logprobs: Float[Tensor, "rows vocab"], p: float) -> Float[Tensor, "rows vocab"]:
    """Keeps the nucleus: the smallest set of tokens whose probabilities reach p, the likeliest always."""
    if p >= 1:
        return logprobs.log_softmax(-1)
    ranked, places = logprobs.log_softmax(-1).sort(dim=-1, descending=True, stable=True)
    reached = ranked.double().exp().cumsum(-1)
    needed = reached.roll(1, -1) < p  # a token is needed while those before it fall short of p
    needed[..., 0] = True
    return _keep(logprobs, torch.zeros_like(needed).scatter_(-1, places, needed))


def keep_min_p(logprobs: Float[Tensor, "rows vocab"], p: float) -> Float[Tensor, "rows vocab"]:
    """Keeps tokens at least p times as likely as the likeliest."""
    ratio = (logprobs - logprobs.amax(-1, keepdim=True)).double().exp()
    return _keep(logprobs, ratio >= p)


def penalise_repeats(
    logprobs: Float[Tensor, "rows vocab"], seen: Bool[Tensor, "rows vocab"], penalty: float
) -> Float[Tensor, "rows vocab"]:
    """Makes tokens that were written before rarer: their p becomes p^penalty, renormalised.

    CTRL's rule divides positive logits and multiplies negative ones, so it depends on where the model put its zero; the
    rule is applied to log-probabilities here, which have one zero only.
    """
    return torch.where(seen, logprobs * penalty, logprobs).log_softmax(-1)


def draw(logprobs: Float[Tensor, "rows vocab"], uniforms: Float[Tensor, " rows"]) -> Int[Tensor, " rows"]:
    """The token in whose share of [0, 1) each row's number lies, the shares laid side by side by id."""
    reached = logprobs.double().exp().cumsum(-1)
    point = uniforms.double()[:, None] * reached[:, -1:]
    drawn = torch.searchsorted(reached, point, right=True)[:, 0]
    return drawn.clamp(max=logprobs.shape[-1] - 1)  # NaN leads beyond the end; the token's log-probability tells of it


def _keep(logprobs: Float[Tensor, "rows vocab"], kept: Bool[Tensor, "rows vocab"]) -> Float[Tensor, "rows vocab"]:
    return logprobs.masked_fill(~kept, -torch.inf).log_softmax(-1)
