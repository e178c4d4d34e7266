"""GPU kernels that read the logits of a row once or twice: greedy choice, and cross-entropy with its gradient."""

from typing import no_type_check

import torch
import triton.language as tl  # pyright: ignore[reportMissingImports]
from torch import Tensor

from regard.nn.fast.triton_common import jit

ARGMAX_BLOCK, ARGMAX_WARPS, ARGMAX_STAGES = 8192, 16, 3
LOSS_BLOCK, LOSS_WARPS = 2048, 4
LOWEST = tl.constexpr(-3e38)
"""Below all logits but those of tokens that are never generated: these are −∞, and −∞ − (−∞) is NaN."""


@jit
@no_type_check
def argmax_kernel(
    logits, forbidden, tokens, logprobs, row_stride,
    VOCAB: tl.constexpr, FORBIDDEN: tl.constexpr, BLOCK: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """One pass over the row: the maximum and its index, and the log-sum-exp."""
    row = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, BLOCK)
    lane_best, lane_max = tl.full([BLOCK], float("-inf"), tl.float32), tl.full([BLOCK], float("-inf"), tl.float32)
    lane_argmax, lane_sum = tl.zeros([BLOCK], tl.int32), tl.zeros([BLOCK], tl.float32)
    for start in tl.range(0, VOCAB, BLOCK, num_stages=STAGES):
        token = start + lane
        x = tl.load(logits + row * row_stride + token, mask=token < VOCAB, other=float("-inf")).to(tl.float32)
        new_max, lower = tl.maximum(lane_max, x), tl.minimum(lane_max, x)
        rescale = tl.where(lower == float("-inf"), 0.0, tl.exp(lower - new_max))  # of the smaller term
        lane_sum = tl.where(x > lane_max, lane_sum * rescale + 1.0, lane_sum + rescale)
        lane_sum = tl.where(x == x, lane_sum, x)  # NaN stays NaN
        lane_max = new_max
        for index in tl.static_range(FORBIDDEN):
            x = tl.where(token == tl.load(forbidden + index), float("-inf"), x)
        lane_argmax = tl.where(x > lane_best, token, lane_argmax)  # of equal logits the first
        lane_best = tl.maximum(lane_best, x)
    best, row_max = tl.max(lane_best, 0), tl.max(lane_max, 0)
    lse = row_max + tl.log(tl.sum(lane_sum * tl.exp(lane_max - row_max), 0))
    tl.store(tokens + row, tl.min(tl.where(lane_best == best, lane_argmax, VOCAB - 1), 0).to(tl.int64))
    tl.store(logprobs + row, best - lse)


def argmax_logprob(logits: Tensor, forbidden: Tensor) -> tuple[Tensor, Tensor]:
    """The most likely token of each row that is not forbidden (of equals the lowest id), and its log-probability.

    One kernel: launching the five of torch takes longer than computing this one.
    """
    rows, vocab = logits.shape
    tokens = torch.empty(rows, device=logits.device, dtype=torch.long)
    logprobs = torch.empty(rows, device=logits.device, dtype=torch.float32)
    logits = logits if logits.stride(1) == 1 else logits.contiguous()
    argmax_kernel[(rows,)](
        logits, forbidden, tokens, logprobs, logits.stride(0),
        VOCAB=vocab, FORBIDDEN=len(forbidden), BLOCK=ARGMAX_BLOCK, STAGES=ARGMAX_STAGES,
        num_warps=ARGMAX_WARPS,
    )  # fmt: skip
    return tokens, logprobs


@jit
@no_type_check
def smoothing_weight(smoothing_weights, token, VOCAB: tl.constexpr, WEIGHTED: tl.constexpr):
    """Each token's share of the probability that label smoothing takes from the target."""
    inside = token < VOCAB
    return (
        tl.load(smoothing_weights + token, mask=inside, other=0.0)
        if WEIGHTED
        else tl.where(inside, 1.0 / VOCAB, 0.0)
    )  # fmt: skip


@jit
@no_type_check
def cross_entropy_kernel(
    logits, targets, smoothing_weights, losses, nlls, smoothing,
    VOCAB: tl.constexpr, STRIDE: tl.constexpr, BLOCK: tl.constexpr,
    SMOOTHED: tl.constexpr, WEIGHTED: tl.constexpr,
):  # fmt: skip
    """Two passes over the row: log-sum-exp and loss, then the gradient in place of the logits."""
    row = tl.program_id(0).to(tl.int64)
    row_logits = logits + row * STRIDE
    target = tl.maximum(tl.load(targets + row), 0)
    column = tl.arange(0, BLOCK)
    lane_max = tl.full([BLOCK], LOWEST, tl.float32)
    lane_sum = tl.zeros([BLOCK], tl.float32)
    smoothed = tl.zeros([BLOCK], tl.float32)
    for start in range(0, VOCAB, BLOCK):
        inside = start + column < VOCAB
        x = tl.load(row_logits + start + column, mask=inside, other=float("-inf")).to(tl.float32)
        difference = x - lane_max  # relative to the larger of the two, so that one exponential suffices
        rescale = tl.exp(-tl.abs(difference))
        lane_sum = tl.where(difference > 0, lane_sum * rescale + 1.0, lane_sum + rescale)
        lane_max = tl.maximum(lane_max, x)
        if SMOOTHED:
            weight = smoothing_weight(smoothing_weights, start + column, VOCAB, WEIGHTED)
            smoothed += tl.where(weight > 0, x * weight, 0.0)
    row_max = tl.max(lane_max, 0)
    lse = row_max + tl.log(tl.sum(lane_sum * tl.exp(lane_max - row_max), 0))
    nll = lse - tl.load(row_logits + target).to(tl.float32)
    loss = (1 - smoothing) * nll
    if SMOOTHED:
        loss += smoothing * (lse - tl.sum(smoothed, 0))
    tl.store(losses + row, loss)
    tl.store(nlls + row, nll)
    tl.debug_barrier()  # all lanes have read the target's logit before it is overwritten
    for start in range(0, STRIDE, BLOCK):
        token = start + column
        x = tl.load(row_logits + token, mask=token < VOCAB, other=float("-inf")).to(tl.float32)
        gradient = tl.exp(x - lse) - tl.where(token == target, 1 - smoothing, 0.0)
        if SMOOTHED:
            gradient -= smoothing * smoothing_weight(smoothing_weights, token, VOCAB, WEIGHTED)
        tl.store(row_logits + token, gradient.to(logits.dtype.element_ty), mask=token < STRIDE)


def cross_entropy_with_gradient(
    logits: Tensor, targets: Tensor, vocab: int, smoothing: float, smoothing_weights: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Loss of each row, the same without label smoothing, and the gradient of the logits, which overwrites them."""
    losses, nlls = (torch.empty(len(logits), device=logits.device, dtype=torch.float32) for _ in range(2))
    constants = {"SMOOTHED": smoothing > 0, "WEIGHTED": smoothing_weights is not None, "BLOCK": LOSS_BLOCK}
    weights = losses if smoothing_weights is None else smoothing_weights.contiguous()
    cross_entropy_kernel[(len(logits),)](
        logits, targets.contiguous(), weights, losses, nlls, smoothing,
        VOCAB=vocab, STRIDE=logits.shape[1], **constants, num_warps=LOSS_WARPS,
    )  # fmt: skip
    return losses, nlls, logits
