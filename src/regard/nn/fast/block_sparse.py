"""Block-sparse attention on any device, forward and backward, at a cost that is linear in length.

Each block of queries gathers the few blocks of keys and values that it may attend to, and attends to these alone:

    gather    the m blocks of keys and values that a block of queries needs        m·B × d
    scores    q·kᵀ for the block                                                    B × m·B
    softmax, weighted sum                                                           B × d

No weights are kept for the backward pass, which computes each chunk of blocks once more: memory is that of queries,
keys, values and one chunk, and recomputing weights is no slower than loading them.
"""

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch._compile import _disable_dynamo
from torch.autograd.function import once_differentiable
from typing_extensions import override

from regard.nn.fast.block_layout import BlockLayout, Chunk, SequencePattern
from regard.nn.fast.memo import memo
from regard.nn.pattern import Pattern
from regard.nn.position import Bias

Query = Float[Tensor, "batch heads query head_width"]
Key = Float[Tensor, "batch kv_heads key head_width"]
Value = Float[Tensor, "batch kv_heads key value_width"]
Output = Float[Tensor, "batch heads query value_width"]
Blocked = Float[Tensor, "_ _ _"]
"""Blocks, tokens of a block (or of all blocks that are gathered for it), and elements of each."""


@_disable_dynamo  # as torch.compiler.disable, which would import the compiler: a second at every start
def block_sparse_attention(
    q: Query, k: Key, v: Value, pattern: Pattern | None, bias: Bias | None, scale: float, dropout: float
) -> Output:
    """Attention over the pairs of a sparse pattern; blocks where all pairs are masked are never computed."""
    assert pattern is not None
    layout = block_layout(pattern, q, k)
    tables = None if bias is None else _bias_tables(bias.table.to(q.dtype), layout)
    weights = ChunkWeights(layout, bias, scale, dropout)
    q, k, v = (layout.to_blocks(x) for x in (q, k, v))
    y: Blocked = _BlockSparse.apply(weights, q, k, v, tables)  # type: ignore[assignment]
    return layout.from_blocks(y)


def block_layout(pattern: Pattern, q: Query, k: Key) -> BlockLayout:
    """The pattern's blocks for these tensors, built once for all layers."""
    shape = (q.shape[0], q.shape[1], k.shape[1], q.shape[2], q.device)

    def build() -> BlockLayout:
        sequence_pattern = SequencePattern.of(pattern)
        assert sequence_pattern is not None
        return BlockLayout(sequence_pattern, *shape)

    return memo(pattern, ("block layout", *shape), build, keep=1)


def _bias_tables(table: Float[Tensor, " #batch #heads #query column"], layout: BlockLayout) -> Blocked:
    """The bias's tables: one a head, or where tokens have tables of their own, in blocks like the queries."""
    if table.shape[0] == table.shape[2] == 1:
        return table[0].expand(layout.heads, -1, -1)
    return layout.to_blocks(table.expand(layout.batch, layout.heads, layout.time, -1))


class ChunkWeights:
    """The attention weights of a chunk; the same in both passes."""

    def __init__(self, layout: BlockLayout, bias: Bias | None, scale: float, dropout: float) -> None:
        self.layout, self.bias, self.scale, self.dropout = layout, bias, scale, dropout
        self.generator = torch.Generator(layout.device)
        self.seed = int(torch.randint(1 << 62, ())) if dropout else 0

    def chunks(self) -> list[Chunk]:
        """All chunks in order; dropout then draws the same masks each time."""
        self.generator.manual_seed(self.seed)
        return self.layout.chunks

    def __call__(self, chunk: Chunk, q: Blocked, k: Blocked, tables: Blocked | None) -> Blocked:
        """Softmax of the scores over the gathered keys, in float32 at least."""
        scores = torch.bmm(q * self.scale, k.transpose(1, 2))
        if tables is not None:
            table = tables.index_select(0, self._table_index(chunk, tables))
            scores += table.expand(-1, scores.shape[1], -1).gather(2, self._columns(chunk))
        lowest = torch.finfo(scores.dtype).min  # finite: behind a sequence's end, all keys of a query may be padding
        if chunk.masks is not None:
            scores.masked_fill_(~self.layout.masks[chunk.masks].transpose(1, 2).flatten(2), lowest)
        if chunk.padding is not None:
            scores.masked_fill_(chunk.padding, lowest)
        return scores.softmax(-1, dtype=_accumulation_dtype(scores))

    def drop(self, weights: Blocked) -> Blocked:
        """Dropout, if any."""
        if not self.dropout:
            return weights
        mask = torch.empty_like(weights).bernoulli_(1 - self.dropout, generator=self.generator)
        return weights * mask / (1 - self.dropout)

    def add_to_tables(self, grad_tables: Blocked, chunk: Chunk, grad_scores: Blocked) -> None:
        """Adds the gradients of a chunk's scores to those of the bias's tables."""
        grad_table = grad_scores.new_zeros(*grad_scores.shape[:2], grad_tables.shape[-1])
        grad_table.scatter_add_(2, self._columns(chunk), grad_scores)
        one_row = grad_tables.shape[1] == 1 < grad_table.shape[1]
        grad_table = grad_table.sum(1, keepdim=True) if one_row else grad_table
        grad_tables.index_add_(0, self._table_index(chunk, grad_tables), grad_table)

    def _columns(self, chunk: Chunk) -> Int[Tensor, "chunk block tokens"]:
        """The bias's column for each pair."""
        assert self.bias is not None
        index, time = self.layout.index, self.layout.time
        query, key = index[chunk.queries % len(index)], index[chunk.keys % len(index)].flatten(1)
        columns = self.bias.rule(query[:, :1, None] // time, query[:, :, None] % time, key[:, None] % time)
        return columns.expand(*query.shape, key.shape[1])

    def _table_index(self, chunk: Chunk, tables: Blocked) -> Int[Tensor, " chunk"]:
        one_a_head = tables.shape[1] == 1 < self.layout.block
        return chunk.queries // self.layout.blocks if one_a_head else chunk.queries


class _BlockSparse(torch.autograd.Function):
    """One chunk at a time, keeping none; the backward pass recomputes its weights p.

    With y = p v: grad_v = pᵀ grad_y, and grad_scores = p·(grad_y vᵀ − delta) with delta = Σ grad_y·y.
    """

    @staticmethod
    @override
    def forward(ctx: Any, weights: ChunkWeights, q: Blocked, k: Blocked, v: Blocked, tables: Blocked | None) -> Blocked:
        y = q.new_empty(*q.shape[:-1], v.shape[-1])
        with torch.autocast(q.device.type, enabled=False):
            for chunk in weights.chunks():
                p = weights(chunk, q.index_select(0, chunk.queries), _gather(k, chunk), tables)
                y.index_copy_(0, chunk.queries, torch.bmm(weights.drop(p).to(y.dtype), _gather(v, chunk)))
        ctx.weights = weights
        ctx.save_for_backward(q, k, v, tables, y)
        return y

    @staticmethod
    @once_differentiable
    @override
    def backward(ctx: Any, grad_output: Blocked) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        weights, (q, k, v, tables, y) = ctx.weights, ctx.saved_tensors
        grad_output = grad_output.contiguous()
        delta = (grad_output.to(_accumulation_dtype(y)) * y).sum(-1, keepdim=True)
        grad_q, grad_k, grad_v = (torch.zeros_like(x, dtype=_accumulation_dtype(x)) for x in (q, k, v))
        learned = ctx.needs_input_grad[4]
        grad_tables = torch.zeros_like(tables, dtype=_accumulation_dtype(tables)) if learned else None
        with torch.autocast(grad_output.device.type, enabled=False):
            for chunk in weights.chunks():
                q_block, grad_block = (x.index_select(0, chunk.queries) for x in (q, grad_output))
                k_blocks = _gather(k, chunk)
                p = weights(chunk, q_block, k_blocks, tables)
                dropped = weights.drop(p)
                _scatter_add(grad_v, chunk, torch.bmm(dropped.to(y.dtype).transpose(1, 2), grad_block))
                grad_scores = torch.bmm(grad_block, _gather(v, chunk).transpose(1, 2)).to(p.dtype).mul_(dropped)
                grad_scores.addcmul_(p, delta.index_select(0, chunk.queries), value=-1)
                if grad_tables is not None:
                    weights.add_to_tables(grad_tables, chunk, grad_scores)
                grad_scores = grad_scores.to(y.dtype)
                grad_q.index_copy_(0, chunk.queries, torch.bmm(grad_scores, k_blocks).to(grad_q.dtype))
                _scatter_add(grad_k, chunk, torch.bmm(grad_scores.transpose(1, 2), q_block))
        gradients = [x.to(y.dtype) for x in (grad_q.mul_(weights.scale), grad_k.mul_(weights.scale), grad_v)]
        return None, *gradients, None if grad_tables is None else grad_tables.to(y.dtype)


def _accumulation_dtype(x: Tensor) -> torch.dtype:
    return torch.promote_types(x.dtype, torch.float32)


def _gather(x: Blocked, chunk: Chunk) -> Blocked:
    """The blocks that each block of queries needs, one after another."""
    return x.index_select(0, chunk.keys.flatten()).view(len(chunk.keys), -1, x.shape[-1])


def _scatter_add(total: Blocked, chunk: Chunk, gradients: Blocked) -> None:
    """Adds to each block the gradients from all blocks of queries that gathered it."""
    total.index_add_(0, chunk.keys.flatten(), gradients.view(-1, *total.shape[1:]).to(total.dtype))
