"""softmax(q kᵀ · scale) v over padded rows: torch's fused kernel, or plain matmuls where these are faster.

A fused kernel saves the memory of the scores, which is what counts on a GPU. On a CPU, in bfloat16, torch's takes two
to five times as long for a training step as the matmuls themselves (benchmarks/dense_attention.py). There
`matmul_attention` computes these, one block of queries at a time, so that most of what a causal mask hides is skipped.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from regard.nn.fast.memo import memo
from regard.nn.pattern import Pattern
from regard.nn.position import Bias

Query = Float[Tensor, "batch heads query head_width"]
Key = Float[Tensor, "batch kv_heads key head_width"]
Value = Float[Tensor, "batch kv_heads key value_width"]
Output = Float[Tensor, "batch heads query value_width"]
Mask = Bool[Tensor, "#batch #heads #query key"]

BLOCK_M = 128
"""Queries of a causal mask that `matmul_attention` computes together."""
MAX_PAIRS = 1 << 24
"""Weights of one call that `matmul_attention` keeps for the backward pass; beyond, memory counts for more."""


def disable_cudnn_attention() -> None:
    """Entry points of training and decoding call this once, as cuDNN plans its attention anew for each shape.

    That takes longer than hundreds of steps, and batches of text have many shapes.
    """
    torch.backends.cuda.enable_cudnn_sdp(False)


@contextmanager
def cudnn_attention(enabled: bool) -> Iterator[None]:
    """Lets torch use cuDNN's attention, the fastest on Hopper, where all batches have one shape."""
    torch.backends.cuda.enable_cudnn_sdp(enabled)
    try:
        yield
    finally:
        disable_cudnn_attention()


def sdpa(
    q: Query, k: Key, v: Value, pattern: Pattern | None, bias: Bias | None, scale: float, dropout: float
) -> Output:
    """torch's scaled_dot_product_attention; causal as its flag, other patterns and biases as a mask."""
    mask, causal = _mask_and_flag(q, k, pattern, bias)
    return masked_sdpa(q, k, v, mask, causal, scale, dropout)


def matmul_attention(
    q: Query, k: Key, v: Value, pattern: Pattern | None, bias: Bias | None, scale: float, dropout: float
) -> Output:
    """softmax(q kᵀ · scale) v by plain matmuls; no bias, no dropout."""
    assert bias is None
    mask, causal = _mask_and_flag(q, k, pattern, bias)
    return masked_matmul_attention(q, k, v, mask, causal, scale, dropout)


def _mask_and_flag(q: Query, k: Key, pattern: Pattern | None, bias: Bias | None) -> tuple[Tensor | None, bool]:
    """The mask that torch takes, and its is_causal flag, which replaces the mask where it means the same."""
    flags = pattern.flags() if pattern is not None else None
    flagged = bias is None and flags is not None and flags.causal and flags.segments is None
    causal = flagged if q.shape[2] == k.shape[2] else False  # never symbolic: compiled code needs a plain bool
    return (None if causal else dense_mask(q, k, pattern, bias)), causal


def dense_mask(q: Query, k: Key, pattern: Pattern | None, bias: Bias | None) -> Tensor | None:
    """Pattern and bias as one mask: boolean, or the bias with −∞ where the pattern masks."""
    batch, heads, queries, _ = q.shape
    keys = k.shape[2]
    allowed = _dense_pattern(pattern, (batch, heads, queries, keys, q.device)) if pattern is not None else None
    if bias is None:
        return allowed
    added = bias.dense(batch, queries, keys)
    return added if allowed is None else added.masked_fill(~allowed, -torch.inf)


def _dense_pattern(pattern: Pattern, shape: tuple[int, int, int, int, torch.device]) -> Tensor:
    if torch.compiler.is_compiling():  # part of the generated kernel
        return pattern.dense(*shape)
    return memo(pattern, ("dense", *shape), lambda: pattern.dense(*shape), keep=1)


def masked_sdpa(
    q: Query, k: Key, v: Value, mask: Mask | Tensor | None, causal: bool, scale: float, dropout: float
) -> Output:
    return F.scaled_dot_product_attention(
        q, k, v, mask, dropout, is_causal=causal, scale=scale, enable_gqa=shares_keys(q, k)
    )


def shares_keys(q: Query, k: Key) -> bool:
    """Whether several query heads share a key head; a plain bool also in compiled code, where sizes may be symbols."""
    return True if q.shape[1] != k.shape[1] else False  # noqa: SIM210


def matmul_is_faster(q: Tensor, batch: int, queries: int, keys: int, dropout: float) -> bool:
    """Whether plain matmuls beat torch's kernel, for so many rows, queries and keys of q's heads and dtype.

    Where the CPU has tile instructions for bfloat16 (AMX), torch's kernel uses them and is faster.
    """
    if q.device.type != "cpu" or q.dtype != torch.bfloat16 or torch.compiler.is_compiling():
        return False
    pairs = batch * q.shape[1] * queries * keys
    return dropout == 0 and queries > 1 and pairs <= MAX_PAIRS and not torch.cpu._is_amx_tile_supported()


def masked_matmul_attention(
    q: Query, k: Key, v: Value, mask: Mask | None, causal: bool, scale: float, dropout: float
) -> Output:
    assert dropout == 0
    if shares_keys(q, k):
        k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], dim=1) for x in (k, v))
    k, v = k.to(q.dtype), v.to(q.dtype)  # as autocast would for torch's kernel
    with torch.autocast("cpu", enabled=False):
        return MatmulAttention.apply(q, k, v, mask, causal, scale)  # type: ignore[return-value]


class MatmulAttention(torch.autograd.Function):
    """p = softmax(q kᵀ · scale), y = p v, and its gradients; the weights p are kept."""

    @staticmethod
    def forward(
        ctx: Any,  # noqa: ANN401
        q: Query,
        k: Key,
        v: Value,
        mask: Mask | None,
        causal: bool,
        scale: float,
    ) -> Output:
        ctx.shapes, ctx.scale = (q.shape, k.shape, v.shape), scale
        rows = q.shape[:2].numel()
        q, k, v = ((x * scale if x is q else x).reshape(rows, *x.shape[2:]) for x in (q, k, v))
        if causal:
            weights = [_causal_weights(q[:, block], k[:, : block.stop]) for block in _query_blocks(q, causal)]
        else:
            weights = [_weights(q, k, mask, ctx.shapes[0][:2])]
        ctx.save_for_backward(q, k, v, *weights)
        outputs = [p @ v[:, : p.shape[2]] for p in weights]
        return (outputs[0] if len(outputs) == 1 else torch.cat(outputs, 1)).view(*ctx.shapes[0][:-1], v.shape[-1])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]  # noqa: ANN401
        """ds = p ⊙ (dp − Σ dp ⊙ p) for each query, with dp = dy vᵀ; then dq = ds k, dk = dsᵀ q and dv = pᵀ dy."""
        q, k, v, *weights = ctx.saved_tensors
        grad_output, grad_q = grad_outputs[0].reshape(*q.shape[:-1], v.shape[-1]), torch.empty_like(q)
        grad_k = grad_v = None
        for block, p in reversed(list(zip(_query_blocks(q, len(weights) > 1), weights, strict=True))):
            keys = p.shape[2]
            grad_weights = grad_output[:, block] @ v[:, :keys].transpose(1, 2)
            grad_scores = torch.ops.aten._softmax_backward_data(grad_weights, p, -1, p.dtype)
            torch.mul(grad_scores @ k[:, :keys], ctx.scale, out=grad_q[:, block])
            block_grad_k, block_grad_v = (
                grad_scores.transpose(1, 2) @ q[:, block],
                p.transpose(1, 2) @ grad_output[:, block],
            )
            if grad_k is None or grad_v is None:  # the last block attends to all keys
                grad_k, grad_v = block_grad_k, block_grad_v
            else:
                grad_k[:, :keys] += block_grad_k
                grad_v[:, :keys] += block_grad_v
        assert grad_k is not None
        assert grad_v is not None
        q_shape, k_shape, v_shape = ctx.shapes
        return grad_q.view(q_shape), grad_k.view(k_shape), grad_v.view(v_shape), None, None, None


def _query_blocks(q: Tensor, causal: bool) -> list[slice]:
    """The queries that are computed together: all, where each attends to all keys."""
    time = q.shape[1]
    size = BLOCK_M if causal else time
    return [slice(start, min(start + size, time)) for start in range(0, time, size)]


def _causal_weights(q: Tensor, k: Tensor) -> Tensor:
    """The last keys are those of the block's own queries: of these, the later ones are masked."""
    scores = q @ k.transpose(1, 2)
    last = scores[:, :, -q.shape[1] :]
    last.masked_fill_(torch.ones(last.shape[1:], dtype=torch.bool).triu(1), -torch.inf)
    return scores.softmax(-1)


def _weights(q: Tensor, k: Tensor, mask: Mask | None, batch_and_heads: torch.Size) -> Tensor:
    scores = q @ k.transpose(1, 2)
    if mask is not None:
        scores.view(*batch_and_heads, *scores.shape[1:]).masked_fill_(~mask, -torch.inf)
    return scores.softmax(-1)
