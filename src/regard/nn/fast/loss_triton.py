"""The kernel behind `linear_cross_entropy` on a GPU: a program reads a token's logits and writes slopes over them."""

from typing import no_type_check

import torch
import triton.language as tl  # pyright: ignore[reportMissingImports]
from torch import Tensor

from regard.nn.fast.triton_jit import jit

LOWEST = tl.constexpr(-3e38)
"""Below all logits but those that are never written, which are −∞ and must not be subtracted from themselves."""
BLOCK, WARPS = 2048, 4
"""Logits that a program holds at a time, and its warps."""


@jit
@no_type_check
def shares(spread, token, VOCAB: tl.constexpr, SPREAD: tl.constexpr):  # noqa: ANN001, ANN201, N803
    """Each token's share of what is smoothed away from the target."""
    inside = token < VOCAB
    return tl.load(spread + token, mask=inside, other=0.0) if SPREAD else tl.where(inside, 1.0 / VOCAB, 0.0)


@jit
@no_type_check
def slopes_kernel(  # noqa: ANN201
    logits, targets, spread, losses, plain, smoothing,  # noqa: ANN001
    VOCAB: tl.constexpr, ALIGNED: tl.constexpr, BLOCK: tl.constexpr,  # noqa: N803
    SMOOTHED: tl.constexpr, SPREAD: tl.constexpr,  # noqa: N803
):  # fmt: skip
    """Twice over the row: for the sum of all exponentials, and for what each has to do with it."""
    row = tl.program_id(0).to(tl.int64)
    own = logits + row * ALIGNED
    target = tl.maximum(tl.load(targets + row), 0)
    column = tl.arange(0, BLOCK)
    best = tl.full([BLOCK], LOWEST, tl.float32)
    total = tl.zeros([BLOCK], tl.float32)
    weighed = tl.zeros([BLOCK], tl.float32)
    for start in range(0, VOCAB, BLOCK):
        inside = start + column < VOCAB
        x = tl.load(own + start + column, mask=inside, other=float("-inf")).to(tl.float32)
        above = x - best  # the larger of the two is taken out of both, so one exponential does
        power = tl.exp(-tl.abs(above))
        total = tl.where(above > 0, total * power + 1.0, total + power)
        best = tl.maximum(best, x)
        if SMOOTHED:
            share = shares(spread, start + column, VOCAB, SPREAD)
            weighed += tl.where(share > 0, x * share, 0.0)
    highest = tl.max(best, 0)
    log_total = highest + tl.log(tl.sum(total * tl.exp(best - highest), 0))
    surprise = log_total - tl.load(own + target).to(tl.float32)
    loss = (1 - smoothing) * surprise
    if SMOOTHED:
        loss += smoothing * (log_total - tl.sum(weighed, 0))
    tl.store(losses + row, loss)
    tl.store(plain + row, surprise)
    tl.debug_barrier()  # the target's logit has been read by all before any is written over
    for start in range(0, ALIGNED, BLOCK):
        place = start + column
        x = tl.load(own + place, mask=place < VOCAB, other=float("-inf")).to(tl.float32)
        slope = tl.exp(x - log_total) - tl.where(place == target, 1 - smoothing, 0.0)
        if SMOOTHED:
            slope -= smoothing * shares(spread, place, VOCAB, SPREAD)
        tl.store(own + place, slope.to(logits.dtype.element_ty), mask=place < ALIGNED)


def losses_and_slopes(
    logits: Tensor, targets: Tensor, vocab: int, smoothing: float, spread: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """The loss of each row, the same without smoothing, and its derivative by the logits, which takes their place."""
    losses, plain = (torch.empty(len(logits), device=logits.device, dtype=torch.float32) for _ in range(2))
    kinds = {"SMOOTHED": smoothing > 0, "SPREAD": spread is not None, "BLOCK": BLOCK, "num_warps": WARPS}
    shares = losses if spread is None else spread.contiguous()
    slopes_kernel[(len(logits),)](
        logits, targets.contiguous(), shares, losses, plain, smoothing, VOCAB=vocab, ALIGNED=logits.shape[1], **kinds
    )
    return losses, plain, logits
