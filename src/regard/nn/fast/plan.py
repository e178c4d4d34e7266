"""Which function computes attention: the fastest that gives exactly the reference's result, and the reason."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from regard.nn.device import HAS_TRITON
from regard.nn.fast.block_layout import SequencePattern
from regard.nn.fast.block_sparse import block_sparse_attention
from regard.nn.fast.flex import flex_attention
from regard.nn.fast.packed import key_range_attention
from regard.nn.fast.sdpa import matmul_attention, matmul_is_faster, sdpa
from regard.nn.fast.varlen import unpacked_matmul_attention, unpacked_sdpa, varlen_attention, varlen_kernel_fits
from regard.nn.pattern import Flags, Pattern, Segments
from regard.nn.position import Bias

Path = Literal[
    "reference",
    "sdpa",
    "matmul_attention",
    "key_range_attention",
    "varlen_attention",
    "unpacked_sdpa",
    "unpacked_matmul_attention",
    "flex_attention",
    "block_sparse_attention",
]
"""The name of the function that computes softmax(QKᵀ)V; `reference`: `nn.attention.reference.reference_attention`."""

FAST_PATHS: dict[str, Callable[..., Tensor]] = {
    path.__name__: path
    for path in (
        sdpa,
        matmul_attention,
        key_range_attention,
        varlen_attention,
        unpacked_sdpa,
        unpacked_matmul_attention,
        flex_attention,
        block_sparse_attention,
    )
}
"""All but the reference; called with (q, k, v, pattern, bias, scale, dropout)."""

SPARSE_FROM = 1024
"""From this length on, skipping empty blocks pays for finding them."""
SHORT = 256
"""Packed sequences shorter than this on average share blocks of queries; torch's varlen kernel gives each its own."""
MAX_HEAD_WIDTH = 128
"""Widest head that fits into such a block."""


@dataclass(frozen=True)
class Plan:
    """The function that computes attention, and why it was chosen."""

    path: Path
    reason: str


def plan(
    q: Tensor,
    k: Tensor,
    pattern: Pattern | None,
    bias: Bias | None,
    needs_weights: bool,
    dropout: float,
    value_width: int | None = None,
) -> Plan:
    """The path for these tensors (batch, heads, time, head width); values may have a width of their own."""
    if needs_weights:
        return Plan("reference", "the weights themselves are needed: to be inspected, or for values by distance")
    if pattern is not None and pattern.may_mask_all_keys:
        return Plan("reference", "a query may have no key to attend to, for which fused kernels return NaN")
    flags = pattern.flags() if pattern is not None else Flags()
    one_width = value_width in (None, q.shape[-1])
    if flags and flags.segments and bias is None:
        return _packed(q, k, flags.segments, dropout, one_width)
    if q.device.type == "cuda" and dropout == 0 and pattern is not None and _flex_fits(q) and one_width:
        if flags and flags.segments:
            return Plan("flex_attention", "packed sequences with a bias on the scores: one generated kernel takes both")
        if flags is None and not pattern.single_use and max(q.shape[2], k.shape[2]) >= SPARSE_FROM:
            return Plan("flex_attention", "a sparse or composed pattern over a long sequence: empty blocks are skipped")
    sparse = pattern if pattern is not None and pattern.sparse and q.shape[2] >= SPARSE_FROM else None
    if sparse is not None and q.shape[2] == k.shape[2] and SequencePattern.of(sparse) is not None:
        return Plan(
            "block_sparse_attention",
            "a sparse pattern over a long sequence: each block of queries gathers the blocks it may attend to",
        )
    if bias is None and matmul_is_faster(q, q.shape[0], q.shape[2], k.shape[2], dropout):
        return Plan("matmul_attention", "bfloat16 on a CPU: plain matmuls take less time than the fused kernel")
    return Plan("sdpa", _why_sdpa(flags, bias, sparse is not None, q.shape[2] == k.shape[2]))


def _packed(q: Tensor, k: Tensor, segments: Segments, dropout: float, one_width: bool) -> Plan:
    """`one_width`: whether values are as wide as keys, as the kernels for packed sequences need them."""
    if _key_range_kernel_fits(q) and dropout and one_width:
        return Plan("key_range_attention", "packed sequences with dropout on the weights, in half precision")
    if dropout and q.device.type == "cuda":
        return Plan("sdpa", "packed sequences with dropout on the weights, which the kernels for them lack")
    short = max(q.shape[2], k.shape[2]) < SHORT * len(segments.query_lengths)
    if _key_range_kernel_fits(q) and short and one_width:
        return Plan(
            "key_range_attention", "packed short sequences in half precision: several share a block of the fused kernel"
        )
    if varlen_kernel_fits(q) and one_width:
        return Plan("varlen_attention", "packed sequences in half precision: the fused kernel takes their lengths")
    rows = len(segments.query_lengths)
    if matmul_is_faster(q, rows, segments.longest_query, segments.longest_key, dropout):
        return Plan("unpacked_matmul_attention", "packed sequences in bfloat16 on a CPU: one a row, by plain matmuls")
    return Plan("unpacked_sdpa", "packed sequences: one a row for this call, so no score between two is computed")


def _why_sdpa(flags: Flags | None, bias: Bias | None, long_sparse: bool, square: bool) -> str:
    if long_sparse and not square:
        return "a sparse pattern, but queries and keys differ in number: it becomes a mask"
    if long_sparse:
        return "a sparse pattern that is not one sequence's pattern and its layout: it becomes a mask"
    if bias is not None:
        return "a bias on the scores becomes an additive mask"
    if flags and flags.causal and square:
        return "plain causal attention: the fused kernel has a flag for it"
    if flags and not flags.causal:
        return "everything may be attended to: the fused kernel without a mask"
    return "the pattern becomes a mask: finding its empty blocks pays on long sequences only"


def _key_range_kernel_fits(q: Tensor) -> bool:
    half = q.dtype in (torch.bfloat16, torch.float16)
    return q.device.type == "cuda" and half and q.shape[-1] <= MAX_HEAD_WIDTH and HAS_TRITON


def _flex_fits(q: Tensor) -> bool:
    width = q.shape[-1]
    return width >= 16 and width & (width - 1) == 0
