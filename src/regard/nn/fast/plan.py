"""Which way to compute attention: the fastest that gives exactly what was asked for, and the reason in a sentence."""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from regard.nn.device import HAS_TRITON
from regard.nn.fast.block_layout import Within
from regard.nn.fast.sdpa import products_pay
from regard.nn.pattern import Flags, Pattern, Segments
from regard.nn.position import Bias

Path = Literal["reference", "sdpa", "spans", "variable-length", "flex", "blocked"]
SPARSE_FROM = 1024
"""From this length on, skipping empty blocks pays for finding them."""
SHORT = 256
"""Packed sequences of fewer tokens, on average, share tiles; the variable-length kernel gives each tiles of its own."""

WIDEST = 128
"""Numbers of a head that fit into such a tile."""


@dataclass(frozen=True)
class Plan:
    """A way to compute attention, and why it was chosen."""

    path: Path
    why: str


def plan(
    query: Tensor, key: Tensor, pattern: Pattern | None, bias: Bias | None, needs_weights: bool, dropout: float
) -> Plan:
    """The path for these tensors (batch, heads, time, head width)."""
    if needs_weights:
        return Plan("reference", "the weights themselves are needed: to be looked at, or for values by distance")
    if pattern is not None and pattern.may_mask_all_keys:
        return Plan("reference", "some query may see no key, which fused kernels answer with not-a-number")
    flags = pattern.flags() if pattern is not None else Flags()
    if flags and flags.segments and bias is None:
        return _packed(query, key, flags.segments, dropout)
    if query.device.type == "cuda" and dropout == 0 and pattern is not None and _flex_fits(query):
        if flags and flags.segments:
            return Plan("flex", "packed sequences with a bias on the scores: both go into one generated kernel")
        if flags is None and not pattern.single_use and max(query.shape[2], key.shape[2]) >= SPARSE_FROM:
            return Plan("flex", "a sparse or composed pattern over a long sequence: empty blocks are skipped")
    if pattern is not None and pattern.sparse and query.shape[2] >= SPARSE_FROM:
        return _sparse(query, key, pattern)
    if bias is None and products_pay(query, key, None, dropout):
        return Plan("sdpa", "rows in bfloat16 on a processor: plain products take less time than the fused kernel")
    return Plan("sdpa", _why_sdpa(flags, bias, query.shape[2] == key.shape[2]))


def _sparse(query: Tensor, key: Tensor, pattern: Pattern) -> Plan:
    if query.shape[2] != key.shape[2]:
        return Plan("sdpa", "a sparse pattern, but queries and keys differ in number: it goes in as a mask")
    if Within.of(pattern) is None:
        return Plan("sdpa", "a sparse pattern that is not one sequence's pattern and its layout: it goes in as a mask")
    return Plan("blocked", "a sparse pattern over a long sequence: each block of queries gathers the blocks it may see")


def _packed(query: Tensor, key: Tensor, segments: Segments, dropout: float) -> Plan:
    if _spans_kernel_fits(query) and dropout:
        return Plan("spans", "packed sequences with dropout on the weights, in half precision: one kernel draws it")
    if dropout and query.device.type == "cuda":
        return Plan("sdpa", "packed sequences with dropout on the weights, which the kernels for them lack")
    short = max(query.shape[2], key.shape[2]) < SHORT * len(segments.query_lengths)
    if _spans_kernel_fits(query) and short:
        return Plan("spans", "packed short sequences in half precision: several share a tile of the fused kernel")
    if varlen_kernel_fits(query):
        return Plan("variable-length", "packed sequences in half precision: the fused kernel takes their lengths")
    return Plan(
        "variable-length", "packed sequences: laid out one a row for this call, so none computes another's scores"
    )


def _why_sdpa(flags: Flags | None, bias: Bias | None, square: bool) -> str:
    if bias is not None:
        return "a bias on the scores goes in as a mask of numbers"
    if flags and flags.causal and square:
        return "plain causal attention: the fused kernel has a flag for it"
    if flags and not flags.causal:
        return "everything may be seen: the fused kernel as it is"
    return "the pattern goes in as a mask: finding the blocks it leaves empty pays on long sequences only"


def varlen_kernel_fits(query: Tensor) -> bool:
    """Whether torch's variable-length kernel takes such queries."""
    half = query.dtype in (torch.bfloat16, torch.float16)
    return query.device.type == "cuda" and half and query.shape[-1] % 8 == 0 and query.shape[-1] <= 256


def _spans_kernel_fits(query: Tensor) -> bool:
    """Whether our own kernel for short packed sequences takes such queries."""
    half = query.dtype in (torch.bfloat16, torch.float16)
    return query.device.type == "cuda" and half and query.shape[-1] <= WIDEST and HAS_TRITON


def _flex_fits(query: Tensor) -> bool:
    width = query.shape[-1]
    return width >= 16 and width & (width - 1) == 0
