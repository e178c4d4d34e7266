"""The fast ways to compute attention. Each gives what the reference in `attention.py` gives, but no weights."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any
from weakref import WeakKeyDictionary

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask, flex_attention, noop_mask

from regard.nn.fast.block_mask import block_mask
from regard.nn.fast.packed import Spans, attend_spans
from regard.nn.fast.plan import varlen_kernel_fits
from regard.nn.fast.sdpa import dense, shares_keys
from regard.nn.pattern import Pattern, Segments
from regard.nn.position import Bias

# cuDNN plans its attention anew for each shape, which takes longer than hundreds of steps: batches of text have many.
torch.backends.cuda.enable_cudnn_sdp(False)


@contextmanager
def of_one_shape(known: bool) -> Iterator[None]:
    """Within it, where all batches are known to have one shape, cuDNN's attention may be used: Hopper's fastest."""
    torch.backends.cuda.enable_cudnn_sdp(known)
    try:
        yield
    finally:
        torch.backends.cuda.enable_cudnn_sdp(False)


Query = Float[Tensor, "batch heads query head_width"]
Key = Float[Tensor, "batch kv_heads key head_width"]


def sdpa(
    query: Query, key: Key, value: Key, pattern: Pattern | None, bias: Bias | None, scale: float, dropout: float
) -> Query:
    """torch's fused attention; a pattern goes in as its flag where it has one, else as a mask."""
    flags = pattern.flags() if pattern is not None else None
    flagged = bias is None and flags is not None and flags.causal and flags.segments is None
    causal = flagged if query.shape[2] == key.shape[2] else False  # never a symbol: compiled code wants to know
    mask = None if causal else dense_mask(query, key, pattern, bias)
    return dense(query, key, value, mask, dropout, causal, scale)


def dense_mask(query: Query, key: Key, pattern: Pattern | None, bias: Bias | None) -> Tensor | None:
    """Pattern and bias as the one mask that torch takes: truth values, or numbers with −∞ where nothing may be seen."""
    batch, heads, queries, _ = query.shape
    keys = key.shape[2]
    allowed = _dense(pattern, (batch, heads, queries, keys, query.device)) if pattern is not None else None
    if bias is None:
        return allowed
    added = bias.dense(batch, queries, keys)
    return added if allowed is None else added.masked_fill(~allowed, -torch.inf)


def spans(
    query: Query, key: Key, value: Key, pattern: Pattern | None, bias: Bias | None, scale: float, dropout: float
) -> Query:
    """Packed short sequences, several of which share a tile."""
    segments, causal = _packed(pattern)
    assert bias is None
    asked, known, told = (x.squeeze(0).transpose(0, 1) for x in (query, key, value))
    return attend_spans(asked, known, told, _spans(segments, causal), scale, dropout).transpose(0, 1)[None]


def _packed(pattern: Pattern | None) -> tuple[Segments, bool]:
    """The packed sequences, and whether a token sees those before it only."""
    flags = pattern.flags() if pattern is not None else None
    assert flags is not None
    assert flags.segments is not None
    return flags.segments, flags.causal


def _spans(segments: Segments, causal: bool) -> Spans:
    """The spans of packed sequences, found once and not once per layer; in compiled code they are part of it."""
    if torch.compiler.is_compiling():
        return Spans.of(segments, causal)
    known: dict[bool, Spans] = vars(segments).setdefault("_spans", {})
    if causal not in known:
        known[causal] = Spans.of(segments, causal)
    return known[causal]


def variable_length(
    query: Query, key: Key, value: Key, pattern: Pattern | None, bias: Bias | None, scale: float, dropout: float
) -> Query:
    """Packed sequences without computing a single score between two of them."""
    segments, causal = _packed(pattern)
    assert bias is None
    if varlen_kernel_fits(query):
        return _fused_varlen(query, key, value, segments, causal, scale)
    return _one_a_row(query, key, value, segments, causal, scale, dropout)


def _fused_varlen(query: Query, key: Key, value: Key, segments: Segments, causal: bool, scale: float) -> Query:
    from torch.nn.attention.varlen import varlen_attn

    flat = [x.squeeze(0).transpose(0, 1) for x in (query, key, value)]
    if query.shape[1] != key.shape[1]:
        flat[1:] = [x.repeat_interleave(query.shape[1] // key.shape[1], dim=1) for x in flat[1:]]
    bounds_q = _bounds(segments.query_lengths, query.shape[2])
    bounds_k = _bounds(segments.key_lengths, key.shape[2])
    window = (-1, 0) if causal else (-1, -1)
    y = varlen_attn(
        flat[0],
        flat[1],
        flat[2],
        bounds_q,
        bounds_k,
        segments.longest_query,
        segments.longest_key,
        scale=scale,
        window_size=window,
    )
    return y.transpose(0, 1)[None]  # type: ignore[union-attr]


def _bounds(lengths: Int[Tensor, " sequences"], time: int) -> Int[Tensor, " bounds"]:
    """Where each sequence starts; the padding at the row's end counts as one more sequence."""
    ends = torch.cumsum(lengths, 0)
    return torch.cat([ends.new_zeros(1), ends, ends.new_full((1,), time)]).int()


def _one_a_row(
    query: Query, key: Key, value: Key, segments: Segments, causal: bool, scale: float, dropout: float
) -> Query:
    """The sequences of a packed row laid out one a row, attended, and packed again."""
    spread_q, collect = moves(segments.query_segment[0], segments.query_lengths, segments.longest_query)
    spread_k, _ = moves(segments.key_segment[0], segments.key_lengths, segments.longest_key)
    places = torch.arange(segments.longest_key, device=key.device)
    mask = None if causal else (places < segments.key_lengths[:, None])[:, None, None, :]
    y = dense(
        _moved(query, spread_q, segments.longest_query),
        _moved(key, spread_k, segments.longest_key),
        _moved(value, spread_k, segments.longest_key),
        mask,
        dropout,
        causal,
        scale,
    )
    return _moved(y, collect, query.shape[2])


@dataclass(frozen=True, eq=False)
class Move:
    """Which vector goes where, and the way back, along which gradients go; not all places have one."""

    to: Int[Tensor, " new"]
    back: Int[Tensor, " old"]
    known: Bool[Tensor, " old"]
    """Old places that a vector was really taken from."""


def moves(segment: Int[Tensor, " time"], lengths: Int[Tensor, " sequences"], longest: int) -> tuple[Move, Move]:
    """From a packed row to one sequence a row, and back."""
    rows, back = grid(segment, lengths, longest)
    real = torch.arange(longest, device=segment.device) < lengths[:, None]
    spread = Move(rows.flatten(), back, segment >= 0)
    return spread, Move(back, rows.flatten(), real.flatten())


def _moved(
    x: Float[Tensor, "batch heads time head_width"], move: Move, time: int
) -> Float[Tensor, "rows heads places head_width"]:
    """The vectors of all tokens in other places, in rows of so many."""
    heads = x.shape[1]
    vectors = x.transpose(1, 2).reshape(-1, heads * x.shape[3])
    moved = _Moved.apply(vectors, move.to, move.back, move.known)
    return moved.view(-1, time, heads, x.shape[3]).transpose(1, 2)  # type: ignore[union-attr]


class _Moved(torch.autograd.Function):
    """x[to], whose gradient is a selection too: every vector that matters goes to one place only."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, to: Tensor, back: Tensor, known: Tensor) -> Tensor:  # type: ignore[override]  # noqa: ANN401
        ctx.save_for_backward(back, known)
        return x.index_select(0, to)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        back, known = ctx.saved_tensors
        (grad,) = grad_outputs
        return grad.index_select(0, back).mul_(known[:, None]), None, None, None


def grid(
    segment: Int[Tensor, " time"], lengths: Int[Tensor, " sequences"], longest: int
) -> tuple[Int[Tensor, "sequences longest"], Int[Tensor, " time"]]:
    """For each cell of the one-a-row grid its place in the packed row, and for each place its cell."""
    time = len(segment)
    starts = torch.cumsum(lengths, 0) - lengths
    rows = (starts[:, None] + torch.arange(longest, device=segment.device)).clamp(max=time - 1)
    own = segment.clamp(min=0)
    cell = own * longest + torch.arange(time, device=segment.device) - starts[own]
    return rows, torch.where(segment >= 0, cell, 0)


def flex(
    query: Query, key: Key, value: Key, pattern: Pattern | None, bias: Bias | None, scale: float, dropout: float
) -> Query:
    """A kernel generated for this very pattern and bias, which skips blocks where nothing may be seen.

    Where a number is looked up for each pair, it has one stage: numbers fetched ahead would not fit into fast memory.
    """
    assert dropout == 0
    mask = _block_mask(pattern, query, key) if pattern is not None else None
    uses_table = pattern is not None and pattern.uses_table and mask is not None and mask.mask_mod is not noop_mask
    y = _flex_kernel(query, pattern, bias)(
        query,
        key,
        value,
        score_mod=bias.score_mod if bias is not None else None,
        block_mask=mask,
        scale=scale,
        enable_gqa=shares_keys(query, key),
        kernel_options={"num_stages": 1} if bias is not None or uses_table else None,
    )
    return y


def _flex_kernel(query: Query, pattern: Pattern | None, bias: Bias | None) -> Callable[..., Tensor]:
    if query.device.type != "cuda" or torch.compiler.is_compiling():  # the latter compiles it with all around it
        return flex_attention  # type: ignore[return-value]
    return _compiled_flex((_structure(pattern), bias and bias.rule.__qualname__, query.dtype, query.shape[3]))


@cache
def _compiled_flex(kind: tuple[object, ...]) -> Callable[..., Tensor]:
    """FlexAttention, compiled for patterns and biases of one kind, whatever numbers and lengths they come with.

    torch keeps what it compiled by code object, and after a few kinds would go on without compiling. So each kind has
    a code object of its own.
    """
    fresh = lambda *tensors, **options: flex_attention(*tensors, **options)  # noqa: E731
    fresh.__code__ = fresh.__code__.replace(co_name=f"flex_{abs(hash(kind))}")
    return torch.compile(fresh)


def _structure(pattern: Pattern | None) -> tuple[object, ...]:
    """The kinds of patterns that one is composed of."""
    parts = vars(pattern).values() if pattern is not None else ()
    return (type(pattern), *(_structure(part) for part in parts if isinstance(part, Pattern)))


_matrices: WeakKeyDictionary[Pattern, dict[tuple[object, ...], Tensor]] = WeakKeyDictionary()


def _dense(pattern: Pattern, shape: tuple[int, int, int, int, torch.device]) -> Tensor:
    """The pattern's matrix, built once per shape and not once per layer; in compiled code it is part of the kernel."""
    if torch.compiler.is_compiling():
        return pattern.dense(*shape)
    known = _matrices.setdefault(pattern, {})
    if shape not in known:
        known.clear()  # of a pattern that lives long, the last matrix only
        known[shape] = pattern.dense(*shape)
    return known[shape]


MASKS_KEPT = 64
"""Block masks of one pattern: those of a decoder live as long as it does, and batches of text have many shapes."""


def _block_mask(pattern: Pattern, query: Query, key: Key) -> BlockMask:
    """The pattern's block mask, built once per shape; the pattern itself keeps it, since a mask holds on to it."""
    known: dict[tuple[object, ...], BlockMask] = vars(pattern).setdefault("_block_masks", {})
    shape = (query.shape[0], query.shape[1], query.shape[2], key.shape[2], query.device)
    if shape not in known:
        if len(known) == MASKS_KEPT:
            known.clear()
        known[shape] = block_mask(pattern, *shape)
    return known[shape]
