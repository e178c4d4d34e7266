"""The GPU kernels of `linear.py`: each program reads some rows of the weight once, for all tokens.

The weight does not depend on the kernels before. So where the device allows it, a program starts while these still run,
prefetches its rows of the weight, and only then waits for its input.
"""

from typing import Any, NamedTuple, no_type_check

import torch
import triton  # pyright: ignore[reportMissingImports]
import triton.language as tl  # pyright: ignore[reportMissingImports]
from torch import Tensor

from regard.nn.fast.linear import PART
from regard.nn.fast.triton_common import jit, overlap_options, prefetch, shared_memory


class Launch(NamedTuple):
    """Block sizes and launch options."""

    block_m: int
    block_n: int
    block_k: int
    warps: int = 4
    stages: int = 4


def choose_launch(m: int, k: int, n: int, itemsize: int = 2, gated: bool = False) -> Launch:
    """Block sizes that give every multiprocessor some rows of the weight to read."""
    padded = triton.next_power_of_2(m)
    if m == 1:
        block_k = triton.next_power_of_2(k)
        block_n = 8 if n > 16384 or block_k > 2048 else 4
        most = 65536 // (itemsize * (1 + gated))  # elements of each weight that a program's registers can hold
        return Launch(1, max(1, min(block_n, most // block_k)), block_k)
    block_m = max(16, min(padded, 64))
    if n > 16384:
        return Launch(block_m, 128, 64, stages=3)
    if n > 1024 and block_m == 64:
        return Launch(block_m, 32, 512 // itemsize, stages=3)
    if n > 1024:
        return Launch(block_m, 32 if n < 3072 else 16, 256 // itemsize)
    return Launch(block_m, 16, 512 // itemsize, stages=3)


def fit_shared_memory(launch: Launch, itemsize: int, gated: bool, limit: int) -> Launch:
    """The launch with as many stages as fit into `limit` bytes, and with a smaller block_k if one stage does not."""

    def needed() -> int:
        return (launch.block_m + launch.block_n * (1 + gated)) * launch.block_k * itemsize * launch.stages

    while needed() > limit and launch.stages > 1:
        launch = launch._replace(stages=launch.stages - 1)
    while needed() > limit and launch.block_k > 16:
        launch = launch._replace(block_k=launch.block_k // 2)
    return launch


@jit
@no_type_check
def activate(x, KIND: tl.constexpr):
    """As `nn.feedforward.activate`, in float32."""
    if KIND == "relu":
        x = tl.where(x < 0.0, 0.0, x)  # NaN stays NaN
    elif KIND == "gelu":
        x = 0.5 * x * (1.0 + tl.erf(x * 0.7071067811865476))
    elif KIND == "gelu-tanh":
        inner = 0.7978845608028654 * (x + 0.044715 * x * x * x)
        x = x * tl.sigmoid(2.0 * inner)  # (1 + tanh z)/2 = σ(2z)
    elif KIND == "silu":
        x = x * tl.sigmoid(x)
    elif KIND == "tanh":
        x = 2.0 * tl.sigmoid(2.0 * x) - 1.0
    return x


@jit
@no_type_check
def one_row_kernel(
    x, weight, weight_sums, offset, residual, output, epsilon,
    N: tl.constexpr, K: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    NORM: tl.constexpr, HAS_OFFSET: tl.constexpr, ACTIVATION: tl.constexpr, GATED: tl.constexpr,
    HAS_RESIDUAL: tl.constexpr, OVERLAP: tl.constexpr,
):  # fmt: skip
    """One row: dot products as sums, since tensor cores take sixteen rows at least."""
    offs_n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K)
    valid_n, valid_k = offs_n < N, offs_k < K
    valid = valid_n[:, None] & valid_k[None, :]
    offsets = offs_n.to(tl.int64)[:, None] * K + offs_k[None, :]
    w_block = tl.load(weight + offsets, mask=valid, other=0.0)
    if GATED:
        up_block = tl.load(weight + N * K + offsets, mask=valid, other=0.0)
    weight_sum, bias = load_epilogue(weight_sums, offset, offs_n, valid_n, NORM, HAS_OFFSET)
    if OVERLAP:
        tl.extra.cuda.gdc_launch_dependents()
        tl.extra.cuda.gdc_wait()

    x_row = tl.load(x + offs_k[None, :], mask=valid_k[None, :], other=0.0).to(tl.float32)
    mean = tl.sum(x_row) / K if NORM == "layer" else 0.0
    inv_std = 1.0
    if NORM != "none":
        centred = tl.where(valid_k[None, :], x_row - mean, 0.0)
        inv_std = 1.0 / tl.sqrt(tl.sum(centred * centred) / K + epsilon)
    acc = tl.sum(x_row * w_block.to(tl.float32), 1)
    acc = (acc - mean * weight_sum) * inv_std + bias
    if GATED:
        up_acc = tl.sum(x_row * up_block.to(tl.float32), 1)
        weight_sum, bias = load_epilogue(weight_sums, offset, N + offs_n, valid_n, NORM, HAS_OFFSET)
        up_acc = (up_acc - mean * weight_sum) * inv_std + bias
        acc = activate(acc, ACTIVATION) * up_acc
    else:
        acc = activate(acc, ACTIVATION)
    if HAS_RESIDUAL:
        acc += tl.load(residual + offs_n, mask=valid_n, other=0.0).to(tl.float32)
    tl.store(output + offs_n, acc.to(output.dtype.element_ty), mask=valid_n)


@jit
@no_type_check
def rows_kernel(
    x, weight, weight_sums, offset, residual, output, statistics, new_statistics, epsilon,
    m, x_stride, residual_stride,
    N: tl.constexpr, K: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    LINES: tl.constexpr, LINE: tl.constexpr, PARTS: tl.constexpr, BLOCK_PARTS: tl.constexpr,
    STORE_STATISTICS: tl.constexpr, PART: tl.constexpr,
    NORM: tl.constexpr, HAS_OFFSET: tl.constexpr, ACTIVATION: tl.constexpr, GATED: tl.constexpr,
    HAS_RESIDUAL: tl.constexpr, OVERLAP: tl.constexpr,
):  # fmt: skip
    """Several rows on the tensor cores; on request, the row statistics of the output for the norm that follows."""
    offs_n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_m = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_k = tl.arange(0, BLOCK_K)
    valid_m, valid_n = offs_m < m, offs_n < N
    weight_rows = weight + offs_n.to(tl.int64)[:, None] * K
    x_rows = x + offs_m[:, None] * x_stride
    weight_sum, bias = load_epilogue(weight_sums, offset, offs_n, valid_n, NORM, HAS_OFFSET)
    if OVERLAP:
        prefetch_weight(weight, offs_n, N, K, LINES, LINE, GATED)
    if PARTS and NORM != "none":
        sums, squares = load_statistics(statistics, m, offs_m, valid_m, PARTS, BLOCK_PARTS)
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    up_acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for start in range(0, K, BLOCK_K):
        valid_k = (start + offs_k < K)[None, :]
        x_block = tl.load(x_rows + (start + offs_k)[None, :], mask=valid_m[:, None] & valid_k, other=0.0)
        w_block = tl.load(weight_rows + (start + offs_k)[None, :], mask=valid_n[:, None] & valid_k, other=0.0)
        acc = tl.dot(x_block, tl.trans(w_block), acc, input_precision="ieee")
        if GATED:
            up_block = tl.load(
                weight_rows + N * K + (start + offs_k)[None, :], mask=valid_n[:, None] & valid_k, other=0.0
            )
            up_acc = tl.dot(x_block, tl.trans(up_block), up_acc, input_precision="ieee")

    mean, inv_std = 0.0, 1.0
    if NORM != "none":
        if not PARTS:
            sums, squares = row_statistics(x_rows, valid_m, K, BLOCK_M, BLOCK_K)
        mean = (tl.sum(sums, 0) / K)[:, None] if NORM == "layer" else 0.0
        inv_std = 1.0 / tl.sqrt(tl.maximum(tl.sum(squares, 0)[:, None] / K - mean * mean, 0.0) + epsilon)
    acc = (acc - mean * weight_sum[None, :]) * inv_std + bias[None, :]
    if GATED:
        weight_sum, bias = load_epilogue(weight_sums, offset, N + offs_n, valid_n, NORM, HAS_OFFSET)
        up_acc = (up_acc - mean * weight_sum[None, :]) * inv_std + bias[None, :]
        acc = activate(acc, ACTIVATION) * up_acc
    else:
        acc = activate(acc, ACTIVATION)
    valid = valid_m[:, None] & valid_n[None, :]
    if HAS_RESIDUAL:
        acc += tl.load(residual + offs_m[:, None] * residual_stride + offs_n[None, :], mask=valid, other=0.0).to(
            tl.float32
        )
    y = acc.to(output.dtype.element_ty)
    tl.store(output + offs_m[:, None] * N + offs_n[None, :], y, mask=valid)
    if STORE_STATISTICS:
        write_statistics(
            new_statistics, tl.where(valid, y.to(tl.float32), 0.0), m, offs_m, valid_m, N, BLOCK_M, BLOCK_N, PART
        )


@jit
@no_type_check
def write_statistics(
    new_statistics, y, m, offs_m, valid_m,
    N: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, PART: tl.constexpr,
):  # fmt: skip
    """Stores the sums of the output's elements and of their squares, part by part, for the norm that follows."""
    own_parts: tl.constexpr = BLOCK_N // PART
    parts: tl.constexpr = (N + PART - 1) // PART
    y = tl.reshape(y, [BLOCK_M, own_parts, PART])
    part = tl.program_id(0) * own_parts + tl.arange(0, own_parts)
    offsets, valid = part[None, :] * m + offs_m[:, None], valid_m[:, None] & (part < parts)[None, :]
    tl.store(new_statistics + offsets, tl.sum(y, 2), mask=valid)
    tl.store(new_statistics + parts * m + offsets, tl.sum(y * y, 2), mask=valid)


@jit
@no_type_check
def load_statistics(statistics, m, offs_m, valid_m, PARTS: tl.constexpr, BLOCK_PARTS: tl.constexpr):
    """The partial sums that `write_statistics` stored; these loads overlap with the matmul."""
    part = tl.arange(0, BLOCK_PARTS)[:, None]
    offsets, valid = part * m + offs_m[None, :], (part < PARTS) & valid_m[None, :]
    sums = tl.load(statistics + offsets, mask=valid, other=0.0)
    return sums, tl.load(statistics + PARTS * m + offsets, mask=valid, other=0.0)


@jit
@no_type_check
def row_statistics(x_rows, valid_m, K: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_K: tl.constexpr):
    """Sum of each row and of its squares.

    A loop of its own: inside the matmul's loop, operands that the tensor cores still read are overwritten (Triton 3.6).
    """
    offs_k = tl.arange(0, BLOCK_K)
    sums, squares = tl.zeros([BLOCK_M], tl.float32), tl.zeros([BLOCK_M], tl.float32)
    for start in range(0, K, BLOCK_K):
        valid_k = (start + offs_k < K)[None, :]
        x_block = tl.load(x_rows + (start + offs_k)[None, :], mask=valid_m[:, None] & valid_k, other=0.0).to(tl.float32)
        sums += tl.sum(x_block, 1)
        squares += tl.sum(x_block * x_block, 1)
    return sums[None, :], squares[None, :]


@jit
@no_type_check
def load_epilogue(weight_sums, offset, offs_n, valid_n, NORM: tl.constexpr, HAS_OFFSET: tl.constexpr):
    """V1 and c of `linear.py`; zero where there is none."""
    weight_sum = tl.zeros(offs_n.shape, tl.float32)
    bias = tl.zeros(offs_n.shape, tl.float32)
    if NORM == "layer":
        weight_sum = tl.load(weight_sums + offs_n, mask=valid_n, other=0.0)
    if HAS_OFFSET:
        bias = tl.load(offset + offs_n, mask=valid_n, other=0.0).to(tl.float32)
    return weight_sum, bias


@jit
@no_type_check
def prefetch_weight(
    weight, offs_n,
    N: tl.constexpr, K: tl.constexpr, LINES: tl.constexpr, LINE: tl.constexpr, GATED: tl.constexpr,
):  # fmt: skip
    """Prefetches the program's block of the weight, then waits for the kernel that writes x."""
    tl.extra.cuda.gdc_launch_dependents()
    offs_line = tl.minimum(tl.arange(0, LINES) * LINE, K - 1)
    pointers = weight + tl.minimum(offs_n, N - 1).to(tl.int64)[:, None] * K + offs_line[None, :]
    prefetch(pointers)
    if GATED:
        prefetch(pointers + N * K)
    tl.extra.cuda.gdc_wait()


def fused_norm_linear(
    x: Tensor,
    weight: Tensor,
    weight_sums: Tensor | None,
    offset: Tensor | None,
    norm: str,
    epsilon: float,
    activation: str,
    gated: bool,
    residual: Tensor | None,
    statistics: Tensor | None = None,
    store_statistics: bool = False,
) -> tuple[Tensor, Tensor]:
    """Launches the kernel for so many rows; for a single one, statistics are faster to recompute than to load."""
    m, k = x.shape
    n = len(weight) // 2 if gated else len(weight)
    assert weight.is_contiguous()
    x = x if x.stride(1) == 1 else x.contiguous()
    residual = residual if residual is None or residual.stride(1) == 1 else residual.contiguous()
    output = torch.empty(m, n, device=x.device, dtype=x.dtype)
    itemsize = x.element_size()
    launch = choose_launch(m, k, n, itemsize, gated)
    launch = fit_shared_memory(launch, itemsize, gated, shared_memory(x.device))
    tensors = (x, weight, *(x if tensor is None else tensor for tensor in (weight_sums, offset, residual)), output)
    constants: dict[str, Any] = {
        "N": n,
        "K": k,
        "BLOCK_N": launch.block_n,
        "BLOCK_K": launch.block_k,
        "NORM": norm,
        "HAS_OFFSET": offset is not None,
        "ACTIVATION": activation,
        "GATED": gated,
        "HAS_RESIDUAL": residual is not None,
        "num_warps": launch.warps,
        **overlap_options(x.device),
    }
    programs = triton.cdiv(n, launch.block_n)
    new_parts = triton.cdiv(n, PART) if store_statistics and m > 1 else 0
    new_statistics = x.new_empty(2, new_parts, m, dtype=torch.float32)
    if m == 1:
        one_row_kernel[(programs,)](*tensors, epsilon, **constants)
        return output, new_statistics
    line = 128 // itemsize
    parts = 0 if statistics is None else statistics.shape[1]
    rows_kernel[(programs, triton.cdiv(m, launch.block_m))](
        *tensors,
        new_statistics if statistics is None else statistics,
        new_statistics,
        epsilon,
        m,
        x.stride(0),
        0 if residual is None else residual.stride(0),
        BLOCK_M=launch.block_m,
        LINES=triton.next_power_of_2(triton.cdiv(k, line)),
        LINE=line,
        PARTS=parts,
        BLOCK_PARTS=triton.next_power_of_2(max(1, parts)),
        STORE_STATISTICS=store_statistics,
        PART=PART,
        num_stages=launch.stages,
        **constants,
    )
    return output, new_statistics
