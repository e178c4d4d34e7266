"""Sparse attention block by block, on any device, forward and backward, at a cost that is linear in length.

Each block of queries gathers the few blocks of keys and values that it may see and attends to these alone:

    gather    the m blocks of keys and values that a block of queries needs        m·B × d
    score     q·kᵀ for the block                                                    B × m·B
    softmax, weigh                                                                  B × d

None of the weights is kept for the backward pass, which computes each chunk of blocks once more: memory is that of the
queries, keys, values and one chunk, and to compute again is no slower than to fetch so many numbers.
"""

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch._compile import _disable_dynamo
from torch.autograd.function import once_differentiable
from typing_extensions import override

from regard.nn.fast.block_layout import Chunk, Tiling, Within
from regard.nn.pattern import Pattern
from regard.nn.position import Bias

Query = Float[Tensor, "batch heads query head_width"]
Key = Float[Tensor, "batch kv_heads key head_width"]
Cut = Float[Tensor, "_ _ _"]
"""Blocks, tokens of a block (or of all blocks it sees), and numbers for each."""


@_disable_dynamo  # as torch.compiler.disable, which would load the compiler at once: a second of every start
def blocked(
    query: Query, key: Key, value: Key, pattern: Pattern | None, bias: Bias | None, scale: float, dropout: float
) -> Query:
    """Attention over the pairs of a sparse pattern, without ever computing a block where nothing may be seen."""
    assert pattern is not None
    tiling = tiling_of(pattern, query, key)
    tables = None if bias is None else _tables(bias.table.to(query.dtype), tiling)
    work = Work(tiling, bias, scale, dropout)
    y: Cut = _Blocked.apply(work, tiling.cut(query), tiling.cut(key), tiling.cut(value), tables)  # type: ignore[assignment]
    return tiling.join(y)


def tiling_of(pattern: Pattern, query: Query, key: Key) -> Tiling:
    """The pattern's blocks for these tensors, laid out once for all layers; the pattern itself keeps them."""
    known: dict[object, Tiling] = vars(pattern).setdefault("_tilings", {})
    shape = (query.shape[0], query.shape[1], key.shape[1], query.shape[2], query.device)
    if shape not in known:
        within = Within.of(pattern)
        assert within is not None
        known.clear()  # of a pattern that lives long, the last layout only
        known[shape] = Tiling(within, *shape)
    return known[shape]


def _tables(table: Float[Tensor, " #batch #heads #query column"], tiling: Tiling) -> Cut:
    """The bias's tables: one a head, or where tokens have tables of their own, cut into blocks like the queries."""
    if table.shape[0] == table.shape[2] == 1:
        return table[0].expand(tiling.heads, -1, -1)
    return tiling.cut(table.expand(tiling.batch, tiling.heads, tiling.time, -1))


class Work:
    """How the chunks are computed; the same way in both passes."""

    def __init__(self, tiling: Tiling, bias: Bias | None, scale: float, dropout: float) -> None:
        self.tiling, self.bias, self.scale, self.dropout = tiling, bias, scale, dropout
        self.chance = torch.Generator(tiling.device)
        self.seed = int(torch.randint(1 << 62, ())) if dropout else 0

    def restart(self) -> list[Chunk]:
        """All chunks in order, with the same chances each time."""
        self.chance.manual_seed(self.seed)
        return self.tiling.chunks

    def weights(self, chunk: Chunk, query: Cut, key: Cut, table: Cut | None) -> Cut:
        """Softmax of the scores over the gathered keys, in single precision at least."""
        scores = torch.bmm(query * self.scale, key.transpose(1, 2))
        if table is not None:
            scores += table.expand(-1, scores.shape[1], -1).gather(2, self.columns(chunk))
        lowest = torch.finfo(scores.dtype).min  # finite: behind a sequence's end a query may see nothing real at all
        if chunk.masks is not None:
            scores.masked_fill_(~self.tiling.masks[chunk.masks].transpose(1, 2).flatten(2), lowest)
        if chunk.hidden is not None:
            scores.masked_fill_(chunk.hidden, lowest)
        return scores.softmax(-1, dtype=_exact(scores))

    def drop(self, weights: Cut) -> Cut:
        """Some weights silenced, the others made larger; none without dropout."""
        if not self.dropout:
            return weights
        kept = torch.empty_like(weights).bernoulli_(1 - self.dropout, generator=self.chance)
        return weights * kept / (1 - self.dropout)

    def columns(self, chunk: Chunk) -> Int[Tensor, "chunk block tokens"]:
        """The bias's column for each pair."""
        assert self.bias is not None
        index, time = self.tiling.index, self.tiling.time
        asking, answering = index[chunk.queries % len(index)], index[chunk.keys % len(index)].flatten(1)
        columns = self.bias.rule(asking[:, :1, None] // time, asking[:, :, None] % time, answering[:, None] % time)
        return columns.expand(*asking.shape, answering.shape[1])

    def own(self, chunk: Chunk, table: Cut | None) -> Cut | None:
        """The table of each block of queries."""
        return None if table is None else table.index_select(0, self._tables(chunk, table))

    def add_to_table(self, table: Cut, chunk: Chunk, of_scores: Cut) -> None:
        """Adds the slopes of a chunk's scores to those of the bias's tables."""
        found = of_scores.new_zeros(*of_scores.shape[:2], table.shape[-1])
        found.scatter_add_(2, self.columns(chunk), of_scores)
        one_row = table.shape[1] == 1 < found.shape[1]
        table.index_add_(0, self._tables(chunk, table), found.sum(1, keepdim=True) if one_row else found)

    def _tables(self, chunk: Chunk, table: Cut) -> Int[Tensor, " chunk"]:
        one_a_head = table.shape[1] == 1 < self.tiling.block
        return chunk.queries // self.tiling.blocks if one_a_head else chunk.queries


class _Blocked(torch.autograd.Function):
    """Chunk by chunk, forgetting each; the backward pass computes its weights p again.

    With y = pv and the slope g of y: the slope of v is pᵀg, that of the scores p·(gvᵀ − Σ g·y).
    """

    @staticmethod
    @override
    def forward(ctx: Any, work: Work, query: Cut, key: Cut, value: Cut, table: Cut | None) -> Cut:
        y = torch.empty_like(query)
        with torch.autocast(query.device.type, enabled=False):
            for chunk in work.restart():
                asked = query.index_select(0, chunk.queries)
                weights = work.weights(chunk, asked, _seen(key, chunk), work.own(chunk, table))
                y.index_copy_(0, chunk.queries, torch.bmm(work.drop(weights).to(y.dtype), _seen(value, chunk)))
        ctx.work = work
        ctx.save_for_backward(query, key, value, table, y)
        return y

    @staticmethod
    @once_differentiable
    @override
    def backward(ctx: Any, slope: Cut) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        work, (query, key, value, table, y) = ctx.work, ctx.saved_tensors
        slope, level = slope.contiguous(), (slope.to(_exact(y)) * y).sum(-1, keepdim=True)
        of_query, of_key, of_value = (torch.zeros_like(x, dtype=_exact(x)) for x in (query, key, value))
        of_table = torch.zeros_like(table, dtype=_exact(table)) if ctx.needs_input_grad[4] else None
        with torch.autocast(slope.device.type, enabled=False):
            for chunk in work.restart():
                asked, heard = (x.index_select(0, chunk.queries) for x in (query, slope))
                keys = _seen(key, chunk)
                weights = work.weights(chunk, asked, keys, work.own(chunk, table))
                dropped = work.drop(weights)
                _add(of_value, chunk, torch.bmm(dropped.to(y.dtype).transpose(1, 2), heard))
                of_scores = torch.bmm(heard, _seen(value, chunk).transpose(1, 2)).to(weights.dtype).mul_(dropped)
                of_scores.addcmul_(weights, level.index_select(0, chunk.queries), value=-1)
                if of_table is not None:
                    work.add_to_table(of_table, chunk, of_scores)
                of_scores = of_scores.to(y.dtype)
                of_query.index_copy_(0, chunk.queries, torch.bmm(of_scores, keys).to(of_query.dtype))
                _add(of_key, chunk, torch.bmm(of_scores.transpose(1, 2), asked))
        found = [x.to(y.dtype) for x in (of_query.mul_(work.scale), of_key.mul_(work.scale), of_value)]
        return None, *found, None if of_table is None else of_table.to(y.dtype)


def _exact(x: Tensor) -> torch.dtype:
    """What is added up in: single precision at least."""
    return torch.promote_types(x.dtype, torch.float32)


def _seen(x: Cut, chunk: Chunk) -> Cut:
    """The blocks that each block of queries sees, one after another."""
    return x.index_select(0, chunk.keys.flatten()).view(len(chunk.keys), -1, x.shape[-1])


def _add(whole: Cut, chunk: Chunk, parts: Cut) -> None:
    """Adds to each block what the blocks of queries that saw it have to say."""
    whole.index_add_(0, chunk.keys.flatten(), parts.view(-1, *whole.shape[1:]).to(whole.dtype))
