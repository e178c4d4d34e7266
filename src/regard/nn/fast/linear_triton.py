"""The kernels behind `product.py` on a GPU: each program reads some rows of the matrix, once, for all tokens.

What a program needs of the matrix does not depend on the kernels before it. So where the device allows it, a program
begins while these still run, asks for its part of the matrix, and waits for its tokens only then.
"""

from functools import cache
from typing import Any, NamedTuple, no_type_check

import torch
import triton  # pyright: ignore[reportMissingImports]
import triton.language as tl  # pyright: ignore[reportMissingImports]
from torch import Tensor

from regard.nn.fast.linear import PART
from regard.nn.fast.triton_jit import jit

EARLY = True
"""Whether kernels begin before those ahead of them have ended, on devices that can."""


class Tile(NamedTuple):
    """What one program computes, and with how many threads."""

    rows: int
    outputs: int
    columns: int
    """Numbers of a token that it reads at a time."""
    warps: int = 4
    stages: int = 4
    """Readings that are under way at a time."""


def tile(rows: int, width: int, outputs: int, size: int = 2, gated: bool = False) -> Tile:
    """A tile that gives every multiprocessor something to read, for numbers of so many bytes."""
    padded = triton.next_power_of_2(rows)
    if rows == 1:
        columns = triton.next_power_of_2(width)
        several = 8 if outputs > 16384 or columns > 2048 else 4
        held = 65536 // (size * (1 + gated))  # numbers of each matrix that a program's threads can hold
        return Tile(1, max(1, min(several, held // columns)), columns)
    few = max(16, min(padded, 64))
    if outputs > 16384:
        return Tile(few, 128, 64, stages=3)
    if outputs > 1024 and few == 64:
        return Tile(few, 32, 512 // size, stages=3)
    if outputs > 1024:
        return Tile(few, 32 if outputs < 3072 else 16, 256 // size)
    return Tile(few, 16, 512 // size, stages=3)


def fitting(one: Tile, size: int, gated: bool, room: int) -> Tile:
    """The tile with as many readings under way as fast memory has room for (bytes), smaller if one is too much."""

    def needed() -> int:
        return (one.rows + one.outputs * (1 + gated)) * one.columns * size * one.stages

    while needed() > room and one.stages > 1:
        one = one._replace(stages=one.stages - 1)
    while needed() > room and one.columns > 16:
        one = one._replace(columns=one.columns // 2)
    return one


@jit
@no_type_check
def bend(x, KIND: tl.constexpr):  # noqa: ANN001, ANN201, N803
    """The non-linearity of that name, in float32."""
    if KIND == "relu":
        x = tl.where(x < 0.0, 0.0, x)  # what is no number stays none
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
def one_row_kernel(  # noqa: ANN201
    x, weight, sums, offset, added, output, epsilon,  # noqa: ANN001
    ALL: tl.constexpr, WIDTH: tl.constexpr, OUTPUTS: tl.constexpr, COLUMNS: tl.constexpr,  # noqa: N803
    NORM: tl.constexpr, OFFSET: tl.constexpr, BEND: tl.constexpr, GATED: tl.constexpr, ADDS: tl.constexpr,  # noqa: N803
    EARLY: tl.constexpr,  # noqa: N803
):  # fmt: skip
    """A single token: products are sums, since matrix units take sixteen tokens at least."""
    place = tl.program_id(0) * OUTPUTS + tl.arange(0, OUTPUTS)
    column = tl.arange(0, COLUMNS)
    wanted, known = place < ALL, column < WIDTH
    whole = wanted[:, None] & known[None, :]
    at = place.to(tl.int64)[:, None] * WIDTH + column[None, :]
    matrix = tl.load(weight + at, mask=whole, other=0.0)
    if GATED:
        passing = tl.load(weight + ALL * WIDTH + at, mask=whole, other=0.0)
    sum_of, constant = around(sums, offset, place, wanted, NORM, OFFSET)
    if EARLY:
        tl.extra.cuda.gdc_launch_dependents()
        tl.extra.cuda.gdc_wait()

    token = tl.load(x + column[None, :], mask=known[None, :], other=0.0).to(tl.float32)
    mean = tl.sum(token) / WIDTH if NORM == "layer" else 0.0
    scale = 1.0
    if NORM != "none":
        centred = tl.where(known[None, :], token - mean, 0.0)
        scale = 1.0 / tl.sqrt(tl.sum(centred * centred) / WIDTH + epsilon)
    total = tl.sum(token * matrix.to(tl.float32), 1)
    total = (total - mean * sum_of) * scale + constant
    if GATED:
        through = tl.sum(token * passing.to(tl.float32), 1)
        sum_of, constant = around(sums, offset, ALL + place, wanted, NORM, OFFSET)
        through = (through - mean * sum_of) * scale + constant
        total = bend(total, BEND) * through
    else:
        total = bend(total, BEND)
    if ADDS:
        total += tl.load(added + place, mask=wanted, other=0.0).to(tl.float32)
    tl.store(output + place, total.to(output.dtype.element_ty), mask=wanted)


@jit
@no_type_check
def rows_kernel(  # noqa: ANN201
    x, weight, sums, offset, added, output, moments, found, epsilon, rows, x_step, added_step,  # noqa: ANN001
    ALL: tl.constexpr, WIDTH: tl.constexpr, ROWS: tl.constexpr, OUTPUTS: tl.constexpr, COLUMNS: tl.constexpr,  # noqa: N803
    LINES: tl.constexpr, LINE: tl.constexpr, PARTS: tl.constexpr, PADDED: tl.constexpr, TELLS: tl.constexpr,  # noqa: N803
    PART: tl.constexpr,  # noqa: N803
    NORM: tl.constexpr, OFFSET: tl.constexpr, BEND: tl.constexpr, GATED: tl.constexpr, ADDS: tl.constexpr,  # noqa: N803
    EARLY: tl.constexpr,  # noqa: N803
):  # fmt: skip
    """Several tokens by the matrix units, and on request the sums of what is written, for the norm after it."""
    place = tl.program_id(0) * OUTPUTS + tl.arange(0, OUTPUTS)
    row = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, COLUMNS)
    here, wanted = row < rows, place < ALL
    own = weight + place.to(tl.int64)[:, None] * WIDTH
    tokens = x + row[:, None] * x_step
    sum_of, constant = around(sums, offset, place, wanted, NORM, OFFSET)
    if EARLY:
        fetch_matrix(weight, place, ALL, WIDTH, LINES, LINE, GATED)
    if PARTS and NORM != "none":
        numbers, squares = told(moments, rows, row, here, PARTS, PADDED)
    total = tl.zeros([ROWS, OUTPUTS], tl.float32)
    through = tl.zeros([ROWS, OUTPUTS], tl.float32)
    for start in range(0, WIDTH, COLUMNS):
        known = (start + column < WIDTH)[None, :]
        part = tl.load(tokens + (start + column)[None, :], mask=here[:, None] & known, other=0.0)
        matrix = tl.load(own + (start + column)[None, :], mask=wanted[:, None] & known, other=0.0)
        total = tl.dot(part, tl.trans(matrix), total, input_precision="ieee")
        if GATED:
            passing = tl.load(own + ALL * WIDTH + (start + column)[None, :], mask=wanted[:, None] & known, other=0.0)
            through = tl.dot(part, tl.trans(passing), through, input_precision="ieee")

    mean, scale = 0.0, 1.0
    if NORM != "none":
        if not PARTS:
            numbers, squares = counted(tokens, here, WIDTH, ROWS, COLUMNS)
        mean = (tl.sum(numbers, 0) / WIDTH)[:, None] if NORM == "layer" else 0.0
        scale = 1.0 / tl.sqrt(tl.maximum(tl.sum(squares, 0)[:, None] / WIDTH - mean * mean, 0.0) + epsilon)
    total = (total - mean * sum_of[None, :]) * scale + constant[None, :]
    if GATED:
        sum_of, constant = around(sums, offset, ALL + place, wanted, NORM, OFFSET)
        through = (through - mean * sum_of[None, :]) * scale + constant[None, :]
        total = bend(total, BEND) * through
    else:
        total = bend(total, BEND)
    kept = here[:, None] & wanted[None, :]
    if ADDS:
        total += tl.load(added + row[:, None] * added_step + place[None, :], mask=kept, other=0.0).to(tl.float32)
    written = total.to(output.dtype.element_ty)
    tl.store(output + row[:, None] * ALL + place[None, :], written, mask=kept)
    if TELLS:
        tell(found, tl.where(kept, written.to(tl.float32), 0.0), rows, row, here, ALL, ROWS, OUTPUTS, PART)


@jit
@no_type_check
def tell(  # noqa: ANN201
    found, y, rows, row, here,  # noqa: ANN001
    ALL: tl.constexpr, ROWS: tl.constexpr, OUTPUTS: tl.constexpr, PART: tl.constexpr,  # noqa: N803
):  # fmt: skip
    """Leaves the sums of what was written, and of its squares, for the norm after it, part by part."""
    own: tl.constexpr = OUTPUTS // PART
    parts: tl.constexpr = (ALL + PART - 1) // PART
    y = tl.reshape(y, [ROWS, own, PART])
    part = tl.program_id(0) * own + tl.arange(0, own)
    at, there = part[None, :] * rows + row[:, None], here[:, None] & (part < parts)[None, :]
    tl.store(found + at, tl.sum(y, 2), mask=there)
    tl.store(found + parts * rows + at, tl.sum(y * y, 2), mask=there)


@jit
@no_type_check
def told(moments, rows, row, here, PARTS: tl.constexpr, PADDED: tl.constexpr):  # noqa: ANN001, ANN201, N803
    """Parts of each token's sum and of that of its squares, as the kernel left them that wrote it.

    They are on their way while the products are computed.
    """
    part = tl.arange(0, PADDED)[:, None]
    at, there = part * rows + row[None, :], (part < PARTS) & here[None, :]
    numbers = tl.load(moments + at, mask=there, other=0.0)
    return numbers, tl.load(moments + PARTS * rows + at, mask=there, other=0.0)


@jit
@no_type_check
def counted(tokens, here, WIDTH: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr):  # noqa: ANN001, ANN201, N803
    """Each token's sum and that of its squares, in a loop of its own.

    Counted in the loop of the products, numbers that the matrix units still read are overwritten (Triton 3.6).
    """
    column = tl.arange(0, COLUMNS)
    numbers, squares = tl.zeros([ROWS], tl.float32), tl.zeros([ROWS], tl.float32)
    for start in range(0, WIDTH, COLUMNS):
        known = (start + column < WIDTH)[None, :]
        part = tl.load(tokens + (start + column)[None, :], mask=here[:, None] & known, other=0.0).to(tl.float32)
        numbers += tl.sum(part, 1)
        squares += tl.sum(part * part, 1)
    return numbers[None, :], squares[None, :]


@jit
@no_type_check
def around(sums, offset, place, wanted, NORM: tl.constexpr, OFFSET: tl.constexpr):  # noqa: ANN001, ANN201, N803
    """V1 and c, zero where there is none."""
    sum_of = tl.zeros(place.shape, tl.float32)
    constant = tl.zeros(place.shape, tl.float32)
    if NORM == "layer":
        sum_of = tl.load(sums + place, mask=wanted, other=0.0)
    if OFFSET:
        constant = tl.load(offset + place, mask=wanted, other=0.0).to(tl.float32)
    return sum_of, constant


@jit
@no_type_check
def fetch_matrix(  # noqa: ANN201
    weight, place,  # noqa: ANN001
    ALL: tl.constexpr, WIDTH: tl.constexpr, LINES: tl.constexpr, LINE: tl.constexpr, GATED: tl.constexpr,  # noqa: N803
):  # fmt: skip
    """Asks for a program's part of the matrix, then waits for its tokens."""
    tl.extra.cuda.gdc_launch_dependents()
    line = tl.minimum(tl.arange(0, LINES) * LINE, WIDTH - 1)
    ahead = weight + tl.minimum(place, ALL - 1).to(tl.int64)[:, None] * WIDTH + line[None, :]
    fetch(ahead)
    if GATED:
        fetch(ahead + ALL * WIDTH)
    tl.extra.cuda.gdc_wait()


@jit
@no_type_check
def fetch(pointers):  # noqa: ANN001, ANN201
    """Asks for what lies there, into the cache that all multiprocessors share."""
    tl.inline_asm_elementwise(
        "prefetch.global.L2 [$1]; mov.b32 $0, 0;", "=r,l", [pointers], dtype=tl.int32, is_pure=False, pack=1
    )


def product(
    x: Tensor,
    weight: Tensor,
    sums: Tensor | None,
    offset: Tensor | None,
    norm: str,
    epsilon: float,
    activation: str,
    gated: bool,
    added: Tensor | None,
    moments: Tensor | None = None,
    tells: bool = False,
) -> tuple[Tensor, Tensor]:
    """Launches the kernel for so many rows; a single one finds its moments faster than it would read them."""
    rows, width = x.shape
    outputs = len(weight) // 2 if gated else len(weight)
    assert weight.is_contiguous()
    x = x if x.stride(1) == 1 else x.contiguous()
    added = added if added is None or added.stride(1) == 1 else added.contiguous()
    output = torch.empty(rows, outputs, device=x.device, dtype=x.dtype)
    size = x.element_size()
    shape = fitting(tile(rows, width, outputs, size, gated), size, gated, fast_memory(x.device))
    tensors = (x, weight, *(x if part is None else part for part in (sums, offset, added)), output)
    kinds: dict[str, Any] = {
        "ALL": outputs,
        "WIDTH": width,
        "OUTPUTS": shape.outputs,
        "COLUMNS": shape.columns,
        "NORM": norm,
        "OFFSET": offset is not None,
        "BEND": activation,
        "GATED": gated,
        "ADDS": added is not None,
        "num_warps": shape.warps,
        **overlap(x.device),
    }
    programs = triton.cdiv(outputs, shape.outputs)
    found = x.new_empty(2, triton.cdiv(outputs, PART) if tells and rows > 1 else 0, rows, dtype=torch.float32)
    if rows == 1:
        one_row_kernel[(programs,)](*tensors, epsilon, **kinds)
        return output, found
    line = 128 // size
    parts = 0 if moments is None else moments.shape[1]
    rows_kernel[(programs, triton.cdiv(rows, shape.rows))](
        *tensors,
        found if moments is None else moments,
        found,
        epsilon,
        rows,
        x.stride(0),
        0 if added is None else added.stride(0),
        ROWS=shape.rows,
        LINES=triton.next_power_of_2(triton.cdiv(width, line)),
        LINE=line,
        PARTS=parts,
        PADDED=triton.next_power_of_2(max(1, parts)),
        TELLS=tells,
        PART=PART,
        num_stages=shape.stages,
        **kinds,
    )
    return output, found


def overlap(device: torch.device) -> dict[str, Any]:
    """The settings by which a kernel begins before the one ahead of it has ended."""
    return {"EARLY": True, "launch_pdl": True} if EARLY and _can_overlap(device) else {"EARLY": False}


@cache
def _can_overlap(device: torch.device) -> bool:
    return device.type == "cuda" and torch.version.hip is None and torch.cuda.get_device_capability(device) >= (9, 0)


@cache
def multiprocessors(device: torch.device) -> int:
    """How many programs run at a time without sharing; one where there is no GPU."""
    return torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 1


@cache
def fast_memory(device: torch.device) -> int:
    """Bytes that the programs of a multiprocessor share, less what a kernel needs beside its readings."""
    if device.type != "cuda":
        return 1 << 30
    return torch.cuda.get_device_properties(device).shared_memory_per_block_optin - 4096
