"""Attention where each query attends to one range of neighbouring keys: packed sequences, causal or not.

A block of queries then needs only the keys from its first query's first to its last query's last. Where sequences are
short, that is far less than a block of keys for each sequence. Forward and backward are custom operators, which
compiled code leaves as they are: plain torch on a CPU, Triton kernels on a GPU.
"""

import math
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.nn.pattern import Pattern, Segments
from regard.nn.position import Bias

Query = Float[Tensor, "batch heads query head_width"]
Key = Float[Tensor, "batch kv_heads key head_width"]


@dataclass(frozen=True)
class KeyRanges:
    """Which keys each query attends to, and which queries attend to each key; starts included, ends not.

    None of the four ever decreases, so a block's range is its first start to its last end.
    """

    key_start: Int[Tensor, " queries"]
    key_end: Int[Tensor, " queries"]
    query_start: Int[Tensor, " keys"]
    query_end: Int[Tensor, " keys"]

    @classmethod
    def of(cls, segments: Segments, causal: bool) -> "KeyRanges":
        """The ranges of packed sequences; the padding behind them attends to nothing and nothing attends to it."""
        query, key = segments.query_segment[0], segments.key_segment[0]
        key_start, key_end = _bounds(query, segments.key_lengths, len(key))
        query_start, query_end = _bounds(key, segments.query_lengths, len(query))
        if causal:
            key_end = torch.minimum(key_end, key_start + 1 + _position(query, segments.query_lengths))
            query_start = torch.minimum(query_end, query_start + _position(key, segments.key_lengths))
        return cls(key_start.int(), key_end.int(), query_start.int(), query_end.int())

    @property
    def tensors(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        return self.key_start, self.key_end, self.query_start, self.query_end


def _bounds(segment: Tensor, lengths: Tensor, total: int) -> tuple[Tensor, Tensor]:
    """For each token, where the sequence of its number begins and ends on the other side."""
    ends = torch.cumsum(lengths, 0)
    sequence, valid = segment.clamp(min=0), segment >= 0
    return torch.where(valid, (ends - lengths)[sequence], total), torch.where(valid, ends[sequence], total)


def _position(segment: Tensor, lengths: Tensor) -> Tensor:
    """Each token's position in its sequence."""
    return torch.arange(len(segment), device=segment.device) - _bounds(segment, lengths, 0)[0]


def packed_sequences(pattern: Pattern | None) -> tuple[Segments, bool]:
    """The packed sequences of a pattern, and whether it is causal."""
    flags = pattern.flags() if pattern is not None else None
    assert flags is not None
    assert flags.segments is not None
    return flags.segments, flags.causal


def key_range_attention(
    q: Query, k: Key, v: Key, pattern: Pattern | None, bias: Bias | None, scale: float, dropout: float
) -> Query:
    """Packed short sequences, several of which share a block of queries."""
    assert bias is None
    segments, causal = packed_sequences(pattern)
    q, k, v = (x.squeeze(0).transpose(0, 1) for x in (q, k, v))
    ranges = KeyRanges(*_key_ranges(segments, causal))
    return attend_key_ranges(q, k, v, ranges, scale, dropout).transpose(0, 1)[None]


def prepare_key_ranges(pattern: Pattern | None) -> None:
    """Computes the ranges of packed sequences on a GPU once for all layers, before compiled blocks need them."""
    flags = pattern.flags() if pattern is not None else None
    if flags is not None and flags.segments is not None and _is_prepared(flags.segments):
        _key_ranges(flags.segments, flags.causal)


def _is_prepared(segments: Segments) -> bool:
    return segments.query_segment.is_cuda  # a CPU has other functions for packed sequences


def _key_ranges(segments: Segments, causal: bool) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    if causal in segments.key_ranges:
        return segments.key_ranges[causal]
    ranges = KeyRanges.of(segments, causal).tensors
    if not torch.compiler.is_compiling():  # else the next block would find another state, and be compiled anew
        segments.key_ranges[causal] = ranges
    return ranges


def attend_key_ranges(q: Tensor, k: Tensor, v: Tensor, ranges: KeyRanges, scale: float, dropout: float = 0.0) -> Tensor:
    """softmax(qkᵀ·scale) v of each head over each query's range: (queries, heads, head width).

    q (queries, heads, head width); k, v (keys, kv heads, head width). The output of an empty range is 0. Which weights
    are dropped follows from one random seed, so that the backward pass, which keeps no weights, drops the same ones.
    """
    seed = torch.randint(1 << 31, (1,), device=q.device) if dropout else None
    return key_range_forward(q, k, v, *ranges.tensors, scale, dropout, seed)[0]


def dropout_threshold(dropout: float) -> int:
    """Weights whose hash of 24 bits is below are dropped."""
    return round(dropout * (1 << 24))


def dropout_scale(seed: Tensor, dropout: float, heads: int, queries: int, keys: int) -> Tensor:
    """What dropout multiplies each weight with (heads, queries, keys): 0, or 1 / (1 − rate)."""
    query, head = (torch.arange(count, device=seed.device) for count in (queries, heads))
    row_hash = _hash32(_hash32(query * heads + head[:, None]) + seed)
    drawn = _hash32(row_hash[..., None] + torch.arange(keys, device=seed.device) * 0x9E3779B9) >> 8
    return (drawn >= dropout_threshold(dropout)) / (1 - dropout)


def _hash32(x: Tensor) -> Tensor:
    """A 32-bit integer hash (constants of Wellons' and Wells' search)."""
    low = (1 << 32) - 1
    x = x & low
    x = x ^ (x >> 16)
    x = (x * 0x21F0AAAD) & low
    x = x ^ (x >> 15)
    x = (x * 0xD35A2D97) & low
    return x ^ (x >> 15)


# torch reads the signatures of operators, so shapes stand in the docstrings here.


@torch.library.custom_op("regard::key_range_attention", mutates_args=())
def key_range_forward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    key_start: Tensor,
    key_end: Tensor,
    query_start: Tensor,
    query_end: Tensor,
    scale: float,
    dropout: float,
    seed: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """Output, and log2-sum-exp of each query (heads, queries)."""
    if q.device.type == "cuda":
        from regard.nn.fast.packed_triton import key_range_forward as kernel

        return kernel(q, k, v, key_start, key_end, scale, dropout, seed)
    weights, lse = _weights(q, k, key_start, key_end, scale)
    weights = weights if seed is None else weights * dropout_scale(seed, dropout, *weights.shape)
    output = torch.einsum("hqk,khd->qhd", weights, _for_each_head(v, q))
    return output.to(q.dtype).contiguous(), lse


@torch.library.custom_op("regard::key_range_attention_backward", mutates_args=())
def key_range_backward(
    grad_output: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    key_start: Tensor,
    key_end: Tensor,
    query_start: Tensor,
    query_end: Tensor,
    scale: float,
    dropout: float,
    seed: Tensor | None,
    output: Tensor,
    lse: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    """grad_q, grad_k, grad_v."""
    if q.device.type == "cuda":
        from regard.nn.fast.packed_triton import key_range_backward as kernel

        ranges = (key_start, key_end, query_start, query_end)
        return kernel(grad_output, q, k, v, ranges, scale, dropout, seed, output, lse)
    weights, _ = _weights(q, k, key_start, key_end, scale)
    dropped = 1.0 if seed is None else dropout_scale(seed, dropout, *weights.shape)
    grad_output = grad_output.float()
    grad_weights = torch.einsum("qhd,khd->hqk", grad_output, _for_each_head(v, q)) * dropped
    delta = (grad_output * output.float()).sum(-1).T[:, :, None]
    grad_scores = weights * (grad_weights - delta) * scale
    grad_k, grad_v = (
        x.unflatten(1, (k.shape[1], -1)).sum(2)
        for x in (
            torch.einsum("hqk,qhd->khd", grad_scores, q.float()),
            torch.einsum("hqk,qhd->khd", weights * dropped, grad_output),
        )
    )
    grad_q = torch.einsum("hqk,khd->qhd", grad_scores, _for_each_head(k, q))
    return grad_q.to(q.dtype).contiguous(), grad_k.to(q.dtype).contiguous(), grad_v.to(q.dtype).contiguous()


def _weights(q: Tensor, k: Tensor, key_start: Tensor, key_end: Tensor, scale: float) -> tuple[Tensor, Tensor]:
    """The softmax in float32 (heads, queries, keys), and its log2-sum-exp."""
    scores = torch.einsum("qhd,khd->hqk", q.float(), _for_each_head(k, q)) * scale
    key = torch.arange(len(k), device=k.device)
    allowed = (key >= key_start[:, None]) & (key < key_end[:, None])
    scores = scores.masked_fill(~allowed, -torch.inf)
    lse = scores.logsumexp(-1).masked_fill(~allowed.any(1), 0.0)
    return torch.exp(scores - lse[..., None]), lse / math.log(2)


def _for_each_head(x: Tensor, q: Tensor) -> Tensor:
    """Keys or values in float32, those that several heads share repeated."""
    return x.float().repeat_interleave(q.shape[1] // x.shape[1], dim=1)


@key_range_forward.register_fake
def _(q: Tensor, *_: Any) -> tuple[Tensor, Tensor]:  # noqa: ANN401
    return q.new_empty(q.shape), q.new_empty(q.shape[1], q.shape[0], dtype=torch.float32)


@key_range_backward.register_fake
def _(_: Tensor, q: Tensor, k: Tensor, v: Tensor, *__: Any) -> tuple[Tensor, Tensor, Tensor]:  # noqa: ANN401
    return q.new_empty(q.shape), k.new_empty(k.shape), v.new_empty(v.shape)


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:  # noqa: ANN401
    *tensors, ctx.scale, ctx.dropout, seed = inputs
    ctx.save_for_backward(*tensors, seed, *output)


def _backward(ctx: Any, grad_output: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
    *inputs, seed, output, lse = ctx.saved_tensors
    return *key_range_backward(grad_output, *inputs, ctx.scale, ctx.dropout, seed, output, lse), *[None] * 7


key_range_forward.register_autograd(_backward, setup_context=_save)
