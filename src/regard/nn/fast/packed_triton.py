"""The kernels behind `spans.py` on a GPU: a program takes a tile of tokens through all that its spans cover."""

from typing import NamedTuple, no_type_check

import torch
import triton  # pyright: ignore[reportMissingImports]
import triton.language as tl  # pyright: ignore[reportMissingImports]
from torch import Tensor

from regard.nn.fast.packed import threshold_of
from regard.nn.fast.triton_jit import jit

LOG2_E = 1.4426950408889634
"""Exponentials to base 2 are what the device has: eˣ = 2^(x·log₂e)."""


class Tile(NamedTuple):
    """Queries and keys that a program holds at a time, and with how many threads."""

    queries: int
    keys: int
    warps: int = 4
    stages: int = 2


FORWARD, OF_QUERIES, OF_KEYS = Tile(64, 32), Tile(32, 32, warps=2), Tile(32, 64)


@jit
@no_type_check
def vectors(x, token, known, step, start, WIDTH: tl.constexpr, PADDED: tl.constexpr):  # noqa: ANN001, ANN201, N803
    """A head's numbers of some tokens (tokens, padded width)."""
    column = tl.arange(0, PADDED)
    at = token.to(tl.int64)[:, None] * step + start + column[None, :]
    return tl.load(x + at, mask=known[:, None] & (column < WIDTH)[None, :], other=0.0)


@jit
@no_type_check
def keep(x, into, token, known, step, start, WIDTH: tl.constexpr, PADDED: tl.constexpr):  # noqa: ANN001, ANN201, N803
    """Writes a head's numbers of some tokens."""
    column = tl.arange(0, PADDED)
    at = token.to(tl.int64)[:, None] * step + start + column[None, :]
    tl.store(into + at, x.to(into.dtype.element_ty), mask=known[:, None] & (column < WIDTH)[None, :])


@jit
@no_type_check
def mixed(x):  # noqa: ANN001, ANN201
    """As `spans._mixed`."""
    x ^= x >> 16
    x *= 0x21F0AAAD
    x ^= x >> 15
    x *= 0xD35A2D97
    return x ^ (x >> 15)


@jit
@no_type_check
def shares(seed, head, row, place, threshold, share, HEADS: tl.constexpr):  # noqa: ANN001, ANN201, N803
    """What dropout leaves of each weight, as `spans._shares` draws it; row and place broadcast."""
    own = mixed(mixed((row * HEADS + head).to(tl.uint32)) + tl.load(seed).to(tl.uint32))
    drawn = mixed(own + place.to(tl.uint32) * 0x9E3779B9) >> 8
    return tl.where(drawn.to(tl.int32) >= threshold, share, 0.0)


@jit
@no_type_check
def attend_kernel(  # noqa: ANN201
    query, key, value, first, last, output, log_total, scale, queries, seed, threshold, share,  # noqa: ANN001
    query_step, query_head, key_step, key_head, value_step, value_head,  # noqa: ANN001
    HEADS: tl.constexpr, GROUP: tl.constexpr, WIDTH: tl.constexpr, PADDED: tl.constexpr,  # noqa: N803
    QUERIES: tl.constexpr, KEYS: tl.constexpr, DROPS: tl.constexpr,  # noqa: N803
):  # fmt: skip
    """softmax(qkᵀ·scale) v of a tile of queries, key tile by key tile with a running maximum."""
    head = tl.program_id(1)
    row = tl.program_id(0) * QUERIES + tl.arange(0, QUERIES)
    real = row < queries
    begin, end = tl.load(first + row, mask=real, other=0), tl.load(last + row, mask=real, other=0)
    asked = vectors(query, row, real, query_step, head * query_head, WIDTH, PADDED)
    best = tl.full([QUERIES], float("-inf"), tl.float32)
    total = tl.zeros([QUERIES], tl.float32)
    answer = tl.zeros([QUERIES, PADDED], tl.float32)
    stop = tl.max(end, 0)
    for start in range(tl.load(first + tl.program_id(0) * QUERIES), stop, KEYS):
        place = start + tl.arange(0, KEYS)
        known = place < stop
        keys = vectors(key, place, known, key_step, (head // GROUP) * key_head, WIDTH, PADDED)
        scores = tl.dot(asked, tl.trans(keys)) * scale
        seen = (place[None, :] >= begin[:, None]) & (place[None, :] < end[:, None])
        scores = tl.where(seen, scores, float("-inf"))
        higher = tl.maximum(best, tl.max(scores, 1))
        sound = tl.where(higher == float("-inf"), 0.0, higher)  # nothing seen so far
        weights = tl.exp2(scores - sound[:, None])
        faded = tl.exp2(best - sound)
        values = vectors(value, place, known, value_step, (head // GROUP) * value_head, WIDTH, PADDED)
        total = total * faded + tl.sum(weights, 1)
        if DROPS:
            weights *= shares(seed, head, row[:, None], place[None, :], threshold, share, HEADS)
        answer = answer * faded[:, None] + tl.dot(weights.to(values.dtype), values)
        best = higher
    blind = total == 0.0
    total = tl.where(blind, 1.0, total)
    keep(answer / total[:, None], output, row, real, HEADS * WIDTH, head * WIDTH, WIDTH, PADDED)
    tl.store(log_total + head * queries + row, tl.where(blind, 0.0, best + tl.log2(total)), mask=real)


@jit
@no_type_check
def of_queries_kernel(  # noqa: ANN201
    slope, query, key, value, first, last, output, log_total, averages, into, scale, plain_scale, queries,  # noqa: ANN001
    seed, threshold, share,  # noqa: ANN001
    slope_step, slope_head, query_step, query_head, key_step, key_head, value_step, value_head,  # noqa: ANN001
    HEADS: tl.constexpr, GROUP: tl.constexpr, WIDTH: tl.constexpr, PADDED: tl.constexpr,  # noqa: N803
    QUERIES: tl.constexpr, KEYS: tl.constexpr, DROPS: tl.constexpr,  # noqa: N803
):  # fmt: skip
    """The slopes of a tile of queries: the weights again, from what forward kept, and what each score did.

    A query's average slope is left for the keys' kernel: there it would be counted beside the products, where numbers
    that the matrix units still read may be overwritten (`product_kernel.counted`).
    """
    head = tl.program_id(1)
    row = tl.program_id(0) * QUERIES + tl.arange(0, QUERIES)
    real = row < queries
    begin, end = tl.load(first + row, mask=real, other=0), tl.load(last + row, mask=real, other=0)
    asked = vectors(query, row, real, query_step, head * query_head, WIDTH, PADDED)
    given = vectors(slope, row, real, slope_step, head * slope_head, WIDTH, PADDED)
    found = vectors(output, row, real, HEADS * WIDTH, head * WIDTH, WIDTH, PADDED)
    average = tl.sum(given.to(tl.float32) * found.to(tl.float32), 1)
    tl.store(averages + head * queries + row, average, mask=real)
    log_sum = tl.load(log_total + head * queries + row, mask=real, other=0.0)
    sum_of = tl.zeros([QUERIES, PADDED], tl.float32)
    stop = tl.max(end, 0)
    for start in range(tl.load(first + tl.program_id(0) * QUERIES), stop, KEYS):
        place = start + tl.arange(0, KEYS)
        known = place < stop
        keys = vectors(key, place, known, key_step, (head // GROUP) * key_head, WIDTH, PADDED)
        values = vectors(value, place, known, value_step, (head // GROUP) * value_head, WIDTH, PADDED)
        seen = (place[None, :] >= begin[:, None]) & (place[None, :] < end[:, None])
        scores = tl.dot(asked, tl.trans(keys)) * scale - log_sum[:, None]
        weights = tl.exp2(tl.where(seen, scores, float("-inf")))
        of_weights = tl.dot(given, tl.trans(values))
        if DROPS:
            of_weights *= shares(seed, head, row[:, None], place[None, :], threshold, share, HEADS)
        of_scores = weights * (of_weights - average[:, None])
        sum_of += tl.dot(of_scores.to(keys.dtype), keys)
    keep(sum_of * plain_scale, into, row, real, HEADS * WIDTH, head * WIDTH, WIDTH, PADDED)


@jit
@no_type_check
def of_keys_kernel(  # noqa: ANN201
    slope, query, key, value, seen_first, seen_last, averages, log_total, into_keys, into_values,  # noqa: ANN001
    scale, plain_scale, queries, count, seed, threshold, share,  # noqa: ANN001
    slope_step, slope_head, query_step, query_head, key_step, key_head, value_step, value_head,  # noqa: ANN001
    HEADS: tl.constexpr, GROUP: tl.constexpr, WIDTH: tl.constexpr, PADDED: tl.constexpr,  # noqa: N803
    QUERIES: tl.constexpr, KEYS: tl.constexpr, DROPS: tl.constexpr,  # noqa: N803
):  # fmt: skip
    """The slopes of a tile of keys and its values, over all queries that see them, of all heads that share them."""
    own = tl.program_id(1)
    place = tl.program_id(0) * KEYS + tl.arange(0, KEYS)
    real = place < count
    begin, end = tl.load(seen_first + place, mask=real, other=0), tl.load(seen_last + place, mask=real, other=0)
    keys = vectors(key, place, real, key_step, own * key_head, WIDTH, PADDED)
    values = vectors(value, place, real, value_step, own * value_head, WIDTH, PADDED)
    of_keys = tl.zeros([KEYS, PADDED], tl.float32)
    of_values = tl.zeros([KEYS, PADDED], tl.float32)
    start, stop = tl.load(seen_first + tl.program_id(0) * KEYS), tl.max(end, 0)
    for head in range(own * GROUP, own * GROUP + GROUP):
        for at in range(start, stop, QUERIES):
            row = at + tl.arange(0, QUERIES)
            known = row < stop
            asked = vectors(query, row, known, query_step, head * query_head, WIDTH, PADDED)
            given = vectors(slope, row, known, slope_step, head * slope_head, WIDTH, PADDED)
            average = tl.load(averages + head * queries + row, mask=known, other=0.0)
            log_sum = tl.load(log_total + head * queries + row, mask=known, other=0.0)
            seen = (row[None, :] >= begin[:, None]) & (row[None, :] < end[:, None])
            scores = tl.dot(keys, tl.trans(asked)) * scale - log_sum[None, :]
            weights = tl.exp2(tl.where(seen, scores, float("-inf")))
            of_weights = tl.dot(values, tl.trans(given))
            heard = weights
            if DROPS:
                left = shares(seed, head, row[None, :], place[:, None], threshold, share, HEADS)
                heard, of_weights = weights * left, of_weights * left
            of_values += tl.dot(heard.to(given.dtype), given)
            of_scores = weights * (of_weights - average[None, :])
            of_keys += tl.dot(of_scores.to(asked.dtype), asked)
    kv_heads = HEADS // GROUP
    keep(of_keys * plain_scale, into_keys, place, real, kv_heads * WIDTH, own * WIDTH, WIDTH, PADDED)
    keep(of_values, into_values, place, real, kv_heads * WIDTH, own * WIDTH, WIDTH, PADDED)


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    first: Tensor,
    last: Tensor,
    scale: float,
    dropout: float,
    seed: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """What each query finds, and the logarithm to base 2 of its sum of exponentials."""
    query, key, value = _side_by_side(query, key, value)
    output = torch.empty(query.shape, device=query.device, dtype=query.dtype)
    log_total = torch.empty(query.shape[1], len(query), device=query.device, dtype=torch.float32)
    if len(query):
        steps = [step for x in (query, key, value) for step in x.stride()[:2]]
        attend_kernel[(triton.cdiv(len(query), FORWARD.queries), query.shape[1])](
            query, key, value, first, last, output, log_total, scale * LOG2_E, len(query),
            *_drawing(first, dropout, seed), *steps, **_sizes(query, key, FORWARD, seed),
        )  # fmt: skip
    return output, log_total


def slopes(
    slope: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    spans: tuple[Tensor, Tensor, Tensor, Tensor],
    scale: float,
    dropout: float,
    seed: Tensor | None,
    output: Tensor,
    log_total: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    """The slopes of queries, keys and values."""
    slope, query, key, value = _side_by_side(slope, query, key, value)
    into = [torch.empty(x.shape, device=x.device, dtype=x.dtype) for x in (query, key, value)]
    averages = torch.empty_like(log_total)
    first, last, seen_first, seen_last = spans
    steps = [*_drawing(first, dropout, seed), *(step for x in (slope, query, key, value) for step in x.stride()[:2])]
    if len(query):
        of_queries_kernel[(triton.cdiv(len(query), OF_QUERIES.queries), query.shape[1])](
            slope, query, key, value, first, last, output, log_total, averages, into[0],
            scale * LOG2_E, scale, len(query), *steps, **_sizes(query, key, OF_QUERIES, seed),
        )  # fmt: skip
    if len(key):
        of_keys_kernel[(triton.cdiv(len(key), OF_KEYS.keys), key.shape[1])](
            slope, query, key, value, seen_first, seen_last, averages, log_total, into[1], into[2],
            scale * LOG2_E, scale, len(query), len(key), *steps, **_sizes(query, key, OF_KEYS, seed),
        )  # fmt: skip
    return into[0], into[1], into[2]


def _side_by_side(*tensors: Tensor) -> list[Tensor]:
    """All with a head's numbers side by side, as the kernels read them."""
    return [x if x.stride(2) == 1 else x.contiguous() for x in tensors]


def _drawing(some: Tensor, dropout: float, seed: Tensor | None) -> tuple[Tensor, int, float]:
    """What a kernel draws by: the seed, if there is one, the first number of 24 bits that stays, and what stays."""
    return some if seed is None else seed, threshold_of(dropout), 1 / (1 - dropout)


def _sizes(query: Tensor, key: Tensor, tile: Tile, seed: Tensor | None) -> dict[str, int]:
    """What a kernel is compiled for."""
    _, heads, width = query.shape
    return {
        "HEADS": heads,
        "GROUP": heads // key.shape[1],
        "WIDTH": width,
        "PADDED": max(16, triton.next_power_of_2(width)),
        "QUERIES": tile.queries,
        "KEYS": tile.keys,
        "DROPS": seed is not None,
        "num_warps": tile.warps,
        "num_stages": tile.stages,
    }
