"""Packed sequences without computing a score between two of them: torch's variable-length kernel, or one a row."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.nn.fast.packed import packed_sequences
from regard.nn.fast.sdpa import masked_matmul_attention, masked_sdpa
from regard.nn.pattern import Pattern
from regard.nn.position import Bias

Query = Float[Tensor, "batch heads query head_width"]
Key = Float[Tensor, "batch kv_heads key head_width"]
Value = Float[Tensor, "batch kv_heads key value_width"]
Output = Float[Tensor, "batch heads query value_width"]


def varlen_kernel_fits(q: Tensor) -> bool:
    half = q.dtype in (torch.bfloat16, torch.float16)
    return q.device.type == "cuda" and half and q.shape[-1] % 8 == 0 and q.shape[-1] <= 256


def varlen_attention(
    q: Query, k: Key, v: Value, pattern: Pattern | None, bias: Bias | None, scale: float, dropout: float
) -> Output:
    """torch's varlen_attn, which takes the bounds of the sequences."""
    from torch.nn.attention.varlen import varlen_attn

    assert bias is None
    assert dropout == 0
    segments, causal = packed_sequences(pattern)
    cu_seqlens_q = _cu_seqlens(segments.query_lengths, q.shape[2])
    cu_seqlens_k = _cu_seqlens(segments.key_lengths, k.shape[2])
    groups = q.shape[1] // k.shape[1] if q.shape[1] != k.shape[1] else 1
    q, k, v = (x.squeeze(0).transpose(0, 1) for x in (q, k, v))
    if groups > 1:
        k, v = (x.repeat_interleave(groups, dim=1) for x in (k, v))
    y = varlen_attn(
        q,
        k,
        v,
        cu_seqlens_q,
        cu_seqlens_k,
        segments.longest_query,
        segments.longest_key,
        scale=scale,
        window_size=(-1, 0) if causal else (-1, -1),
    )
    return y.transpose(0, 1)[None]  # type: ignore[union-attr]


def _cu_seqlens(lengths: Int[Tensor, " sequences"], time: int) -> Int[Tensor, " bounds"]:
    """Cumulative lengths from 0; the padding at the row's end counts as one more sequence."""
    ends = torch.cumsum(lengths, 0)
    return torch.cat([ends.new_zeros(1), ends, ends.new_full((1,), time)]).int()


def unpacked_sdpa(
    q: Query, k: Key, v: Value, pattern: Pattern | None, bias: Bias | None, scale: float, dropout: float
) -> Output:
    """The sequences padded to one a row, torch's scaled_dot_product_attention, and packed again."""
    assert bias is None
    return _one_a_row(masked_sdpa, q, k, v, pattern, scale, dropout)


def unpacked_matmul_attention(
    q: Query, k: Key, v: Value, pattern: Pattern | None, bias: Bias | None, scale: float, dropout: float
) -> Output:
    """The sequences padded to one a row, attention by plain matmuls, and packed again."""
    assert bias is None
    return _one_a_row(masked_matmul_attention, q, k, v, pattern, scale, dropout)


def _one_a_row(
    attention: Callable[..., Output], q: Query, k: Key, v: Value, pattern: Pattern | None, scale: float, dropout: float
) -> Output:
    segments, causal = packed_sequences(pattern)
    unpack_q, pack_q = permutations(segments.query_segment[0], segments.query_lengths, segments.longest_query)
    unpack_k, _ = permutations(segments.key_segment[0], segments.key_lengths, segments.longest_key)
    position = torch.arange(segments.longest_key, device=k.device)
    mask = None if causal else (position < segments.key_lengths[:, None])[:, None, None, :]
    y = attention(
        _permute(q, unpack_q, segments.longest_query),
        _permute(k, unpack_k, segments.longest_key),
        _permute(v, unpack_k, segments.longest_key),
        mask,
        causal,
        scale,
        dropout,
    )
    return _permute(y, pack_q, q.shape[2])


@dataclass(frozen=True, eq=False)
class Permutation:
    """y = x[index], and dx = dy[inverse] · used; an index may repeat where the output is padding."""

    index: Int[Tensor, " new"]
    inverse: Int[Tensor, " old"]
    used: Bool[Tensor, " old"]
    """Whether a token of x is in y at all."""


def permutations(
    segment: Int[Tensor, " time"], lengths: Int[Tensor, " sequences"], longest: int
) -> tuple[Permutation, Permutation]:
    """From a packed row to one sequence a row, and back."""
    unpack, pack = unpacking(segment, lengths, longest)
    valid = torch.arange(longest, device=segment.device) < lengths[:, None]
    return (
        Permutation(unpack.flatten(), pack, segment >= 0),
        Permutation(pack, unpack.flatten(), valid.flatten()),
    )


def unpacking(
    segment: Int[Tensor, " time"], lengths: Int[Tensor, " sequences"], longest: int
) -> tuple[Int[Tensor, "sequences longest"], Int[Tensor, " time"]]:
    """For each cell of one-sequence-a-row its index in the packed row, and for each packed token its cell."""
    time = len(segment)
    starts = torch.cumsum(lengths, 0) - lengths
    index = (starts[:, None] + torch.arange(longest, device=segment.device)).clamp(max=time - 1)
    sequence = segment.clamp(min=0)
    cell = sequence * longest + torch.arange(time, device=segment.device) - starts[sequence]
    return index, torch.where(segment >= 0, cell, 0)


def _permute(
    x: Float[Tensor, "batch heads time head_width"], permutation: Permutation, time: int
) -> Float[Tensor, "rows heads cells head_width"]:
    """The vectors of all tokens in another order, in rows of `time`."""
    heads = x.shape[1]
    vectors = x.transpose(1, 2).reshape(-1, heads * x.shape[3])
    permuted = _Permute.apply(vectors, permutation.index, permutation.inverse, permutation.used)
    return permuted.view(-1, time, heads, x.shape[3]).transpose(1, 2)  # type: ignore[union-attr]


class _Permute(torch.autograd.Function):
    """x[index], whose gradient is a gather too (no scatter): every token that matters has one cell only."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, index: Tensor, inverse: Tensor, used: Tensor) -> Tensor:  # type: ignore[override]  # noqa: ANN401
        ctx.save_for_backward(inverse, used)
        return x.index_select(0, index)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        inverse, used = ctx.saved_tensors
        (grad_output,) = grad_outputs
        return grad_output.index_select(0, inverse).mul_(used[:, None]), None, None, None
