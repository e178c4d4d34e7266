"""The likeliest token of each row by one kernel: a GPU takes longer to begin five of them than to compute this one."""

from typing import no_type_check

import torch
import triton.language as tl  # pyright: ignore[reportMissingImports]
from torch import Tensor

from regard.nn.fast.triton_jit import jit

BLOCK, WARPS, STAGES = 8192, 16, 3
"""Logits that a program holds at a time, its warps, and how many readings are under way at a time."""


@jit
@no_type_check
def likeliest_kernel(  # noqa: ANN201
    logits, forbidden, tokens, logprobs, row_step,  # noqa: ANN001
    VOCAB: tl.constexpr, FORBIDDEN: tl.constexpr, BLOCK: tl.constexpr, STAGES: tl.constexpr,  # noqa: N803
):  # fmt: skip
    """Once over the row: its maximum with the place of it, and the sum of all exponentials."""
    row = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, BLOCK)
    best, top = tl.full([BLOCK], float("-inf"), tl.float32), tl.full([BLOCK], float("-inf"), tl.float32)
    place, total = tl.zeros([BLOCK], tl.int32), tl.zeros([BLOCK], tl.float32)
    for start in tl.range(0, VOCAB, BLOCK, num_stages=STAGES):
        token = start + lane
        x = tl.load(logits + row * row_step + token, mask=token < VOCAB, other=float("-inf")).to(tl.float32)
        higher, lower = tl.maximum(top, x), tl.minimum(top, x)
        faded = tl.where(lower == float("-inf"), 0.0, tl.exp(lower - higher))  # the smaller in terms of the larger
        total = tl.where(x > top, total * faded + 1.0, total + faded)
        total = tl.where(x == x, total, x)  # what is no number makes all of it none
        top = higher
        for number in tl.static_range(FORBIDDEN):
            x = tl.where(token == tl.load(forbidden + number), float("-inf"), x)
        place = tl.where(x > best, token, place)  # the first of equals stays
        best = tl.maximum(best, x)
    chosen, highest = tl.max(best, 0), tl.max(top, 0)
    log_total = highest + tl.log(tl.sum(total * tl.exp(top - highest), 0))
    tl.store(tokens + row, tl.min(tl.where(best == chosen, place, VOCAB - 1), 0).to(tl.int64))
    tl.store(logprobs + row, chosen - log_total)


def likeliest(logits: Tensor, forbidden: Tensor) -> tuple[Tensor, Tensor]:
    """The likeliest token of each row that is not forbidden, the lowest of equals, and its log-probability."""
    rows, vocab = logits.shape
    tokens = torch.empty(rows, device=logits.device, dtype=torch.long)
    logprobs = torch.empty(rows, device=logits.device, dtype=torch.float32)
    logits = logits if logits.stride(1) == 1 else logits.contiguous()
    likeliest_kernel[(rows,)](
        logits, forbidden, tokens, logprobs, logits.stride(0),
        VOCAB=vocab, FORBIDDEN=len(forbidden), BLOCK=BLOCK, STAGES=STAGES, num_warps=WARPS,
    )  # fmt: skip
    return tokens, logprobs
