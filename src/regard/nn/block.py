"""The block: self-attention, in a decoder with a source cross-attention, then the feed-forward network.

Each sub-layer f has a norm and a residual connection:

    pre-norm    x ← x + f(norm(x))      trains without warm-up
    post-norm   x ← norm(x + f(x))      Vaswani 2017
"""

from collections.abc import Callable
from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.nn.attention.module import Attention, CrossAttention
from regard.nn.cache import CacheLengths, KVCache
from regard.nn.context import AttentionContext
from regard.nn.dropout import DropLayers, Dropout

NormPlace = Literal["before", "after"]
Vectors = Float[Tensor, "batch time width"]


class Residual(nn.Module):
    """Norm, dropout and residual connection of one sub-layer; `connected=False` removes x + …, to show what it does."""

    def __init__(
        self,
        norm: nn.Module,
        norm_place: NormPlace = "before",
        connected: bool = True,
        dropout: float = 0.0,
        layer_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.norm, self.norm_place, self.connected = norm, norm_place, connected
        self.dropout = nn.Sequential(Dropout(dropout), DropLayers(layer_dropout))

    def forward(self, x: Vectors, f: Callable[[Vectors], Vectors]) -> Vectors:
        """x + f(norm(x)) or norm(x + f(x))."""
        if self.norm_place == "before":
            return self.add(x, f(self.norm(x)))
        return self.norm(self.add(x, f(x)))

    def add(self, x: Vectors, change: Vectors) -> Vectors:
        """x + change, or the change alone where the connection is removed."""
        return x + self.drop(change, x.dtype) if self.connected else self.dropout(change)

    def drop(self, change: Vectors, dtype: torch.dtype) -> Vectors:
        """Dropout; the result is no wider than the residual stream's `dtype`, which must not change in a block."""
        change = self.dropout(change)
        return change.to(dtype) if torch.promote_types(dtype, change.dtype) != dtype else change


class Block(nn.Module):
    """One layer of a Transformer. An encoder's has attention and feed-forward network; a decoder's has the same under
    a causal mask, and between them `cross`, if there is a source."""

    def __init__(
        self,
        attention: Attention,
        around_attention: Residual,
        feedforward: nn.Module | None = None,
        around_feedforward: Residual | None = None,
        cross: CrossAttention | None = None,
        around_cross: Residual | None = None,
    ) -> None:
        super().__init__()
        self.attention, self.around_attention = attention, around_attention
        self.cross, self.around_cross = cross, around_cross
        self.feedforward, self.around_feedforward = feedforward, around_feedforward

    # As `forward` names them. The attributes above are the parameters' names in checkpoints.
    attention_norm = property(lambda self: self.around_attention.norm)
    cross_norm = property(lambda self: self.around_cross.norm)
    feedforward_norm = property(lambda self: self.around_feedforward.norm)
    attention_drop = property(lambda self: self.around_attention.drop)
    cross_drop = property(lambda self: self.around_cross.drop)
    feedforward_drop = property(lambda self: self.around_feedforward.drop)


class PreNormBlock(Block):
    """x ← x + f(norm(x)) for each sub-layer f."""

    def forward(
        self,
        x: Vectors,
        context: AttentionContext,
        valid: Bool[Tensor, "batch time"] | None = None,
        source_kv: KVCache | None = None,
        source_context: AttentionContext | None = None,
        cache: KVCache | None = None,
        cache_lengths: CacheLengths | None = None,
    ) -> Vectors:
        x = x + self.attention_drop(self.attention(self.attention_norm(x), context, cache, cache_lengths), x.dtype)
        if self.cross is not None:
            x = x + self.cross_drop(self.cross(self.cross_norm(x), source_context, source_kv), x.dtype)
        if self.feedforward is not None:
            x = x + self.feedforward_drop(self.feedforward(self.feedforward_norm(x), valid), x.dtype)
        return x


class PostNormBlock(Block):
    """x ← norm(x + f(x)) for each sub-layer f."""

    def forward(
        self,
        x: Vectors,
        context: AttentionContext,
        valid: Bool[Tensor, "batch time"] | None = None,
        source_kv: KVCache | None = None,
        source_context: AttentionContext | None = None,
        cache: KVCache | None = None,
        cache_lengths: CacheLengths | None = None,
    ) -> Vectors:
        x = self.attention_norm(x + self.attention_drop(self.attention(x, context, cache, cache_lengths), x.dtype))
        if self.cross is not None:
            x = self.cross_norm(x + self.cross_drop(self.cross(x, source_context, source_kv), x.dtype))
        if self.feedforward is not None:
            x = self.feedforward_norm(x + self.feedforward_drop(self.feedforward(x, valid), x.dtype))
        return x


class PlainBlock(Block):
    """x ← f(norm(x)) or norm(f(x)): no residual connections, to show what they are for."""

    def forward(
        self,
        x: Vectors,
        context: AttentionContext,
        valid: Bool[Tensor, "batch time"] | None = None,
        source_kv: KVCache | None = None,
        source_context: AttentionContext | None = None,
        cache: KVCache | None = None,
        cache_lengths: CacheLengths | None = None,
    ) -> Vectors:
        x = self.around_attention(x, lambda x: self.attention(x, context, cache, cache_lengths))
        if (cross := self.cross) is not None and self.around_cross is not None:
            x = self.around_cross(x, lambda x: cross(x, source_context, source_kv))
        if (feedforward := self.feedforward) is not None and self.around_feedforward is not None:
            x = self.around_feedforward(x, lambda x: feedforward(x, valid))
        return x


def block_class(norm_place: NormPlace, residual: bool = True) -> type[Block]:
    if not residual:
        return PlainBlock
    return PreNormBlock if norm_place == "before" else PostNormBlock
