"""The kernel behind `newest.py` on a GPU: a program for each row and head reads what is filled of a room, once."""

from typing import no_type_check

import torch
import triton  # pyright: ignore[reportMissingImports]
import triton.language as tl  # pyright: ignore[reportMissingImports]
from torch import Tensor

from regard.nn.fast.linear_triton import fetch, multiprocessors, overlap
from regard.nn.fast.triton_jit import jit

MANY, FEW = (4096, 2), (16384, 16)
"""Numbers of keys, and of values, that a program holds at a time, and its warps: for programs that fill a device, and
for fewer."""


@jit
@no_type_check
def attend_kernel(  # noqa: ANN201
    query, key, value, keys, values, lengths, rooms, bias, output,  # noqa: ANN001
    scale, query_row, query_head, key_row, key_head, room_step, head_step, bias_row, bias_head,  # noqa: ANN001
    GROUP: tl.constexpr, WIDTH: tl.constexpr, PADDED: tl.constexpr, BLOCK: tl.constexpr,  # noqa: N803
    APPENDS: tl.constexpr, BIASED: tl.constexpr, EARLY: tl.constexpr,  # noqa: N803
):  # fmt: skip
    """softmax(q·kᵀ·scale + bias) v over the first `length` keys, block by block with a running maximum.

    Where it appends, the token's own key and value are stored at place `length` and counted from registers: no program
    reads what another one writes.
    """
    row, head = tl.program_id(0).to(tl.int64), tl.program_id(1)
    own = head // GROUP
    if EARLY:
        tl.extra.cuda.gdc_launch_dependents()
        if APPENDS:
            soon = row * room_step + own * head_step + tl.minimum(tl.arange(0, BLOCK) * WIDTH, head_step - 1)
            fetch(keys + soon)
            fetch(values + soon)
        tl.extra.cuda.gdc_wait()
    room = row
    if not APPENDS:
        room = tl.load(rooms + row).to(tl.int64)
    length = tl.load(lengths + room).to(tl.int32)
    column = tl.arange(0, PADDED)
    inside = column < WIDTH
    asked = tl.load(query + row * query_row + head * query_head + column, mask=inside, other=0.0).to(tl.float32) * scale
    first = room * room_step + own * head_step
    best = tl.full([], float("-inf"), tl.float32)
    total = tl.full([], 0.0, tl.float32)
    answer = tl.zeros([PADDED], tl.float32)
    if APPENDS:
        new_key = tl.load(key + row * key_row + own * key_head + column, mask=inside, other=0.0)
        new_value = tl.load(value + row * key_row + own * key_head + column, mask=inside, other=0.0)
        tl.store(keys + first + length * WIDTH + column, new_key, mask=inside)
        tl.store(values + first + length * WIDTH + column, new_value, mask=inside)
        best = tl.sum(asked * new_key.to(tl.float32), 0)
        if BIASED:
            best += tl.load(bias + row * bias_row + head * bias_head + length).to(tl.float32)
        total += 1.0
        answer += new_value.to(tl.float32)
    for start in range(0, length, BLOCK):
        place = start + tl.arange(0, BLOCK)
        seen = place < length
        at = first + place[:, None] * WIDTH + column[None, :]
        whole = seen[:, None] & inside[None, :]
        block_keys = tl.load(keys + at, mask=whole, other=0.0).to(tl.float32)
        block_values = tl.load(values + at, mask=whole, other=0.0).to(tl.float32)
        scores = tl.sum(asked[None, :] * block_keys, 1)
        if BIASED:
            scores += tl.load(bias + row * bias_row + head * bias_head + place, mask=seen, other=0.0).to(tl.float32)
        scores = tl.where(seen, scores, float("-inf"))
        higher = tl.maximum(best, tl.max(scores, 0))
        faded = tl.exp(best - higher)
        weights = tl.exp(scores - higher)
        total = total * faded + tl.sum(weights, 0)
        answer = answer * faded + tl.sum(weights[:, None] * block_values, 0)
        best = higher
    into = output + (row * tl.num_programs(1) + head) * WIDTH + column
    tl.store(into, (answer / total).to(output.dtype.element_ty), mask=inside)


def attend(
    query: Tensor,
    key: Tensor | None,
    value: Tensor | None,
    keys: Tensor,
    values: Tensor,
    lengths: Tensor,
    rooms: Tensor | None,
    bias: Tensor | None,
    scale: float,
) -> Tensor:
    """Launches the kernel: it appends where a key and a value are given, and looks into `rooms` where those are."""
    rows, heads, width = query.shape
    query = query if query.stride(2) == 1 else query.contiguous()
    output = torch.empty(rows, heads, width, device=query.device, dtype=query.dtype)
    key, value = _aligned(key, value)
    padded = triton.next_power_of_2(width)
    at_once, warps = FEW if rows * heads < multiprocessors(query.device) else MANY
    attend_kernel[(rows, heads)](
        query,
        query if key is None else key,
        query if value is None else value,
        keys,
        values,
        lengths,
        lengths if rooms is None else rooms,
        query if bias is None else bias,
        output,
        scale,
        *query.stride()[:2],
        *((0, 0) if key is None else key.stride()[:2]),
        *keys.stride()[:2],
        *((0, 0) if bias is None else bias.stride()[:2]),
        GROUP=heads // keys.shape[1],
        WIDTH=width,
        PADDED=padded,
        BLOCK=max(16, at_once // padded),
        APPENDS=key is not None,
        BIASED=bias is not None,
        num_warps=warps,
        **overlap(query.device),
    )
    return output


def _aligned(key: Tensor | None, value: Tensor | None) -> tuple[Tensor | None, Tensor | None]:
    """Both with the same steps from row to row and head to head, and numbers side by side, as the kernel reads them."""
    if key is None or value is None or (key.stride() == value.stride() and key.stride(2) == 1):
        return key, value
    return key.contiguous(), value.contiguous()
