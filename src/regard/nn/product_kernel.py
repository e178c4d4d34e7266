"""The kernel behind `product.py` on a GPU: each program reads some rows of the matrix, once, for all tokens."""

from typing import no_type_check

import torch
import triton  # pyright: ignore[reportMissingImports]
import triton.language as tl  # pyright: ignore[reportMissingImports]
from torch import Tensor


@triton.jit
@no_type_check
def bend(x, KIND: tl.constexpr):  # noqa: ANN001, ANN201, N803
    """The non-linearity of that name, in float32."""
    if KIND == "relu":
        x = tl.maximum(x, 0.0)
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


@triton.jit
@no_type_check
def product_kernel(  # noqa: ANN201
    x, weight, bias, gain, shift, added, output,  # noqa: ANN001
    rows, epsilon, x_step, added_step,  # noqa: ANN001
    ALL: tl.constexpr, WIDTH: tl.constexpr,  # noqa: N803
    ROWS: tl.constexpr, OUTPUTS: tl.constexpr, COLUMNS: tl.constexpr,  # noqa: N803
    NORM: tl.constexpr, GAIN: tl.constexpr, SHIFT: tl.constexpr, BIAS: tl.constexpr,  # noqa: N803
    BEND: tl.constexpr, GATED: tl.constexpr, ADDS: tl.constexpr,  # noqa: N803
):  # fmt: skip
    """f(norm(x) Wᵀ + b) + added, for OUTPUTS rows of W; every program computes the norm of all tokens for itself."""
    row = tl.arange(0, ROWS)
    place = tl.program_id(0) * OUTPUTS + tl.arange(0, OUTPUTS)
    column = tl.arange(0, COLUMNS)
    here, wanted = row < rows, place < ALL
    tokens = x + row[:, None] * x_step

    centre = tl.zeros([ROWS], tl.float32)
    scale = tl.full([ROWS], 1.0, tl.float32)
    if NORM == "layer":
        for start in range(0, WIDTH, COLUMNS):
            inside = here[:, None] & (start + column < WIDTH)[None, :]
            centre += tl.sum(tl.load(tokens + (start + column)[None, :], mask=inside, other=0.0).to(tl.float32), 1)
        centre = centre / WIDTH
    if NORM != "none":
        squares = tl.zeros([ROWS], tl.float32)
        for start in range(0, WIDTH, COLUMNS):
            inside = here[:, None] & (start + column < WIDTH)[None, :]
            part = tl.load(tokens + (start + column)[None, :], mask=inside, other=0.0).to(tl.float32)
            part = tl.where(inside, part - centre[:, None], 0.0)
            squares += tl.sum(part * part, 1)
        scale = 1.0 / tl.sqrt(squares / WIDTH + epsilon)

    total = tl.zeros([ROWS, OUTPUTS], tl.float32)
    gates = tl.zeros([ROWS, OUTPUTS], tl.float32)
    for start in range(0, WIDTH, COLUMNS):
        at = start + column
        known = at < WIDTH
        part = tl.load(tokens + at[None, :], mask=here[:, None] & known[None, :], other=0.0)
        if NORM != "none":
            normed = (part.to(tl.float32) - centre[:, None]) * scale[:, None]
            if GAIN:
                normed *= tl.load(gain + at, mask=known, other=0.0).to(tl.float32)[None, :]
            if SHIFT:
                normed += tl.load(shift + at, mask=known, other=0.0).to(tl.float32)[None, :]
            part = normed.to(part.dtype)
        whole = wanted[:, None] & known[None, :]
        matrix = weight + place.to(tl.int64)[:, None] * WIDTH + at[None, :]
        if GATED:
            opening = tl.load(matrix, mask=whole, other=0.0)
            passing = tl.load(matrix + ALL * WIDTH, mask=whole, other=0.0)
            gates = multiplied(part, opening, gates, ROWS)
            total = multiplied(part, passing, total, ROWS)
        else:
            total = multiplied(part, tl.load(matrix, mask=whole, other=0.0), total, ROWS)

    if BIAS:
        total += tl.load(bias + place + (ALL if GATED else 0), mask=wanted, other=0.0).to(tl.float32)[None, :]
    if GATED:
        if BIAS:
            gates += tl.load(bias + place, mask=wanted, other=0.0).to(tl.float32)[None, :]
        total = bend(gates, BEND) * total
    else:
        total = bend(total, BEND)
    kept = here[:, None] & wanted[None, :]
    if ADDS:
        total += tl.load(added + row[:, None] * added_step + place[None, :], mask=kept, other=0.0).to(tl.float32)
    tl.store(output + row[:, None] * ALL + place[None, :], total.to(output.dtype.element_ty), mask=kept)


@triton.jit
@no_type_check
def multiplied(part, matrix, total, ROWS: tl.constexpr):  # noqa: ANN001, ANN201, N803
    """total + part · matrixᵀ; for a single token as a sum, since matrix units take sixteen at least."""
    if ROWS == 1:
        total += tl.sum(part.to(tl.float32) * matrix.to(tl.float32), 1)[None, :]
    else:
        total = tl.dot(part, tl.trans(matrix), total, input_precision="ieee")
    return total


def product(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    norm: str,
    gain: Tensor | None,
    shift: Tensor | None,
    epsilon: float,
    activation: str,
    gated: bool,
    added: Tensor | None,
) -> Tensor:
    """Launches the kernel."""
    rows, width = x.shape
    outputs = len(weight) // 2 if gated else len(weight)
    assert weight.is_contiguous() and weight.shape[1] == width
    x = x if x.stride(1) == 1 else x.contiguous()
    added = added if added is None or added.stride(1) == 1 else added.contiguous()
    output = torch.empty(rows, outputs, device=x.device, dtype=x.dtype)
    single = rows == 1
    each = 4 if single else 16
    product_kernel[(triton.cdiv(outputs, each),)](  # pyright: ignore[reportIndexIssue]
        x,
        weight,
        *(x if part is None else part for part in (bias, gain, shift, added)),
        output,
        rows,
        epsilon,
        x.stride(0),
        0 if added is None else added.stride(0),
        ALL=outputs,
        WIDTH=width,
        ROWS=1 if single else max(16, triton.next_power_of_2(rows)),
        OUTPUTS=each,
        COLUMNS=1024 if single else 128,
        NORM=norm,
        GAIN=gain is not None,
        SHIFT=shift is not None,
        BIAS=bias is not None,
        BEND=activation,
        GATED=gated,
        ADDS=added is not None,
        num_warps=4,
    )
    return output
