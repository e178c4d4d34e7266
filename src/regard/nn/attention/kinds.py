"""The kinds of self-attention a recipe can name: full, or cheaper for long sequences in one of several ways."""

from functools import lru_cache
from typing import Literal

import numpy as np
import torch
from jaxtyping import Bool
from pydantic import Field, NonNegativeInt, PositiveInt, model_validator
from torch import Tensor, nn
from typing_extensions import override

from regard.config import refuse
from regard.nn.attention.linformer import LengthProjection, Linformer, Shared
from regard.nn.attention.memory_compressed import MemoryCompressed
from regard.nn.attention.module import Attention, AttentionConfig
from regard.nn.pattern import Global, Pattern, Random, Window, random_links
from regard.nn.position import Position, PositionConfig


class FullConfig(AttentionConfig):
    """Every token may attend to every other (in a decoder: to every earlier one)."""

    kind: Literal["full"] = "full"


class LongConfig(AttentionConfig):
    """Settings that the kinds for long sequences share."""

    @model_validator(mode="after")
    def _leaves_every_query_a_key(self) -> "LongConfig":
        if self.strict:
            raise refuse(
                "strict", "masking the token itself could leave a query without any key; use it with kind full"
            )
        return self


class WindowConfig(LongConfig):
    """Each token attends to its neighbours only: cost linear in length."""

    kind: Literal["window"] = "window"
    reach: PositiveInt = 128
    """How many tokens to each side."""

    @override
    def pattern(self, heads: int, length: int, causal: bool, device: torch.device | str) -> Pattern | None:
        return Window(self.reach) & super().pattern(heads, length, causal, device)

    @override
    def pairs(self, heads: int, length: int) -> int:
        reach = min(self.reach, length - 1)
        return heads * (length * (2 * reach + 1) - reach * (reach + 1))


class LocalConfig(LongConfig):
    """The sequence in blocks, each of which attends to itself alone: cost linear in length (Liu 2018)."""

    kind: Literal["local"] = "local"
    block: PositiveInt = 256
    """Tokens of a block."""

    @override
    def pattern(self, heads: int, length: int, causal: bool, device: torch.device | str) -> Pattern | None:
        return Window(0, self.block) & super().pattern(heads, length, causal, device)

    @override
    def pairs(self, heads: int, length: int) -> int:
        blocks, rest = divmod(length, self.block)
        return heads * (blocks * self.block**2 + rest**2)


class BigBirdConfig(LongConfig):
    """Random, window and global attention together: cost linear in length (Zaheer 2020)."""

    kind: Literal["bigbird"] = "bigbird"
    block: PositiveInt = 64
    """Tokens that see and are seen together."""
    reach: NonNegativeInt = 1
    """Neighbouring blocks to each side."""
    global_tokens: NonNegativeInt = 64
    """Tokens that see and are seen by all."""
    added: bool = False
    """Add the global tokens, learned ones, in front of the sequence (ETC), not take its first ones (ITC)."""
    random: NonNegativeInt = 2
    """Random earlier blocks that each block is linked with, in both directions."""
    seed: NonNegativeInt = 0
    """Chooses the random links."""

    @override
    def pattern(self, heads: int, length: int, causal: bool, device: torch.device | str) -> Pattern | None:
        sparse = Window(self.reach, self.block) | Global(self.global_tokens)
        if self.random:
            sparse = sparse | Random(self.random, self.block, heads, length, self.seed, device)
        return sparse & super().pattern(heads, length, causal, device)

    @override
    def pairs(self, heads: int, length: int) -> int:
        return _bigbird_pairs(self.block, self.reach, self.global_tokens, self.random, self.seed, heads, length)

    @property
    @override
    def added_tokens(self) -> int:
        return self.global_tokens if self.added else 0

    @override
    def refuse_causal(self, setting: str) -> None:
        if self.added:
            raise refuse(
                f"{setting}.added",
                "an added token that sees all would tell every token the future; in a decoder take the first ones",
            )

    @override
    def refuse_position(self, kind: str) -> None:
        if self.added and kind == "tree":
            raise refuse("position", "added global tokens hang in no tree; take the sequence's first ones")


@lru_cache(maxsize=4096)
def _bigbird_pairs(block: int, reach: int, count: int, random: int, seed: int, heads: int, length: int) -> int:
    """Pairs in all heads: those with a global token, and those of other tokens in blocks that see each other."""
    first = np.minimum(np.arange(0, length, block), length)
    size = np.minimum(first + block, length) - np.clip(count, first, np.minimum(first + block, length))
    far = range(1, min(reach, len(size) - 1) + 1)
    near = int((size * size).sum()) + 2 * sum(int((size[gap:] * size[:-gap]).sum()) for gap in far)
    of_global = length * length - max(length - count, 0) ** 2
    table = random_links(random, heads, len(size), seed).numpy()
    later = np.broadcast_to(np.arange(len(size))[None, :, None], table.shape)
    head = np.broadcast_to(np.arange(heads)[:, None, None], table.shape)
    links = np.stack([head, later, table], axis=-1)[(table >= 0) & (later - table > reach)]
    _, one, other = np.unique(links, axis=0).T
    return heads * (near + of_global) + 2 * int((size[one] * size[other]).sum())


POSITIONS_BEFORE_KEYS = ("none", "sinusoidal", "learned", "rotary")
"""Kinds that act on inputs, queries and keys before keys are mixed: all that linformer can know."""


class LinformerConfig(LongConfig):
    """Keys and values projected to a fixed number, for encoders: cost linear in length (Wang 2020)."""

    kind: Literal["linformer"] = "linformer"
    length: PositiveInt = 4096
    """The longest sequence it is built for; longer ones are refused."""
    projected: PositiveInt = 256
    """Keys and values that are left."""
    share: Shared = "headwise"
    """`none`: own E, F in each head; `headwise`: one E and one F a layer; `keyvalue`: E = F in each
    layer; `layerwise`: one matrix for all layers."""

    @override
    def build(
        self,
        width: int,
        heads: int,
        position: Position | None = None,
        dropout: float = 0.0,
        *,
        causal: bool = False,
        shared: nn.Module | None = None,
    ) -> Attention:
        options = {"length": self.length, "projected": self.projected, "share": self.share, "projection": shared}
        return Linformer(width, heads, **options, **self.settings(), dropout=dropout, position=position)

    @property
    @override
    def longest(self) -> int | None:
        return self.length

    @override
    def build_shared(self, heads: int) -> nn.Module | None:
        return LengthProjection(self.length, self.projected) if self.share == "layerwise" else None

    @override
    def extra_params(self, heads: int, head_width: int) -> int:
        matrices = {"none": 2 * (self.kv_heads or heads), "headwise": 2, "keyvalue": 1, "layerwise": 0}
        return matrices[self.share] * self.length * self.projected

    @override
    def shared_params(self, heads: int) -> int:
        return self.length * self.projected if self.share == "layerwise" else 0

    @override
    def pairs(self, heads: int, length: int) -> int:
        return heads * length * self.projected

    @override
    def extra_flops(self, heads: int, head_width: int, length: int) -> int:
        return 2 * (self.kv_heads or heads) * self.projected * length * (head_width + (self.value_width or head_width))

    @override
    def refuse_causal(self, setting: str) -> None:
        raise refuse(
            f"{setting}.kind",
            "linformer mixes all tokens into every key, so it cannot hide the future from a decoder; "
            "choose full, window, bigbird or memory-compressed",
        )

    @override
    def refuse_position(self, kind: str) -> None:
        if kind not in POSITIONS_BEFORE_KEYS:
            raise refuse(
                "position",
                f"{kind} weighs keys by their position, but a key of linformer is a mixture of all positions; "
                "choose none, sinusoidal, learned or rotary",
            )


class MemoryCompressedConfig(LongConfig):
    """Keys and values shortened by a strided convolution: a fraction of the cost (Liu 2018)."""

    kind: Literal["memory-compressed"] = "memory-compressed"
    stride: PositiveInt = 4
    """Tokens that become one slot of memory."""
    block: PositiveInt = 64
    """In a decoder, a query attends to the uncompressed tokens of its own block of this many; a multiple of stride."""

    @model_validator(mode="after")
    def _leaves_no_token_out(self) -> "MemoryCompressedConfig":
        if self.block % self.stride:
            raise refuse("block", f"expected a multiple of stride = {self.stride}, got {self.block}")
        return self

    @override
    def build(
        self,
        width: int,
        heads: int,
        position: Position | None = None,
        dropout: float = 0.0,
        *,
        causal: bool = False,
        shared: nn.Module | None = None,
    ) -> Attention:
        options = {"stride": self.stride, "block": self.block, "causal": causal}
        return MemoryCompressed(width, heads, **options, **self.settings(), dropout=dropout, position=position)

    @override
    def extra_params(self, heads: int, head_width: int) -> int:
        widths = (head_width, self.value_width or head_width)
        return (self.kv_heads or heads) * sum((self.stride * width + 1) * width for width in widths)

    @override
    def pairs(self, heads: int, length: int) -> int:
        return heads * length * -(-length // self.stride)

    @override
    def extra_flops(self, heads: int, head_width: int, length: int) -> int:
        slots = -(-length // self.stride)
        squares = head_width**2 + (self.value_width or head_width) ** 2
        return 2 * (self.kv_heads or heads) * slots * self.stride * squares

    @override
    def refuse_position(self, kind: str) -> None:
        if kind == "tree":
            raise refuse(
                "position", "a slot of compressed memory holds several tokens, so it has no position in a tree"
            )

    @override
    def refuse_widths(self, width: int, heads: int, position: PositionConfig, setting: str = "attention") -> None:
        if position.in_heads:
            raise refuse("position.combine", "a slot of compressed memory holds the keys of several positions; add")
        super().refuse_widths(width, heads, position, setting)


class AlternatingConfig(LongConfig):
    """Kinds that take turns layer by layer: as it stands, local and memory-compressed attention (Liu 2018, T-DMCA)."""

    kind: Literal["alternating"] = "alternating"
    kinds: tuple[AttentionConfig, ...] = Field((LocalConfig(), MemoryCompressedConfig(stride=3, block=3)), min_length=2)
    """The kind of the first layer, of the second and so on, then again from the first; how heads are shaped is set
    beside the list, for all of them."""

    @model_validator(mode="after")
    def _stand_together(self) -> "AlternatingConfig":
        for index, kind in enumerate(self.kinds):
            if isinstance(kind, AlternatingConfig):
                raise refuse(f"kinds.{index}", "alternating kinds do not alternate themselves; list them side by side")
            if kind.settings() != FullConfig().settings():
                raise refuse(f"kinds.{index}", "how heads are shaped is set beside the list, for all layers alike")
            if kind.added_tokens or kind.shared_params(1):
                raise refuse(f"kinds.{index}", f"{kind.kind} here adds or shares what all layers would need")
        return self

    @property
    @override
    def longest(self) -> int | None:
        return min((kind.longest for kind in self.kinds if kind.longest is not None), default=None)

    @property
    @override
    def layer_kinds(self) -> tuple[AttentionConfig, ...]:
        return tuple(kind.but(**self.settings()) for kind in self.kinds)

    @override
    def refuse_causal(self, setting: str) -> None:
        for index, kind in enumerate(self.kinds):
            kind.refuse_causal(f"{setting}.kinds.{index}")

    @override
    def refuse_position(self, kind: str) -> None:
        for attention in self.kinds:
            attention.refuse_position(kind)

    @override
    def refuse_widths(self, width: int, heads: int, position: PositionConfig, setting: str = "attention") -> None:
        for kind in self.layer_kinds:
            kind.refuse_widths(width, heads, position, setting)


def four_panels(length: int, config: BigBirdConfig, causal: bool = False) -> dict[str, Bool[Tensor, "query key"]]:
    """The lecture's four pictures: random, window and global attention, and the three together, of the first head."""
    panels: dict[str, Pattern | None] = {
        "random": Random(config.random, config.block, 1, length, config.seed),
        "window": Window(config.reach, config.block),
        "global": Global(config.global_tokens),
        "bigbird": config.pattern(1, length, False, "cpu"),
    }
    hidden = FullConfig().pattern(1, length, causal, "cpu")
    return {name: (panel & hidden).dense(1, 1, length, length)[0, 0] for name, panel in panels.items() if panel}
