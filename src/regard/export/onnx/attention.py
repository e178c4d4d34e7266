"""Attention as a graph has it: nothing but tensors, sizes that are symbols, a cache that grows by appending."""

from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.models.convolutional.convs2s import ROOT_HALF, MultiStepAttention, SourceKV
from regard.nn.attention.heads import join_heads
from regard.nn.attention.linformer import Linformer
from regard.nn.attention.memory_compressed import Compression, MemoryCompressed
from regard.nn.attention.module import NO_POSITION, Attention
from regard.nn.cache import CacheLengths, KVCache
from regard.nn.context import AttentionContext
from regard.nn.pattern import Pattern
from regard.nn.position import Bias, Position, Relative
from regard.nn.position.base import Rule

HIDDEN = -1e30
"""The score of a pair that may not be seen; infinity would make 0/0 of a query that sees nothing."""


class Seen(Pattern):
    """A pattern that is a matrix already."""

    def __init__(self, mask: Tensor, valid: Tensor | None = None, *, may_mask_all_keys: bool = False) -> None:
        self.mask, self.may_mask_all_keys = mask, may_mask_all_keys
        self.valid = valid
        """True where a token stands; None where one stands everywhere."""


class Growing(KVCache):
    """Keys and values to which new ones are appended."""

    def append(self, keys: Tensor, values: Tensor, cache_lengths: CacheLengths) -> tuple[Tensor, Tensor]:
        """All there are so far."""
        self.keys, self.values = torch.cat([self.keys, keys], 2), torch.cat([self.values, values], 2)
        return self.keys, self.values


def rewrite_attention(part: nn.Module, room: int) -> None:
    """Gives an attention the form that can be traced; no sequence is longer than the room."""
    if isinstance(part, Attention):
        part._attend = GraphAttention(part)  # type: ignore[method-assign]
    if isinstance(part, Linformer):
        part.forward = partial(attend_mixtures, part)  # type: ignore[method-assign]
    elif isinstance(part, MemoryCompressed):
        part.forward = partial(attend_slots, part, room)  # type: ignore[method-assign]
    elif isinstance(part, MultiStepAttention):
        part.forward = partial(attend_once, part)  # type: ignore[method-assign]


class GraphAttention:
    """Steps two to four of attention with nothing but tensors."""

    def __init__(self, attention: Attention) -> None:
        self.scale, self.heads = attention.scale, attention.heads

    def __call__(
        self, query: Tensor, key: Tensor, value: Tensor, context: AttentionContext, position: Position
    ) -> Tensor:
        """softmax(QKᵀ·scale + bias) V over the pairs that may be seen."""
        key, value = self._for_each_head(key), self._for_each_head(value)
        scores = query @ key.transpose(-2, -1) * self.scale
        bias = position.on_scores(query, self.scale, context)
        if bias is not None:
            scores = scores + dense_bias(bias, query.shape[2], key.shape[2])
        weights = weigh(scores, context.pattern)
        if isinstance(position, Relative) and position.value_table is not None:
            return weights @ value + on_distances(weights, position, position.value_table, context)
        return weights @ value

    def _for_each_head(self, x: Tensor) -> Tensor:
        return x if x.shape[1] == self.heads else x.repeat_interleave(self.heads // x.shape[1], dim=1)


def weigh(scores: Tensor, pattern: Pattern | None) -> Tensor:
    """Softmax over the keys that may be seen; zero where there are none."""
    if not isinstance(pattern, Seen):
        return scores.softmax(-1)
    weights = scores.masked_fill(~pattern.mask, HIDDEN).softmax(-1)
    return weights * pattern.mask.any(-1, keepdim=True) if pattern.may_mask_all_keys else weights


def all_pairs(rule: Rule, queries: Any, keys: Any) -> Tensor:  # noqa: ANN401
    """A rule's column for each pair, whatever the sizes are."""
    query, key = torch.arange(queries)[None, :, None], torch.arange(keys)[None, None, :]
    return rule(torch.zeros(1, 1, 1, dtype=torch.long), query, key)[:, None]


def on_distances(weights: Tensor, position: Relative, table: Tensor, context: AttentionContext) -> Tensor:
    """Σ_j α_ij b_ij: the weight on each distance times that distance's vector."""
    columns = all_pairs(position.column(context)[0], weights.shape[2], weights.shape[3])
    sums = weights.new_zeros(weights.shape[0], weights.shape[1], weights.shape[2], table.shape[0])
    return sums.scatter_add(3, columns.expand_as(weights), weights) @ table


def dense_bias(bias: Bias, queries: Any, keys: Any) -> Tensor:  # noqa: ANN401
    """The bias as a matrix."""
    columns, table = all_pairs(bias.rule, queries, keys), bias.table
    table = table.expand(table.shape[0], table.shape[1], queries, table.shape[3])
    return torch.gather(table, 3, columns.expand(table.shape[0], table.shape[1], queries, keys))


def attend_mixtures(part: Linformer, x: Tensor, context: AttentionContext, *without_cache: None) -> Tensor:
    """Linformer over padded rows: padding is zero before it is mixed in."""
    places = torch.arange(x.shape[1])[None]
    query, key = (part.position.rotate(map_(x), places) for map_ in (part.query, part.key))
    key, value = (hide(one, context) for one in (key, part.value(x)))
    for_keys, for_values = part.projections()
    key, value = for_keys(key), for_values(value)
    mixtures = torch.arange(key.shape[2])[None]
    return part.output(
        join_heads(part._attend(query, key, value, AttentionContext(None, places, mixtures), NO_POSITION))
    )


def attend_slots(
    part: MemoryCompressed,
    room: int,
    x: Tensor,
    context: AttentionContext,
    cache: KVCache | None = None,
    cache_lengths: CacheLengths | None = None,
) -> Tensor:
    """Memory-compressed attention: an encoder to all slots; a decoder to those that are over and to its own block."""
    query, key, value = part.position.rotate(part.query(x), context.query_positions), part.key(x), part.value(x)
    if cache is not None and cache_lengths is not None:
        key, value = cache.append(key, value, cache_lengths)
    key, value = hide(key, context), hide(value, context)
    slot_keys, slot_values = shorten(part.compress_keys, key), shorten(part.compress_values, value)
    slots, tokens = torch.arange(slot_keys.shape[2]), torch.arange(key.shape[2])
    begins = (slots * part.stride)[None]
    slot_keys = part.position.rotate(slot_keys, begins)
    if not part.causal:
        holds_token = begins < _lengths(context, tokens)[:, None]
        seen = AttentionContext(Seen(holds_token[:, None, None]), context.query_positions, begins, length=room)
        return part.output(join_heads(part._attend(query, slot_keys, slot_values, seen, part.position)))
    place = context.query_positions[..., None]
    over = (slots + 1) * part.stride <= place
    near = (tokens // part.block == place // part.block) & (tokens <= place)
    keys = torch.cat([slot_keys, part.position.rotate(key, tokens[None])], 2)
    places = torch.cat([begins, tokens[None]], 1)
    seen = AttentionContext(Seen(torch.cat([over, near], -1)[:, None]), context.query_positions, places, length=room)
    heard = part._attend(query, keys, torch.cat([slot_values, value], 2), seen, part.position)
    return part.output(join_heads(heard))


def shorten(part: Compression, x: Tensor) -> Tensor:
    """One vector for each span: the first tokens of all spans, their second tokens and so on, laid side by side.

    Behind them stands one of nothing, which nobody may see: tracing would take a single slot for a rule.
    """
    stride, end = part.stride, x.shape[2] + part.stride
    padded = F.pad(x, (0, 0, 0, 2 * stride - 1))
    y = torch.cat([padded[:, :, first : first + end : stride] for first in range(stride)], -1) @ part.weight
    return y if part.bias is None else y + part.bias


def hide(x: Tensor, context: AttentionContext) -> Tensor:
    """Zero where no token stands."""
    valid = context.pattern.valid if isinstance(context.pattern, Seen) else None
    return x if valid is None else x.masked_fill(~valid[:, None, :, None], 0.0)


def _lengths(context: AttentionContext, tokens: Tensor) -> Tensor:
    valid = context.pattern.valid if isinstance(context.pattern, Seen) else None
    return (tokens + 1).amax()[None] if valid is None else valid.sum(-1)


def attend_once(part: MultiStepAttention, h: Tensor, written: Tensor, heard: SourceKV) -> Tensor:
    """The attention of a ConvS2S layer."""
    query = (part.query(h) + written) * ROOT_HALF
    mask = torch.arange(heard.keys.shape[1]) < heard.lengths[:, None, None]
    context = weigh(query @ heard.keys.transpose(1, 2), Seen(mask)) @ heard.values
    return part.output(context * heard.lengths[:, None, None].to(context.dtype).sqrt())
