"""Linformer: keys and values of a whole sequence projected to a fixed number of them, so cost is linear (Wang 2020).

    K' = E K,  V' = F V        E, F: projected × length
    y_i = Σ_s softmax_s(q_i·k'_s / √d) v'_s

Every projected key mixes all tokens, so that no future token can be masked (encoders only) and a projected key has no
position (no relative bias). Padding is set to zero before the projection.
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
    """E: projects all tokens to a fixed number of keys; one matrix for all heads, or one per head."""

    def __init__(self, length: int, projected: int, heads: int = 1) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(heads, projected, length) * projected**-0.5)

    def forward(self, x: Tokens) -> Float[Tensor, "rows heads projected head_width"]:
        """E x, with the first `time` columns of E."""
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
        return split_heads(weight @ join_heads(x), x.shape[1])  # all heads in one matmul


class Linformer(Attention):
    """Attention to a fixed number of linear combinations of all keys and values."""

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
        """`projection` is shared by all layers (`layerwise`) and not a sub-module of this one."""
        super().__init__(width, heads, **settings)  # type: ignore[arg-type]
        matrices = self.kv_heads if share == "none" else 1
        separate = projection is None
        self.project_keys = LengthProjection(length, projected, matrices) if separate else None
        both = separate and share not in ("keyvalue", "layerwise")
        self.project_values = LengthProjection(length, projected, matrices) if both else None
        self._shared_projection = [projection]  # in a list, so that it is no sub-module

    def projections(self) -> tuple[LengthProjection, LengthProjection]:
        """E and F."""
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
        assert cache is None, "linformer mixes all tokens, so it cannot decode token by token"
        rows = Rows.of(context.pattern)
        x = rows.unpack(x)
        positions = torch.arange(x.shape[1], device=x.device)[None]
        q, k, v = self.query(x), self.key(x), self.value(x)
        q, k = self.position.rotate(q, positions), self.position.rotate(k, positions)
        v = self.position.on_values(v, positions)
        valid = rows.valid(x.shape[1])
        if valid is not None:
            k, v = (part.masked_fill(~valid[:, None, :, None], 0.0) for part in (k, v))
        for_keys, for_values = self.projections()
        k, v = for_keys(k), for_values(v)
        projected = torch.arange(k.shape[2], device=x.device)[None]
        y = self._attend(q, k, v, AttentionContext(None, positions, projected), NO_POSITION)
        return rows.pack(self.output(join_heads(y)))
