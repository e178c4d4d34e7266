"""Linformer: keys and values of a whole sequence projected to a fixed number of them, so cost is linear (Wang 2020).

    K' = E K,  V' = F V        E, F: projected × length
    y_i = Σ_s softmax_s(q_i·k'_s / √d) v'_s

Every projected key mixes all tokens. So nothing of the future can be hidden (encoders only), and a projected key stands
at no place of its own (no bias by distance). Padding is zero before it is projected, so it weighs nothing.
"""

from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn
from typing_extensions import override

from regard.errors import ConfigError
from regard.nn.attention.heads import join_heads, split_heads
from regard.nn.attention.module import NO_POSITION, Attention
from regard.nn.attention.rows import Rows
from regard.nn.cache import CacheLengths, KVCache
from regard.nn.context import AttentionContext

Shared = Literal["none", "headwise", "keyvalue", "layerwise"]
Tokens = Float[Tensor, "rows heads time head_width"]


class LengthProjection(nn.Module):
    """E: from all tokens to a fixed number; one matrix for all heads, or one for each."""

    def __init__(self, length: int, projected: int, heads: int = 1) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(heads, projected, length) * projected**-0.5)

    def forward(self, x: Tokens) -> Float[Tensor, "rows heads projected head_width"]:
        """E x, with the columns of E for as many tokens as there are."""
        time, (heads, _, length) = x.shape[2], self.weight.shape
        if time > length:
            raise ConfigError(
                "model.attention.length",
                f"linformer was built for {length} tokens, got a sequence of {time}; "
                "build it for more, shorten the input, or choose a kind that extends (bigbird, window)",
            )
        weight = self.weight[:, :, :time]
        if heads > 1:
            return weight @ x
        return split_heads(weight @ join_heads(x), x.shape[1])  # all heads in one product


class Linformer(Attention):
    """Attention to a fixed number of mixtures of all keys and values."""

    def __init__(
        self,
        width: int,
        heads: int,
        *,
        length: int,
        projected: int = 256,
        share: Shared = "headwise",
        projection: LengthProjection | None = None,
        **settings: object,
    ) -> None:
        """`projection` is the one that all layers share, for `layerwise`; it belongs to whoever made it."""
        super().__init__(width, heads, **settings)  # type: ignore[arg-type]
        matrices = self.kv_heads if share == "none" else 1
        own = projection is None
        self.project_keys = LengthProjection(length, projected, matrices) if own else None
        both = own and share not in ("keyvalue", "layerwise")
        self.project_values = LengthProjection(length, projected, matrices) if both else None
        self._shared_projection = [projection]  # in a list: used here, not owned

    def projections(self) -> tuple[LengthProjection, LengthProjection]:
        """What projects keys, and what projects values."""
        keys = self._shared_projection[0] or self.project_keys
        assert keys is not None
        return keys, self.project_values or keys

    @override
    def forward(
        self,
        x: Float[Tensor, "batch query width"],
        context: AttentionContext,
        cache: KVCache | None = None,
        cache_lengths: CacheLengths | None = None,
    ) -> Float[Tensor, "batch query width"]:
        """Self-attention of whole sequences."""
        assert cache is None, "what mixes all tokens cannot be written token by token"
        rows = Rows.of(context.pattern)
        x = rows.spread(x)
        places = torch.arange(x.shape[1], device=x.device)[None]
        query, key, value = self.query(x), self.key(x), self.value(x)
        query, key = self.position.rotate(query, places), self.position.rotate(key, places)
        valid = rows.valid(x.shape[1])
        if valid is not None:
            key, value = (part.masked_fill(~valid[:, None, :, None], 0.0) for part in (key, value))
        for_keys, for_values = self.projections()
        key, value = for_keys(key), for_values(value)
        mixtures = torch.arange(key.shape[2], device=x.device)[None]
        y = self._attend(query, key, value, AttentionContext(None, places, mixtures), NO_POSITION)
        return rows.collect(self.output(join_heads(y)))
