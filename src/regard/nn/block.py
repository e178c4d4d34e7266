"""The block: attention, then (in a decoder that listens to an encoder) cross-attention, then the feed-forward part."""

from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.nn.attention.module import Attention
from regard.nn.cache import CacheLengths, KVCache
from regard.nn.context import AttentionContext
from regard.nn.residual import Residual

Vectors = Float[Tensor, "batch time width"]


class Block(nn.Module):
    """One layer of an encoder or decoder, made of parts that are given to it.

    Encoder:          x ← x + attention(x);                            x ← x + feedforward(x)
    Decoder:          the same, with a sight that hides the future
    Encoder-decoder:  x ← x + attention(x);  x ← x + cross(x, source);  x ← x + feedforward(x)
    """

    def __init__(
        self,
        attention: Attention,
        around_attention: Residual,
        feedforward: nn.Module | None = None,
        around_feedforward: Residual | None = None,
        cross: Attention | None = None,
        around_cross: Residual | None = None,
    ) -> None:
        super().__init__()
        self.attention, self.around_attention = attention, around_attention
        self.cross, self.around_cross = cross, around_cross
        self.feedforward, self.around_feedforward = feedforward, around_feedforward

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
        """All sub-layers in turn."""
        x = self.around_attention(x, lambda x: self.attention(x, context, cache, cache_lengths))
        if self.cross is not None and self.around_cross is not None:
            cross = self.cross
            x = self.around_cross(x, lambda x: cross.across(x, source_kv, source_context))  # type: ignore[arg-type]
        if self.feedforward is not None and self.around_feedforward is not None:
            feedforward = self.feedforward
            x = self.around_feedforward(x, lambda x: feedforward(x, valid))
        return x
