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

from regard.nn.pattern import Documents


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
    def of(cls, documents: Documents, causal: bool) -> "Spans":
        """The spans of packed sequences; the padding behind them sees nothing and is not seen."""
        asking, answering = documents.query_document[0], documents.key_document[0]
        first, last = _partners(asking, documents.key_lengths, len(answering))
        seen_first, seen_last = _partners(answering, documents.query_lengths, len(asking))
        if causal:
            last = torch.minimum(last, first + 1 + _index(asking, documents.query_lengths))
            seen_first = torch.minimum(seen_last, seen_first + _index(answering, documents.key_lengths))
        return cls(first.int(), last.int(), seen_first.int(), seen_last.int())


def _partners(document: Tensor, lengths: Tensor, total: int) -> tuple[Tensor, Tensor]:
    """For each token, where the sequence of its number begins and ends on the other side."""
    ends = torch.cumsum(lengths, 0)
    own, there = document.clamp(min=0), document >= 0
    return torch.where(there, (ends - lengths)[own], total), torch.where(there, ends[own], total)


def _index(document: Tensor, lengths: Tensor) -> Tensor:
    """For each token, its place in its own sequence."""
    return torch.arange(len(document), device=document.device) - _partners(document, lengths, 0)[0]


def attend_spans(query: Tensor, key: Tensor, value: Tensor, spans: Spans, scale: float) -> Tensor:
    """softmax(qkᵀ·scale) v of each head over each query's span: (queries, heads, head width).

    query (queries, heads, head width); key, value (keys, kv heads, head width). A query whose span is empty finds 0.
    """
    return forward(query, key, value, spans.first, spans.last, spans.seen_first, spans.seen_last, scale)[0]


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
) -> tuple[Tensor, Tensor]:
    """What each query finds, and the logarithm to base 2 of its sum of exponentials (heads, queries)."""
    if query.device.type == "cuda":
        from regard.nn.spans_kernel import attend

        return attend(query, key, value, first, last, scale)
    weights, log_total = _weights(query, key, first, last, scale)
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
    output: Tensor,
    log_total: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    """The slopes of queries, keys and values, where `slope` is that of the output."""
    if query.device.type == "cuda":
        from regard.nn.spans_kernel import slopes

        return slopes(slope, query, key, value, (first, last, seen_first, seen_last), scale, output, log_total)
    weights, _ = _weights(query, key, first, last, scale)
    given, keys = slope.float(), _for_each_head(key, query)
    of_weights = torch.einsum("qhd,khd->hqk", given, _for_each_head(value, query))
    average = (given * output.float()).sum(-1).T[:, :, None]
    of_scores = weights * (of_weights - average) * scale
    of_keys, of_values = (
        x.unflatten(1, (key.shape[1], -1)).sum(2)
        for x in (
            torch.einsum("hqk,qhd->khd", of_scores, query.float()),
            torch.einsum("hqk,qhd->khd", weights, given),
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
    output: Tensor,
    log_total: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    return query.new_empty(query.shape), key.new_empty(key.shape), value.new_empty(value.shape)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:  # noqa: ANN401
    *tensors, ctx.scale = inputs
    ctx.save_for_backward(*tensors, *output)


def _slopes(ctx: Any, slope: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
    *inputs, output, log_total = ctx.saved_tensors
    return *backward(slope, *inputs, ctx.scale, output, log_total), None, None, None, None, None


forward.register_autograd(_slopes, setup_context=_keep)
