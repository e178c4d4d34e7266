"""The kinds of self-attention a recipe can name: full, or sparse in one of several ways."""

from typing import Annotated, Literal

import torch
from pydantic import NonNegativeInt, PositiveInt
from typing_extensions import override

from regard.config import BARE_KIND, BY_KIND
from regard.nn.attention import AttentionBase
from regard.nn.pattern import Global, Pattern, Random, Window


class FullConfig(AttentionBase):
    """Every token may attend to every other (in a decoder: to every earlier one)."""

    kind: Literal["full"] = "full"


class WindowConfig(AttentionBase):
    """Each token attends to its neighbours only: cost linear in length."""

    kind: Literal["window"] = "window"
    reach: PositiveInt = 128
    """How many tokens to each side."""

    @override
    def pattern(self, heads: int, length: int, causal: bool, device: torch.device | str) -> Pattern | None:
        return Window(self.reach) & super().pattern(heads, length, causal, device)


class BigBirdConfig(AttentionBase):
    """Random, window and global attention together: cost linear in length (Zaheer 2020)."""

    kind: Literal["bigbird"] = "bigbird"
    block: PositiveInt = 64
    """Tokens that see and are seen together."""
    reach: NonNegativeInt = 1
    """Neighbouring blocks to each side."""
    global_tokens: NonNegativeInt = 64
    """The first tokens, which see and are seen by all."""
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


AttentionConfig = Annotated[FullConfig | WindowConfig | BigBirdConfig, BY_KIND, BARE_KIND]
