"""The GPU kernel of `decode.py`: a program for each row and head reads the filled part of the cache once."""

from typing import no_type_check

import torch
import triton  # pyright: ignore[reportMissingImports]
import triton.language as tl  # pyright: ignore[reportMissingImports]
from torch import Tensor

from regard.nn.fast.triton_common import jit, multiprocessors, overlap_options, prefetch

MANY_PROGRAMS, FEW_PROGRAMS = (4096, 2), (16384, 16)
"""Elements of a block of keys and the warps of a program, where programs fill the device, and where they do not."""


@jit
@no_type_check
def decode_kernel(
    q, k, v, k_cache, v_cache, lengths, cache_rows, bias, output,
    scale, q_stride, q_head_stride, k_stride, k_head_stride, cache_stride, cache_head_stride,
    bias_stride, bias_head_stride,
    GROUP_SIZE: tl.constexpr, HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_N: tl.constexpr,
    APPEND: tl.constexpr, HAS_BIAS: tl.constexpr, OVERLAP: tl.constexpr,
):  # fmt: skip
    """softmax(q·kᵀ·scale + bias) v over the first `length` keys, block by block with a running maximum.

    With APPEND, the new k and v are stored at index `length` and used from registers: no program reads what another
    one writes.
    """
    row, head = tl.program_id(0).to(tl.int64), tl.program_id(1)
    kv_head = head // GROUP_SIZE
    if OVERLAP:
        tl.extra.cuda.gdc_launch_dependents()
        if APPEND:
            ahead = (
                row * cache_stride
                + kv_head * cache_head_stride
                + tl.minimum(tl.arange(0, BLOCK_N) * HEAD_DIM, cache_head_stride - 1)
            )
            prefetch(k_cache + ahead)
            prefetch(v_cache + ahead)
        tl.extra.cuda.gdc_wait()
    cache_row = row
    if not APPEND:
        cache_row = tl.load(cache_rows + row).to(tl.int64)
    length = tl.load(lengths + cache_row).to(tl.int32)
    offs_d = tl.arange(0, BLOCK_D)
    valid_d = offs_d < HEAD_DIM
    q_row = tl.load(q + row * q_stride + head * q_head_stride + offs_d, mask=valid_d, other=0.0).to(tl.float32) * scale
    base = cache_row * cache_stride + kv_head * cache_head_stride
    row_max = tl.full([], float("-inf"), tl.float32)
    row_sum = tl.full([], 0.0, tl.float32)
    acc = tl.zeros([BLOCK_D], tl.float32)
    if APPEND:
        k_new = tl.load(k + row * k_stride + kv_head * k_head_stride + offs_d, mask=valid_d, other=0.0)
        v_new = tl.load(v + row * k_stride + kv_head * k_head_stride + offs_d, mask=valid_d, other=0.0)
        tl.store(k_cache + base + length * HEAD_DIM + offs_d, k_new, mask=valid_d)
        tl.store(v_cache + base + length * HEAD_DIM + offs_d, v_new, mask=valid_d)
        row_max = tl.sum(q_row * k_new.to(tl.float32), 0)
        if HAS_BIAS:
            row_max += tl.load(bias + row * bias_stride + head * bias_head_stride + length).to(tl.float32)
        row_sum += 1.0
        acc += v_new.to(tl.float32)
    for start in range(0, length, BLOCK_N):
        offs_n = start + tl.arange(0, BLOCK_N)
        valid_n = offs_n < length
        at = base + offs_n[:, None] * HEAD_DIM + offs_d[None, :]
        valid = valid_n[:, None] & valid_d[None, :]
        k_block = tl.load(k_cache + at, mask=valid, other=0.0).to(tl.float32)
        v_block = tl.load(v_cache + at, mask=valid, other=0.0).to(tl.float32)
        scores = tl.sum(q_row[None, :] * k_block, 1)
        if HAS_BIAS:
            scores += tl.load(bias + row * bias_stride + head * bias_head_stride + offs_n, mask=valid_n, other=0.0).to(
                tl.float32
            )
        scores = tl.where(valid_n, scores, float("-inf"))
        new_max = tl.maximum(row_max, tl.max(scores, 0))
        rescale = tl.exp(row_max - new_max)
        weights = tl.exp(scores - new_max)
        row_sum = row_sum * rescale + tl.sum(weights, 0)
        acc = acc * rescale + tl.sum(weights[:, None] * v_block, 0)
        row_max = new_max
    pointers = output + (row * tl.num_programs(1) + head) * HEAD_DIM + offs_d
    tl.store(pointers, (acc / row_sum).to(output.dtype.element_ty), mask=valid_d)


def decode_attention(
    q: Tensor,
    k: Tensor | None,
    v: Tensor | None,
    k_cache: Tensor,
    v_cache: Tensor,
    lengths: Tensor,
    cache_rows: Tensor | None,
    bias: Tensor | None,
    scale: float,
) -> Tensor:
    """Launches the kernel: k and v, if any, are appended; row i reads row cache_rows[i] of the cache, if given."""
    rows, heads, head_width = q.shape
    q = q if q.stride(2) == 1 else q.contiguous()
    output = torch.empty(rows, heads, head_width, device=q.device, dtype=q.dtype)
    k, v = _same_strides(k, v)
    block_d = triton.next_power_of_2(head_width)
    block_size, warps = FEW_PROGRAMS if rows * heads < multiprocessors(q.device) else MANY_PROGRAMS
    decode_kernel[(rows, heads)](
        q,
        q if k is None else k,
        q if v is None else v,
        k_cache,
        v_cache,
        lengths,
        lengths if cache_rows is None else cache_rows,
        q if bias is None else bias,
        output,
        scale,
        *q.stride()[:2],
        *((0, 0) if k is None else k.stride()[:2]),
        *k_cache.stride()[:2],
        *((0, 0) if bias is None else bias.stride()[:2]),
        GROUP_SIZE=heads // k_cache.shape[1],
        HEAD_DIM=head_width,
        BLOCK_D=block_d,
        BLOCK_N=max(16, block_size // block_d),
        APPEND=k is not None,
        HAS_BIAS=bias is not None,
        num_warps=warps,
        **overlap_options(q.device),
    )
    return output


def _same_strides(k: Tensor | None, v: Tensor | None) -> tuple[Tensor | None, Tensor | None]:
    """The kernel takes one set of strides for both, the last of which must be 1."""
    if k is None or v is None or (k.stride() == v.stride() and k.stride(2) == 1):
        return k, v
    return k.contiguous(), v.contiguous()
