"""The GPU kernels of `packed.py`: a program takes a block of queries (or of keys) through all its ranges."""

from typing import NamedTuple, no_type_check

import torch
import triton  # pyright: ignore[reportMissingImports]
import triton.language as tl  # pyright: ignore[reportMissingImports]
from torch import Tensor

from regard.nn.fast.packed import dropout_threshold
from regard.nn.fast.triton_common import jit

LOG2_E = 1.4426950408889634
"""Exponentials to base 2 are what the device has: eˣ = 2^(x·log₂e)."""


class Launch(NamedTuple):
    """Block sizes and launch options of a kernel."""

    block_m: int
    block_n: int
    warps: int = 4
    stages: int = 2


FORWARD, GRAD_Q, GRAD_KV = Launch(64, 32), Launch(32, 32, warps=2), Launch(32, 64)


@jit
@no_type_check
def load_block(x, token, valid, stride, offset, HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr):
    """One head's vectors of some tokens (tokens, BLOCK_D)."""
    column = tl.arange(0, BLOCK_D)
    at = token.to(tl.int64)[:, None] * stride + offset + column[None, :]
    return tl.load(x + at, mask=valid[:, None] & (column < HEAD_DIM)[None, :], other=0.0)


@jit
@no_type_check
def store_block(x, into, token, valid, stride, offset, HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr):
    column = tl.arange(0, BLOCK_D)
    at = token.to(tl.int64)[:, None] * stride + offset + column[None, :]
    tl.store(into + at, x.to(into.dtype.element_ty), mask=valid[:, None] & (column < HEAD_DIM)[None, :])


@jit
@no_type_check
def hash32(x):
    """As `packed._hash32`."""
    x ^= x >> 16
    x *= 0x21F0AAAD
    x ^= x >> 15
    x *= 0xD35A2D97
    return x ^ (x >> 15)


@jit
@no_type_check
def dropout_scale(seed, head, offs_m, offs_n, threshold, kept_scale, HEADS: tl.constexpr):
    """As `packed.dropout_scale`; offs_m and offs_n broadcast."""
    row_hash = hash32(hash32((offs_m * HEADS + head).to(tl.uint32)) + tl.load(seed).to(tl.uint32))
    drawn = hash32(row_hash + offs_n.to(tl.uint32) * 0x9E3779B9) >> 8
    return tl.where(drawn.to(tl.int32) >= threshold, kept_scale, 0.0)


@jit
@no_type_check
def forward_kernel(
    q, k, v, key_start, key_end, output, lse, log2_scale, query_count, seed, threshold, kept_scale,
    q_stride, q_head_stride, k_stride, k_head_stride, v_stride, v_head_stride,
    HEADS: tl.constexpr, GROUP_SIZE: tl.constexpr, HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, DROPOUT: tl.constexpr,
):  # fmt: skip
    """softmax(qkᵀ·scale) v of a block of queries, one block of keys at a time with a running maximum."""
    head = tl.program_id(1)
    offs_m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    valid_m = offs_m < query_count
    first_key = tl.load(key_start + offs_m, mask=valid_m, other=0)
    end_key = tl.load(key_end + offs_m, mask=valid_m, other=0)
    q_block = load_block(q, offs_m, valid_m, q_stride, head * q_head_stride, HEAD_DIM, BLOCK_D)
    row_max = tl.full([BLOCK_M], float("-inf"), tl.float32)
    row_sum = tl.zeros([BLOCK_M], tl.float32)
    acc = tl.zeros([BLOCK_M, BLOCK_D], tl.float32)
    stop = tl.max(end_key, 0)
    for start in range(tl.load(key_start + tl.program_id(0) * BLOCK_M), stop, BLOCK_N):
        offs_n = start + tl.arange(0, BLOCK_N)
        valid_n = offs_n < stop
        k_block = load_block(k, offs_n, valid_n, k_stride, (head // GROUP_SIZE) * k_head_stride, HEAD_DIM, BLOCK_D)
        scores = tl.dot(q_block, tl.trans(k_block)) * log2_scale
        attends = (offs_n[None, :] >= first_key[:, None]) & (offs_n[None, :] < end_key[:, None])
        scores = tl.where(attends, scores, float("-inf"))
        new_max = tl.maximum(row_max, tl.max(scores, 1))
        safe_max = tl.where(new_max == float("-inf"), 0.0, new_max)  # all keys masked so far
        weights = tl.exp2(scores - safe_max[:, None])
        rescale = tl.exp2(row_max - safe_max)
        v_block = load_block(v, offs_n, valid_n, v_stride, (head // GROUP_SIZE) * v_head_stride, HEAD_DIM, BLOCK_D)
        row_sum = row_sum * rescale + tl.sum(weights, 1)
        if DROPOUT:
            weights *= dropout_scale(seed, head, offs_m[:, None], offs_n[None, :], threshold, kept_scale, HEADS)
        acc = acc * rescale[:, None] + tl.dot(weights.to(v_block.dtype), v_block)
        row_max = new_max
    no_keys = row_sum == 0.0
    row_sum = tl.where(no_keys, 1.0, row_sum)
    store_block(acc / row_sum[:, None], output, offs_m, valid_m, HEADS * HEAD_DIM, head * HEAD_DIM, HEAD_DIM, BLOCK_D)
    tl.store(lse + head * query_count + offs_m, tl.where(no_keys, 0.0, row_max + tl.log2(row_sum)), mask=valid_m)


@jit
@no_type_check
def grad_q_kernel(
    grad_output, q, k, v, key_start, key_end, output, lse, delta, grad_q, log2_scale, scale, query_count,
    seed, threshold, kept_scale,
    grad_stride, grad_head_stride, q_stride, q_head_stride, k_stride, k_head_stride, v_stride, v_head_stride,
    HEADS: tl.constexpr, GROUP_SIZE: tl.constexpr, HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, DROPOUT: tl.constexpr,
):  # fmt: skip
    """grad_q of a block of queries; weights are recomputed from the forward pass's lse.

    delta is stored for the kernel of the keys: computed there, beside the matmuls, it may overwrite operands that the
    tensor cores still read (`linear_triton.row_statistics`).
    """
    head = tl.program_id(1)
    offs_m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    valid_m = offs_m < query_count
    first_key = tl.load(key_start + offs_m, mask=valid_m, other=0)
    end_key = tl.load(key_end + offs_m, mask=valid_m, other=0)
    q_block = load_block(q, offs_m, valid_m, q_stride, head * q_head_stride, HEAD_DIM, BLOCK_D)
    grad_block = load_block(grad_output, offs_m, valid_m, grad_stride, head * grad_head_stride, HEAD_DIM, BLOCK_D)
    output_block = load_block(output, offs_m, valid_m, HEADS * HEAD_DIM, head * HEAD_DIM, HEAD_DIM, BLOCK_D)
    row_delta = tl.sum(grad_block.to(tl.float32) * output_block.to(tl.float32), 1)
    tl.store(delta + head * query_count + offs_m, row_delta, mask=valid_m)
    row_lse = tl.load(lse + head * query_count + offs_m, mask=valid_m, other=0.0)
    grad_acc = tl.zeros([BLOCK_M, BLOCK_D], tl.float32)
    stop = tl.max(end_key, 0)
    for start in range(tl.load(key_start + tl.program_id(0) * BLOCK_M), stop, BLOCK_N):
        offs_n = start + tl.arange(0, BLOCK_N)
        valid_n = offs_n < stop
        k_block = load_block(k, offs_n, valid_n, k_stride, (head // GROUP_SIZE) * k_head_stride, HEAD_DIM, BLOCK_D)
        v_block = load_block(v, offs_n, valid_n, v_stride, (head // GROUP_SIZE) * v_head_stride, HEAD_DIM, BLOCK_D)
        attends = (offs_n[None, :] >= first_key[:, None]) & (offs_n[None, :] < end_key[:, None])
        scores = tl.dot(q_block, tl.trans(k_block)) * log2_scale - row_lse[:, None]
        weights = tl.exp2(tl.where(attends, scores, float("-inf")))
        grad_weights = tl.dot(grad_block, tl.trans(v_block))
        if DROPOUT:
            grad_weights *= dropout_scale(seed, head, offs_m[:, None], offs_n[None, :], threshold, kept_scale, HEADS)
        grad_scores = weights * (grad_weights - row_delta[:, None])
        grad_acc += tl.dot(grad_scores.to(k_block.dtype), k_block)
    store_block(grad_acc * scale, grad_q, offs_m, valid_m, HEADS * HEAD_DIM, head * HEAD_DIM, HEAD_DIM, BLOCK_D)


@jit
@no_type_check
def grad_kv_kernel(
    grad_output, q, k, v, query_start, query_end, delta, lse, grad_k, grad_v,
    log2_scale, scale, query_count, key_count, seed, threshold, kept_scale,
    grad_stride, grad_head_stride, q_stride, q_head_stride, k_stride, k_head_stride, v_stride, v_head_stride,
    HEADS: tl.constexpr, GROUP_SIZE: tl.constexpr, HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, DROPOUT: tl.constexpr,
):  # fmt: skip
    """Gradients of a block of keys and values: over all queries that attend to them, of all heads that share them."""
    kv_head = tl.program_id(1)
    offs_n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    valid_n = offs_n < key_count
    first_query = tl.load(query_start + offs_n, mask=valid_n, other=0)
    end_query = tl.load(query_end + offs_n, mask=valid_n, other=0)
    k_block = load_block(k, offs_n, valid_n, k_stride, kv_head * k_head_stride, HEAD_DIM, BLOCK_D)
    v_block = load_block(v, offs_n, valid_n, v_stride, kv_head * v_head_stride, HEAD_DIM, BLOCK_D)
    grad_k_acc = tl.zeros([BLOCK_N, BLOCK_D], tl.float32)
    grad_v_acc = tl.zeros([BLOCK_N, BLOCK_D], tl.float32)
    start, stop = tl.load(query_start + tl.program_id(0) * BLOCK_N), tl.max(end_query, 0)
    for head in range(kv_head * GROUP_SIZE, kv_head * GROUP_SIZE + GROUP_SIZE):
        for start_m in range(start, stop, BLOCK_M):
            offs_m = start_m + tl.arange(0, BLOCK_M)
            valid_m = offs_m < stop
            q_block = load_block(q, offs_m, valid_m, q_stride, head * q_head_stride, HEAD_DIM, BLOCK_D)
            grad_block = load_block(
                grad_output, offs_m, valid_m, grad_stride, head * grad_head_stride, HEAD_DIM, BLOCK_D
            )
            row_delta = tl.load(delta + head * query_count + offs_m, mask=valid_m, other=0.0)
            row_lse = tl.load(lse + head * query_count + offs_m, mask=valid_m, other=0.0)
            attends = (offs_m[None, :] >= first_query[:, None]) & (offs_m[None, :] < end_query[:, None])
            scores = tl.dot(k_block, tl.trans(q_block)) * log2_scale - row_lse[None, :]
            weights = tl.exp2(tl.where(attends, scores, float("-inf")))
            grad_weights = tl.dot(v_block, tl.trans(grad_block))
            dropped = weights
            if DROPOUT:
                factor = dropout_scale(seed, head, offs_m[None, :], offs_n[:, None], threshold, kept_scale, HEADS)
                dropped, grad_weights = weights * factor, grad_weights * factor
            grad_v_acc += tl.dot(dropped.to(grad_block.dtype), grad_block)
            grad_scores = weights * (grad_weights - row_delta[None, :])
            grad_k_acc += tl.dot(grad_scores.to(q_block.dtype), q_block)
    kv_heads = HEADS // GROUP_SIZE
    store_block(grad_k_acc * scale, grad_k, offs_n, valid_n, kv_heads * HEAD_DIM, kv_head * HEAD_DIM, HEAD_DIM, BLOCK_D)
    store_block(grad_v_acc, grad_v, offs_n, valid_n, kv_heads * HEAD_DIM, kv_head * HEAD_DIM, HEAD_DIM, BLOCK_D)


def key_range_forward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    key_start: Tensor,
    key_end: Tensor,
    scale: float,
    dropout: float,
    seed: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """Output, and log2-sum-exp of each query."""
    q, k, v = _last_contiguous(q, k, v)
    output = torch.empty(q.shape, device=q.device, dtype=q.dtype)
    lse = torch.empty(q.shape[1], len(q), device=q.device, dtype=torch.float32)
    if len(q):
        strides = [stride for x in (q, k, v) for stride in x.stride()[:2]]
        forward_kernel[(triton.cdiv(len(q), FORWARD.block_m), q.shape[1])](
            q, k, v, key_start, key_end, output, lse, scale * LOG2_E, len(q),
            *_dropout_arguments(key_start, dropout, seed), *strides, **_constants(q, k, FORWARD, seed),
        )  # fmt: skip
    return output, lse


def key_range_backward(
    grad_output: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    ranges: tuple[Tensor, Tensor, Tensor, Tensor],
    scale: float,
    dropout: float,
    seed: Tensor | None,
    output: Tensor,
    lse: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    grad_output, q, k, v = _last_contiguous(grad_output, q, k, v)
    grad_q, grad_k, grad_v = (torch.empty(x.shape, device=x.device, dtype=x.dtype) for x in (q, k, v))
    delta = torch.empty_like(lse)
    key_start, key_end, query_start, query_end = ranges
    strides = [stride for x in (grad_output, q, k, v) for stride in x.stride()[:2]]
    arguments = [*_dropout_arguments(key_start, dropout, seed), *strides]
    if len(q):
        grad_q_kernel[(triton.cdiv(len(q), GRAD_Q.block_m), q.shape[1])](
            grad_output, q, k, v, key_start, key_end, output, lse, delta, grad_q,
            scale * LOG2_E, scale, len(q), *arguments, **_constants(q, k, GRAD_Q, seed),
        )  # fmt: skip
    if len(k):
        grad_kv_kernel[(triton.cdiv(len(k), GRAD_KV.block_n), k.shape[1])](
            grad_output, q, k, v, query_start, query_end, delta, lse, grad_k, grad_v,
            scale * LOG2_E, scale, len(q), len(k), *arguments, **_constants(q, k, GRAD_KV, seed),
        )  # fmt: skip
    return grad_q, grad_k, grad_v


def _last_contiguous(*tensors: Tensor) -> list[Tensor]:
    """The kernels take any strides but the last, which must be 1."""
    return [x if x.stride(2) == 1 else x.contiguous() for x in tensors]


def _dropout_arguments(placeholder: Tensor, dropout: float, seed: Tensor | None) -> tuple[Tensor, int, float]:
    """Seed (any tensor where there is no dropout), threshold, and the factor of weights that are kept."""
    return placeholder if seed is None else seed, dropout_threshold(dropout), 1 / (1 - dropout)


def _constants(q: Tensor, k: Tensor, launch: Launch, seed: Tensor | None) -> dict[str, int]:
    _, heads, head_width = q.shape
    return {
        "HEADS": heads,
        "GROUP_SIZE": heads // k.shape[1],
        "HEAD_DIM": head_width,
        "BLOCK_D": max(16, triton.next_power_of_2(head_width)),
        "BLOCK_M": launch.block_m,
        "BLOCK_N": launch.block_n,
        "DROPOUT": seed is not None,
        "num_warps": launch.warps,
        "num_stages": launch.stages,
    }
