"""Positions on the inputs: none, sinusoidal, learned; added or concatenated, at the first layer or at every one."""

import math
from typing import Literal

import torch
from jaxtyping import Float, Int
from pydantic import PositiveFloat, PositiveInt
from torch import Tensor, nn
from typing_extensions import override

from regard.errors import ConfigError
from regard.nn.context import AttentionContext
from regard.nn.position.base import Position, PositionConfig


class NoPositionConfig(PositionConfig):
    """No position encoding: the model then ignores token order."""

    kind: Literal["none"] = "none"

    @override
    def build(self, *, width: int, heads: int, head_width: int, causal: bool) -> Position:
        return Position()


class AbsoluteConfig(PositionConfig):
    """Settings of encodings that add or concatenate a vector per position."""

    combine: Literal["add", "concat"] = "add"
    """`add` the vector to the token's, or `concat` the two and map them back to the model's width."""
    layers: Literal["first", "every"] = "first"
    """At the input of the first layer only, or of every layer."""

    @override
    def num_params(self, *, width: int, heads: int, head_width: int) -> int:
        return 2 * width * width if self.combine == "concat" else 0

    @override
    def input_flops(self, *, width: int, batch: int, time: int) -> int:
        return 2 * batch * time * 2 * width * width if self.combine == "concat" else 0

    @property
    @override
    def every_layer(self) -> bool:
        return self.layers == "every"


class Absolute(Position):
    """x + p, or [x; p] W."""

    def __init__(self, width: int, combine: Literal["add", "concat"] = "add") -> None:
        super().__init__()
        self.mix = nn.Linear(2 * width, width, bias=False) if combine == "concat" else None

    def vectors(self, index: Int[Tensor, "#batch time"]) -> Float[Tensor, "#batch time width"]:
        """One vector per position."""
        raise TypeError(f"{type(self).__name__} must say what its vectors are")

    def embed(
        self, x: Float[Tensor, "batch time width"], context: AttentionContext
    ) -> Float[Tensor, "batch time width"]:
        p = self.vectors(context.query_positions).to(x.dtype)
        if self.mix is None:
            return x + p
        return self.mix(torch.cat([x, p.expand_as(x)], dim=-1))


class SinusoidalConfig(AbsoluteConfig):
    """Fixed sinusoids of geometrically growing wavelength (Vaswani 2017)."""

    kind: Literal["sinusoidal"] = "sinusoidal"
    base: PositiveFloat = 10_000.0
    """The longest wave is about this many times 2π tokens long."""
    interleaved: bool = True
    """Sine and cosine by turns, as the formula says; off: all sines first, as some implementations do."""

    @override
    def build(self, *, width: int, heads: int, head_width: int, causal: bool) -> "Sinusoidal":
        return Sinusoidal(width, base=self.base, interleaved=self.interleaved, combine=self.combine)


class Sinusoidal(Absolute):
    """PE(pos, 2i) = sin(pos / base^(2i/d)), PE(pos, 2i+1) = cos(pos / base^(2i/d))."""

    def __init__(
        self, width: int, base: float = 10_000.0, interleaved: bool = True, combine: Literal["add", "concat"] = "add"
    ) -> None:
        super().__init__(width, combine)
        self.width, self.base, self.interleaved = width, base, interleaved

    def vectors(self, index: Int[Tensor, "#batch time"]) -> Float[Tensor, "#batch time width"]:
        """One wave vector for each place."""
        return waves(index, self.width, self.base, self.interleaved)


def waves(
    index: Int[Tensor, "#batch time"], width: int, base: float = 10_000.0, interleaved: bool = True
) -> Float[Tensor, "#batch time width"]:
    """The sinusoids of these positions."""
    even = torch.arange(0, width, 2, device=index.device, dtype=torch.float32)
    angle = index[..., None] * torch.exp(-math.log(base) * even / width)
    if interleaved:
        return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(-2)[..., :width]
    return torch.cat([angle.sin(), angle.cos()], dim=-1)[..., :width]


class LearnedConfig(AbsoluteConfig):
    """One learned vector per position, up to the table's length."""

    kind: Literal["learned"] = "learned"
    length: PositiveInt = 512
    """Size of the table; longer sequences are refused."""

    @override
    def build(self, *, width: int, heads: int, head_width: int, causal: bool) -> "Learned":
        return Learned(width, self.length, combine=self.combine)

    @override
    def num_params(self, *, width: int, heads: int, head_width: int) -> int:
        return self.length * width + super().num_params(width=width, heads=heads, head_width=head_width)

    @property
    @override
    def longest(self) -> int | None:
        return self.length


class Learned(Absolute):
    """p_i is row i of a learned table."""

    def __init__(self, width: int, length: int, combine: Literal["add", "concat"] = "add") -> None:
        super().__init__(width, combine)
        self.table = nn.Embedding(length, width)

    def embed(
        self, x: Float[Tensor, "batch time width"], context: AttentionContext
    ) -> Float[Tensor, "batch time width"]:
        """Raises where a sequence is longer than the table."""
        reach = context.length or x.shape[1]
        if reach > self.table.num_embeddings and int(context.query_positions.max()) >= self.table.num_embeddings:
            raise too_long(int(context.query_positions.max()) + 1, self.table.num_embeddings)
        return super().embed(x, context)

    def vectors(self, index: Int[Tensor, "#batch time"]) -> Float[Tensor, "#batch time width"]:
        """One learned vector for each place."""
        return self.table(index)


def too_long(length: int, table: int) -> ConfigError:
    """The error for a sequence longer than the learned table."""
    return ConfigError(
        "model.position.length",
        f"learned positions reach {table} tokens, got a sequence of {length}; "
        "train with a larger table, shorten the input, or choose a kind that extends (alibi, t5, rotary)",
    )
