"""softmax(q kᵀ · scale) v over whole rows: by torch's fused kernel, or by plain products where these take less time.

A fused kernel spares memory for scores, which is what counts on a GPU. On a CPU, in bfloat16, torch's takes two to five
times as long for a step of training as the products themselves (benchmarks/dense_attention.py): there the products are
computed as they are written, block by block of queries, so that most of what a causal pattern hides is left out.
"""

from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor
from torch.autograd.function import once_differentiable

Query = Float[Tensor, "batch heads query head_width"]
Key = Float[Tensor, "batch kv_heads key head_width"]
Mask = Bool[Tensor, "#batch #heads #query key"]

QUERIES = 128
"""Queries of a causal pattern that are computed together."""
MOST = 1 << 24
"""Weights of one call that are kept until the gradients are computed; beyond, memory counts for more."""


def dense(
    query: Query, key: Key, value: Key, mask: Mask | Tensor | None, dropout: float, causal: bool, scale: float
) -> Query:
    """Attention with a mask of truth values or of numbers, or causal: query i sees the keys up to i."""
    if products_pay(query, key, mask, dropout):
        if shares_keys(query, key):
            key, value = (x.repeat_interleave(query.shape[1] // x.shape[1], dim=1) for x in (key, value))
        key, value = key.to(query.dtype), value.to(query.dtype)  # as autocast would for torch's kernel
        with torch.autocast("cpu", enabled=False):
            return _ByProducts.apply(query, key, value, mask, causal, scale)  # type: ignore[return-value]
    return F.scaled_dot_product_attention(
        query, key, value, mask, dropout, is_causal=causal, scale=scale, enable_gqa=shares_keys(query, key)
    )


def shares_keys(query: Query, key: Key) -> bool:
    """Whether several heads share a key; a plain answer also in compiled code, where sizes may be symbols."""
    return True if query.shape[1] != key.shape[1] else False  # noqa: SIM210


def products_pay(query: Tensor, key: Tensor, mask: Tensor | None, dropout: float) -> bool:
    """Whether plain products are the faster way, and can do what is asked for.

    Where the processor has units for whole tiles of bfloat16 (AMX), torch's kernel uses them, and is left to it.
    """
    if query.device.type != "cpu" or query.dtype != torch.bfloat16 or torch.compiler.is_compiling():
        return False
    plain = dropout == 0 and (mask is None or mask.dtype == torch.bool)
    weights = query.shape[:3].numel() * key.shape[2]
    return plain and query.shape[2] > 1 and weights <= MOST and not torch.cpu._is_amx_tile_supported()


class _ByProducts(torch.autograd.Function):
    """p = softmax(q kᵀ · scale), y = p v, and its gradients; the weights p are kept."""

    @staticmethod
    def forward(
        ctx: Any,  # noqa: ANN401
        query: Query,
        key: Key,
        value: Key,
        mask: Mask | None,
        causal: bool,
        scale: float,
    ) -> Query:
        rows = query.shape[:2].numel()
        q, k, v = ((x * scale if x is query else x).reshape(rows, *x.shape[2:]) for x in (query, key, value))
        if causal:
            weights = [_causal_weights(q[:, at], k[:, : at.stop]) for at in _blocks(q, causal)]
        else:
            weights = [_weights(q, k, mask, query.shape[:2])]
        ctx.save_for_backward(q, k, v, *weights)
        ctx.shapes, ctx.scale = (query.shape, key.shape), scale
        parts = [p @ v[:, : p.shape[2]] for p in weights]
        return (parts[0] if len(parts) == 1 else torch.cat(parts, 1)).view(query.shape)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]  # noqa: ANN401
        """ds = p ⊙ (dp − Σ dp ⊙ p) for each query, with dp = dy vᵀ; then dq = ds k, dk = dsᵀ q and dv = pᵀ dy."""
        q, k, v, *weights = ctx.saved_tensors
        slope, of_query = grad_outputs[0].reshape(q.shape), torch.empty_like(q)
        of_key = of_value = None
        for at, p in reversed(list(zip(_blocks(q, len(weights) > 1), weights, strict=True))):
            seen = p.shape[2]
            of_weights = slope[:, at] @ v[:, :seen].transpose(1, 2)
            of_scores = torch.ops.aten._softmax_backward_data(of_weights, p, -1, p.dtype)
            torch.mul(of_scores @ k[:, :seen], ctx.scale, out=of_query[:, at])
            known, told = of_scores.transpose(1, 2) @ q[:, at], p.transpose(1, 2) @ slope[:, at]
            if of_key is None or of_value is None:  # the last block sees all keys
                of_key, of_value = known, told
            else:
                of_key[:, :seen] += known
                of_value[:, :seen] += told
        assert of_key is not None
        assert of_value is not None
        asked, keys = ctx.shapes
        return of_query.view(asked), of_key.view(keys), of_value.view(keys), None, None, None


def _blocks(q: Tensor, causal: bool) -> list[slice]:
    """The queries that are computed together: all, where each sees all keys."""
    time = q.shape[1]
    size = QUERIES if causal else time
    return [slice(start, min(start + size, time)) for start in range(0, time, size)]


def _causal_weights(q: Tensor, k: Tensor) -> Tensor:
    """Of the keys that a block of queries sees, the last are its own."""
    scores = q @ k.transpose(1, 2)
    last = scores[:, :, -q.shape[1] :]
    last.masked_fill_(torch.ones(last.shape[1:], dtype=torch.bool).triu(1), -torch.inf)
    return scores.softmax(-1)


def _weights(q: Tensor, k: Tensor, mask: Mask | None, rows_and_heads: torch.Size) -> Tensor:
    scores = q @ k.transpose(1, 2)
    if mask is not None:
        scores.view(*rows_and_heads, *scores.shape[1:]).masked_fill_(~mask, -torch.inf)
    return scores.softmax(-1)
