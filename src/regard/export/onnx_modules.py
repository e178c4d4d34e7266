"""The parts of a model that become ONNX graphs: the encoder, one step of the decoder with its cache, the classifier.

A graph has no Python in it: attention is written out with nothing but tensors, sizes stay symbols, and a cache grows
by concatenation instead of being written into.
"""

import copy
from typing import Any

import torch
from torch import Tensor, nn

from regard.models.stack import Stack
from regard.nn.attention import Attention
from regard.nn.cache import Clock, KeyValues
from regard.nn.pattern import Pattern
from regard.nn.position import Bias, Position, Relative
from regard.nn.position.bias import Rule
from regard.nn.sight import Sight


class Seen(Pattern):
    """A pattern that is a matrix already."""

    def __init__(self, mask: Tensor) -> None:
        self.mask = mask


class Growing(KeyValues):
    """Keys and values to which new ones are appended."""

    def append(self, keys: Tensor, values: Tensor, clock: Clock) -> tuple[Tensor, Tensor]:
        """All there are so far."""
        self.keys, self.values = torch.cat([self.keys, keys], 2), torch.cat([self.values, values], 2)
        return self.keys, self.values


class GraphAttention:
    """Steps two to four of attention with nothing but tensors."""

    def __init__(self, attention: Attention) -> None:
        self.scale, self.heads = attention.scale, attention.heads

    def __call__(self, query: Tensor, key: Tensor, value: Tensor, sight: Sight, position: Position) -> Tensor:
        """softmax(QKᵀ·scale + bias) V over the pairs that may be seen."""
        key, value = self._for_each_head(key), self._for_each_head(value)
        scores = query @ key.transpose(-2, -1) * self.scale
        bias = position.bias(query * self.scale, sight)
        if bias is not None:
            scores = scores + dense_bias(bias, query.shape[2], key.shape[2])
        if isinstance(sight.pattern, Seen):
            scores = scores.masked_fill(~sight.pattern.mask, -1e30)
        weights = scores.softmax(-1)
        if isinstance(position, Relative) and position.value_table is not None:
            return weights @ value + on_distances(weights, position, position.value_table, sight)
        return weights @ value

    def _for_each_head(self, x: Tensor) -> Tensor:
        return x if x.shape[1] == self.heads else x.repeat_interleave(self.heads // x.shape[1], dim=1)


def all_pairs(rule: Rule, queries: Any, keys: Any) -> Tensor:  # noqa: ANN401
    """A rule's column for each pair, whatever the sizes are."""
    query, key = torch.arange(queries)[None, :, None], torch.arange(keys)[None, None, :]
    return rule(torch.zeros(1, 1, 1, dtype=torch.long), query, key)[:, None]


def on_distances(weights: Tensor, position: Relative, table: Tensor, sight: Sight) -> Tensor:
    """Σ_j α_ij b_ij: the weight on each distance times that distance's vector."""
    columns = all_pairs(position.column(sight)[0], weights.shape[2], weights.shape[3])
    sums = weights.new_zeros(weights.shape[0], weights.shape[1], weights.shape[2], table.shape[0])
    return sums.scatter_add(3, columns.expand_as(weights), weights) @ table


def dense_bias(bias: Bias, queries: Any, keys: Any) -> Tensor:  # noqa: ANN401
    """The bias as a matrix."""
    columns, table = all_pairs(bias.rule, queries, keys), bias.table
    table = table.expand(table.shape[0], table.shape[1], queries, table.shape[3])
    return torch.gather(table, 3, columns.expand(table.shape[0], table.shape[1], queries, keys))


def for_graph(model: nn.Module) -> Any:  # noqa: ANN401
    """A copy of a model whose attention can be traced."""
    twin = copy.deepcopy(model).float().cpu().eval()
    for part in twin.modules():
        if isinstance(part, Attention):
            part._attend = GraphAttention(part)  # type: ignore[method-assign]
    return twin


def seen(stack: Stack, room: int, queries: Tensor, keys: Tensor) -> Tensor:
    """Which of the keys' places each query's place may see, padding aside."""
    zero = torch.zeros(1, 1, 1, 1, dtype=torch.long)
    heads = torch.arange(stack.config.heads)[None, :, None, None]
    query, key = queries[:, None, :, None], keys[:, None, None, :]
    pattern = stack.attention.pattern(stack.config.heads, room, stack.causal, "cpu")
    everything = (query >= 0) & (key >= 0)
    return everything if pattern is None else everything & pattern.allowed(zero, heads, query, key)


def read_whole(stack: Stack, x: Tensor, lengths: Tensor, room: int) -> Tensor:
    """A stack over whole padded rows."""
    places = torch.arange(x.shape[1])[None]
    mask = seen(stack, room, places, places) & (places[:, None, None, :] < lengths[:, None, None, None])
    return stack(x, Sight(Seen(mask), places, places), places < lengths[:, None])


class ReadSource(nn.Module):
    """The encoder, and the keys and values that each block of the decoder listens to."""

    def __init__(self, model: nn.Module, room: int) -> None:
        super().__init__()
        self.model, self.room = for_graph(model), room

    def forward(self, tokens: Tensor, lengths: Tensor) -> list[Tensor]:
        """Key and value of every block."""
        encoded = read_whole(self.model.encoder, self.model.source_embedding(tokens), lengths, self.room)
        return [part for heard in self.model.decoder.remember(encoded) for part in (heard.keys, heard.values)]


class WriteOn(nn.Module):
    """One step of a decoder: tokens and what was written before, to logits and what is written now."""

    def __init__(self, model: nn.Module, room: int) -> None:
        super().__init__()
        self.model, self.room = for_graph(model), room
        pair = hasattr(self.model, "decoder")
        self.stack: Stack = self.model.decoder if pair else self.model.stack
        self.embedding = self.model.target_embedding if pair else self.model.embedding
        self.clock = Clock.start(1, room, "cpu")

    def forward(
        self, tokens: Tensor, past: list[Tensor], heard: list[Tensor] | None = None, lengths: Tensor | None = None
    ) -> tuple[Tensor, list[Tensor]]:
        """Logits of what follows each token, and the cache with these tokens in it."""
        written = past[0].shape[2]
        queries = (torch.arange(tokens.shape[1]) + written)[None]
        keys = torch.arange(written + tokens.shape[1])[None]
        sight = Sight(Seen(seen(self.stack, self.room, queries, keys)), queries, keys)
        source, across = None, None
        if heard is not None and lengths is not None:
            source = paired(heard, KeyValues)
            places = torch.arange(heard[0].shape[2])[None]
            across = Sight(Seen(places[:, None, None, :] < lengths[:, None, None, None]), queries, places)
        caches = paired(past, Growing)
        x = self.stack(self.embedding(tokens), sight, None, source, across, caches, self.clock)
        return self.model.head(x), [part for cache in caches for part in (cache.keys, cache.values)]


class Classify(nn.Module):
    """A text to the scores of its labels."""

    def __init__(self, model: nn.Module, room: int) -> None:
        super().__init__()
        self.model, self.room = for_graph(model), room

    def forward(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """One row of scores a text."""
        x = read_whole(self.model.stack, self.model.embedding(tokens), lengths, self.room)
        places = torch.arange(tokens.shape[1])[None]
        return self.model.head(x, places < lengths[:, None])


def paired(parts: list[Tensor], kind: type[KeyValues]) -> list[KeyValues]:
    """Keys and values by turns, block by block."""
    return [kind(keys, values) for keys, values in zip(parts[::2], parts[1::2], strict=True)]
