"""Attention where each query sees one run of neighbouring keys: packed sequences, causal or not.

A tile of queries then needs only the keys from its first query's first to its last query's last. Where sentences are
short, that is far less than a tile for each sentence. Forward and backward are operators of torch, which compiled code
leaves as they are: by plain steps on a CPU, by kernels on a GPU.
"""

import math
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from regard.nn.pattern import Segments


@dataclass(frozen=True)
class Spans:
    """Which keys each query sees, and which queries see each key: from `first` up to, but without, `last`.

    Neither ever goes back from one to the next, so a tile's span is its first `first` to its last `last`.
    """

    first: Int[Tensor, " queries"]
    last: Int[Tensor, " queries"]
    seen_first: Int[Tensor, " keys"]
    seen_last: Int[Tensor, " keys"]

    @classmethod
    def of(cls, segments: Segments, causal: bool) -> "Spans":
        """The spans of packed sequences; the padding behind them sees nothing and is not seen."""
        asking, answering = segments.query_segment[0], segments.key_segment[0]
        first, last = _partners(asking, segments.key_lengths, len(answering))
        seen_first, seen_last = _partners(answering, segments.query_lengths, len(asking))
        if causal:
            last = torch.minimum(last, first + 1 + _index(asking, segments.query_lengths))
            seen_first = torch.minimum(seen_last, seen_first + _index(answering, segments.key_lengths))
        return cls(first.int(), last.int(), seen_first.int(), seen_last.int())


def _partners(segment: Tensor, lengths: Tensor, total: int) -> tuple[Tensor, Tensor]:
    """For each token, where the sequence of its number begins and ends on the other side."""
    ends = torch.cumsum(lengths, 0)
    own, there = segment.clamp(min=0), segment >= 0
    return torch.where(there, (ends - lengths)[own], total), torch.where(there, ends[own], total)


def _index(segment: Tensor, lengths: Tensor) -> Tensor:
    """For each token, its place in its own sequence."""
    return torch.arange(len(segment), device=segment.device) - _partners(segment, lengths, 0)[0]


def attend_spans(query: Tensor, key: Tensor, value: Tensor, spans: Spans, scale: float, dropout: float = 0.0) -> Tensor:
    """softmax(qkᵀ·scale) v of each head over each query's span: (queries, heads, head width).

    query (queries, heads, head width); key, value (keys, kv heads, head width). A query whose span is empty finds 0.
    Dropout silences weights; which ones follows from one number that torch's generator draws, so that backward, which
    keeps no weights, finds the same ones.
    """
    bounds = spans.first, spans.last, spans.seen_first, spans.seen_last
    seed = torch.randint(1 << 31, (1,), device=query.device) if dropout else None
    return forward(query, key, value, *bounds, scale, dropout, seed)[0]


def threshold_of(dropout: float) -> int:
    """Of numbers of 24 bits, those below are dropped."""
    return round(dropout * (1 << 24))


def _shares(seed: Tensor, dropout: float, heads: int, queries: int, keys: int) -> Tensor:
    """What dropout leaves of each weight (heads, queries, keys): nothing, or as much more as keeps the mean."""
    query, head = (torch.arange(count, device=seed.device) for count in (queries, heads))
    own = _mixed(_mixed(query * heads + head[:, None]) + seed)
    drawn = _mixed(own[..., None] + torch.arange(keys, device=seed.device) * 0x9E3779B9) >> 8
    return (drawn >= threshold_of(dropout)) / (1 - dropout)


def _mixed(x: Tensor) -> Tensor:
    """Numbers of 32 bits, mixed until nothing is left of their order (constants of Wellons' and Wells' search)."""
    low = (1 << 32) - 1
    x = x & low
    x = x ^ (x >> 16)
    x = (x * 0x21F0AAAD) & low
    x = x ^ (x >> 15)
    x = (x * 0xD35A2D97) & low
    return x ^ (x >> 15)


# torch reads the signatures of operators, so shapes stand in the docstrings here.


@torch.library.custom_op("regard::attend_spans", mutates_args=())
def forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    first: Tensor,
    last: Tensor,
    seen_first: Tensor,
    seen_last: Tensor,
    scale: float,
    dropout: float,
    seed: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """What each query finds, and the logarithm to base 2 of its sum of exponentials (heads, queries)."""
    if query.device.type == "cuda":
        from regard.nn.fast.packed_triton import attend

        return attend(query, key, value, first, last, scale, dropout, seed)
    weights, log_total = _weights(query, key, first, last, scale)
    weights = weights if seed is None else weights * _shares(seed, dropout, *weights.shape)
    answer = torch.einsum("hqk,khd->qhd", weights, _for_each_head(value, query))
    return answer.to(query.dtype).contiguous(), log_total


@torch.library.custom_op("regard::attend_spans_slopes", mutates_args=())
def backward(
    slope: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    first: Tensor,
    last: Tensor,
    seen_first: Tensor,
    seen_last: Tensor,
    scale: float,
    dropout: float,
    seed: Tensor | None,
    output: Tensor,
    log_total: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    """The slopes of queries, keys and values, where `slope` is that of the output."""
    if query.device.type == "cuda":
        from regard.nn.fast.packed_triton import slopes

        spans = (first, last, seen_first, seen_last)
        return slopes(slope, query, key, value, spans, scale, dropout, seed, output, log_total)
    weights, _ = _weights(query, key, first, last, scale)
    shares = 1.0 if seed is None else _shares(seed, dropout, *weights.shape)
    given, keys = slope.float(), _for_each_head(key, query)
    of_weights = torch.einsum("qhd,khd->hqk", given, _for_each_head(value, query)) * shares
    average = (given * output.float()).sum(-1).T[:, :, None]
    of_scores = weights * (of_weights - average) * scale
    of_keys, of_values = (
        x.unflatten(1, (key.shape[1], -1)).sum(2)
        for x in (
            torch.einsum("hqk,qhd->khd", of_scores, query.float()),
            torch.einsum("hqk,qhd->khd", weights * shares, given),
        )
    )
    of_queries = torch.einsum("hqk,khd->qhd", of_scores, keys)
    like = query.dtype
    return of_queries.to(like).contiguous(), of_keys.to(like).contiguous(), of_values.to(like).contiguous()


def _weights(query: Tensor, key: Tensor, first: Tensor, last: Tensor, scale: float) -> tuple[Tensor, Tensor]:
    """The softmax as written, in float32 (heads, queries, keys), and the logarithm of what it divides by."""
    scores = torch.einsum("qhd,khd->hqk", query.float(), _for_each_head(key, query)) * scale
    place = torch.arange(len(key), device=key.device)
    seen = (place >= first[:, None]) & (place < last[:, None])
    scores = scores.masked_fill(~seen, -torch.inf)
    log_total = scores.logsumexp(-1).masked_fill(~seen.any(1), 0.0)
    return torch.exp(scores - log_total[..., None]), log_total / math.log(2)


def _for_each_head(x: Tensor, query: Tensor) -> Tensor:
    """Keys or values in float32, those that several heads share repeated."""
    return x.float().repeat_interleave(query.shape[1] // x.shape[1], dim=1)


@forward.register_fake
def _(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    first: Tensor,
    last: Tensor,
    seen_first: Tensor,
    seen_last: Tensor,
    scale: float,
    dropout: float,
    seed: Tensor | None,
) -> tuple[Tensor, Tensor]:
    log_total = query.new_empty(query.shape[1], query.shape[0], dtype=torch.float32)
    return query.new_empty(query.shape), log_total


@backward.register_fake
def _(
    slope: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    first: Tensor,
    last: Tensor,
    seen_first: Tensor,
    seen_last: Tensor,
    scale: float,
    dropout: float,
    seed: Tensor | None,
    output: Tensor,
    log_total: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    return query.new_empty(query.shape), key.new_empty(key.shape), value.new_empty(value.shape)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:  # noqa: ANN401
    *tensors, ctx.scale, ctx.dropout, seed = inputs
    ctx.save_for_backward(*tensors, seed, *output)


def _slopes(ctx: Any, slope: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
    *inputs, seed, output, log_total = ctx.saved_tensors
    return *backward(slope, *inputs, ctx.scale, ctx.dropout, seed, output, log_total), *[None] * 7


forward.register_autograd(_slopes, setup_context=_keep)
