"""Blocks for one token a row over a static KV cache: by torch's kernels, or by five fused ones.

Nothing they touch moves or grows, so a step made of them can be captured in a CUDA graph.
"""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.models.decoding.step import Key, QKVProjection, Query, Statistics, Value, Vectors, linear_of
from regard.nn.attention.heads import HeadProjection, split_heads
from regard.nn.attention.reference import reference_attention
from regard.nn.block import Block, Residual
from regard.nn.cache import KVCache
from regard.nn.context import AttentionContext
from regard.nn.fast.decode import StaticKVCache, append_to_cache, decode_attention, shared_cache_attention
from regard.nn.fast.linear import MAX_ROWS, FoldedLinear, foldable, linear_residual, norm_linear
from regard.nn.feedforward import FeedForward, GatedFeedForward
from regard.nn.head import VocabularyHead
from regard.nn.pattern import Padding

Rows = Float[Tensor, "rows width"]
FUSED_DTYPES = (torch.float32, torch.bfloat16, torch.float16)


class StaticBlock:
    """The block's own modules, with attention over the static cache."""

    def __init__(self, block: Block) -> None:
        self.block = block
        self.qkv = QKVProjection(block.attention) if QKVProjection.fits(block.attention) else None

    def __call__(
        self, x: Vectors, statistics: Statistics, context: AttentionContext, cache: StaticKVCache, layer: int
    ) -> tuple[Vectors, Statistics]:
        block = self.block
        x = block.around_attention(x, lambda x: self._self_attention(x, context, cache, layer))
        if block.cross is not None and block.around_cross is not None and cache.source_kv:
            x = block.around_cross(x, lambda x: self._cross_attention(x, cache, layer))
        if block.feedforward is not None and block.around_feedforward is not None:
            x = block.around_feedforward(x, block.feedforward)
        return x, None

    def _self_attention(self, x: Vectors, context: AttentionContext, cache: StaticKVCache, layer: int) -> Vectors:
        attention = self.block.attention
        if self.qkv is None:
            q, k, v = attention.query(x), attention.key(x), attention.value(x)
        else:
            q, k, v = self.qkv.split(nn.functional.linear(x, self.qkv.weight, self.qkv.bias))
        return attention.output(self.attend(q, k, v, context, cache, layer)[:, None])

    def attend(
        self, q: Query, k: Key, v: Value, context: AttentionContext, cache: StaticKVCache, layer: int
    ) -> Float[Tensor, "rows all"]:
        """Self-attention before the output projection; k and v are appended to the cache."""
        position, scale, kv = self.block.attention.position, self.block.attention.scale, cache.layers[layer]
        q, k = position.rotate(q, context.query_positions), position.rotate(k, context.query_positions)
        v = position.on_values(v, context.query_positions)
        bias = position.on_scores(q, scale, context)
        if position.needs_weights:
            append_to_cache(k[:, :, 0], v[:, :, 0], kv.keys, kv.values, cache.lengths)
            values_by_distance = lambda weights: position.values(weights, context)  # noqa: E731
            mask = Padding(keys=cache.lengths + 1)
            steps = reference_attention(q, kv.keys, kv.values, mask, bias, scale, values_by_distance=values_by_distance)
            return steps.output[:, :, 0].flatten(1)
        shape = (*q.shape[:2], kv.keys.shape[2])
        dense = None if bias is None else bias.dense(shape[0], 1, shape[2])[:, :, 0].expand(shape)
        q, k, v = (x[:, :, 0] for x in (q, k, v))
        return decode_attention(q, k, v, kv.keys, kv.values, cache.lengths, dense, scale).flatten(1)

    def _cross_attention(self, x: Vectors, cache: StaticKVCache, layer: int) -> Vectors:
        cross = self.block.cross
        assert cross is not None
        return cross.output(self.attend_source(cross.query(x)[:, :, 0], cache.source_kv[layer], cache)[:, None])

    def attend_source(
        self, q: Float[Tensor, "rows heads head_width"], source_kv: KVCache, cache: StaticKVCache
    ) -> Float[Tensor, "rows all"]:
        """Cross-attention before the output projection."""
        assert self.block.cross is not None
        y = shared_cache_attention(
            q, source_kv.keys, source_kv.values, cache.source_lengths, cache.source_rows, self.block.cross.scale
        )
        return y.flatten(1)


def fusable(block: Block) -> bool:
    """Whether the fused kernels support all parts of a block: pre-norm, plain projections, one dtype."""
    around = [block.around_attention, block.around_cross, block.around_feedforward]
    projections = [block.attention.query, block.attention.key, block.attention.value]
    outputs, dtypes = [block.attention.output], {weight.dtype for weight in block.parameters()}
    if block.cross is not None:
        projections, outputs = [*projections, block.cross.query], [*outputs, block.cross.output]
    return (
        all(_pre_norm(residual) for residual in around if residual is not None)
        and all(type(part) is HeadProjection for part in projections)
        and all(type(part) is nn.Linear for part in outputs)
        and (block.feedforward is None or type(block.feedforward) in (FeedForward, GatedFeedForward))
        and len(dtypes) == 1
        and dtypes <= set(FUSED_DTYPES)
    )


def _pre_norm(residual: Residual) -> bool:
    return residual.norm_place == "before" and residual.connected and foldable(residual.norm)


def static_block(block: Block) -> StaticBlock:
    """The block by fused kernels where they support it."""
    return FusedBlock(block) if fusable(block) else StaticBlock(block)


class FusedBlock(StaticBlock):
    """x ← x + W f(norm(x)) by one kernel for each weight, and one for each attention.

    Weights behind a norm are copied, with its gain folded in.
    """

    def __init__(self, block: Block) -> None:
        super().__init__(block)
        assert self.qkv is not None
        cross, feedforward = block.cross, block.feedforward
        self.qkv_linear = FoldedLinear.of(self.qkv.weight, self.qkv.bias, block.around_attention.norm)
        self.output = _without_norm(block.attention.output)
        if cross is not None and block.around_cross is not None:
            query = linear_of(cross.query)
            self.cross_query = FoldedLinear.of(query.weight, query.bias, block.around_cross.norm)
            self.cross_output = _without_norm(cross.output)
        if isinstance(feedforward, FeedForward | GatedFeedForward) and block.around_feedforward is not None:
            self.up = FoldedLinear.of(*_up_projection(feedforward), block.around_feedforward.norm)
            self.down = _without_norm(feedforward.down)

    def __call__(
        self, x: Vectors, statistics: Statistics, context: AttentionContext, cache: StaticKVCache, layer: int
    ) -> tuple[Vectors, Statistics]:
        if len(x) > MAX_ROWS:
            return super().__call__(x, statistics, context, cache, layer)
        rows, statistics = self._fused_self_attention(x[:, 0], statistics, context, cache, layer)
        if cache.source_kv:
            rows, statistics = self._fused_cross_attention(rows, statistics, cache, layer)
        rows, statistics = self._fused_feedforward(rows, statistics)
        return rows[:, None], statistics

    def _fused_self_attention(
        self, x: Rows, statistics: Statistics, context: AttentionContext, cache: StaticKVCache, layer: int
    ) -> tuple[Rows, Statistics]:
        assert self.qkv is not None
        q, k, v = self.qkv.split(norm_linear(x, self.qkv_linear, statistics=statistics)[:, None])
        return linear_residual(x, self.attend(q, k, v, context, cache, layer), self.output)

    def _fused_cross_attention(
        self, x: Rows, statistics: Statistics, cache: StaticKVCache, layer: int
    ) -> tuple[Rows, Statistics]:
        assert self.block.cross is not None
        q = split_heads(norm_linear(x, self.cross_query, statistics=statistics)[:, None], self.block.cross.heads)
        return linear_residual(x, self.attend_source(q[:, :, 0], cache.source_kv[layer], cache), self.cross_output)

    def _fused_feedforward(self, x: Rows, statistics: Statistics) -> tuple[Rows, Statistics]:
        feedforward = self.block.feedforward
        if not isinstance(feedforward, FeedForward | GatedFeedForward):
            return x, statistics
        gated = isinstance(feedforward, GatedFeedForward)
        inner = norm_linear(x, self.up, feedforward.activation, gated, statistics=statistics)
        return linear_residual(x, inner, self.down)


def fused_head(head: nn.Module, norm: nn.Module) -> Callable[[Vectors, Statistics], Float[Tensor, "rows vocab"]] | None:
    """Final norm and logits by one kernel; None where it does not support them."""
    if not isinstance(head, VocabularyHead) or not foldable(norm) or head.weight.dtype not in FUSED_DTYPES:
        return None
    shared = head._shared[0]
    special = head.transform is not None or head.scale != 1.0 or head.never is not None
    if special or (shared is not None and shared.up is not None):
        return None
    linear = FoldedLinear.of(head.weight, head.bias, norm)
    return lambda x, statistics: norm_linear(x[:, 0], linear, statistics=statistics)


def _without_norm(part: nn.Module) -> FoldedLinear:
    linear = linear_of(part)
    return FoldedLinear.of(linear.weight, linear.bias, nn.Identity())


def _up_projection(feedforward: FeedForward | GatedFeedForward) -> tuple[Tensor, Tensor | None]:
    """Weight and bias of the first layer; of a gated one, those of gate and value, one below the other."""
    if not isinstance(feedforward, GatedFeedForward):
        return feedforward.up.weight, feedforward.up.bias
    gate, up = feedforward.gate, feedforward.up
    bias = None if gate.bias is None else torch.cat([gate.bias, up.bias]).detach()
    return torch.cat([gate.weight, up.weight]).detach(), bias
