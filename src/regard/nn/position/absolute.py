"""Positions as vectors: none, sinusoidal, learned; at the first layer or at every one.

They are added to the inputs, concatenated with them, or added to queries, keys and values.
"""

import math
from typing import Literal

import torch
from jaxtyping import Float, Int
from pydantic import PositiveFloat, PositiveInt
from torch import Tensor, nn
from typing_extensions import override

from regard.errors import ConfigError
from regard.nn.attention.heads import split_heads
from regard.nn.context import AttentionContext
from regard.nn.position.base import Position, PositionConfig


class NoPositionConfig(PositionConfig):
    """No position encoding: the model then ignores token order."""

    kind: Literal["none"] = "none"

    @override
    def build(self, *, width: int, heads: int, head_width: int, causal: bool) -> Position:
        return Position()


Combine = Literal["add", "concat", "qkv"]


class AbsoluteConfig(PositionConfig):
    """Settings of encodings that add or concatenate a vector per position."""

    combine: Combine = "add"
    """`add` the vector to the token's, `concat` the two and map them back to the model's width, or add it to the
    token's queries, keys and values after their projections (`qkv`)."""
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

    @property
    @override
    def in_heads(self) -> bool:
        return self.combine == "qkv"


class Absolute(Position):
    """x + p, or [x; p] W, or q + p, k + p and v + p."""

    def __init__(self, width: int, combine: Combine = "add") -> None:
        super().__init__()
        self.combine = combine
        self.mix = nn.Linear(2 * width, width, bias=False) if combine == "concat" else None

    def vectors(self, index: Int[Tensor, "#batch time"]) -> Float[Tensor, "#batch time width"]:
        """One vector per position."""
        raise TypeError(f"{type(self).__name__} must say what its vectors are")

    def embed(
        self, x: Float[Tensor, "batch time width"], context: AttentionContext
    ) -> Float[Tensor, "batch time width"]:
        if self.combine == "qkv":
            return x
        p = self.vectors(context.query_positions).to(x.dtype)
        if self.mix is None:
            return x + p
        return self.mix(torch.cat([x, p.expand_as(x)], dim=-1))

    def rotate(
        self, x: Float[Tensor, "batch heads time head_width"], index: Int[Tensor, "#batch time"]
    ) -> Float[Tensor, "batch heads time head_width"]:
        """q + p and k + p: each head adds its part of the vector."""
        return x if self.combine != "qkv" else x + split_heads(self.vectors(index), x.shape[1]).to(x.dtype)

    def on_values(
        self, x: Float[Tensor, "batch heads time value_width"], index: Int[Tensor, "#batch time"]
    ) -> Float[Tensor, "batch heads time value_width"]:
        """v + p."""
        return self.rotate(x, index)


class SinusoidalConfig(AbsoluteConfig):
    """Fixed sinusoids of geometrically growing wavelength (Vaswani 2017)."""

    kind: Literal["sinusoidal"] = "sinusoidal"
    base: PositiveFloat = 10_000.0
    """The longest wave is about this many times 2π tokens long."""
    interleaved: bool = True
    """Sine and cosine by turns, as the formula says; off: all sines first, as some implementations do."""
    exponents_from: Literal[0, 1] = 0
    """i of the first exponent 2i/d: 0 (Vaswani 2017), or 1, so that they run from 2·1/d to 1 as CS224n writes them."""
    positions_from: Literal[0, 1] = 0
    """Position of the first token: 0, or 1 as CS224n counts."""

    @override
    def build(self, *, width: int, heads: int, head_width: int, causal: bool) -> "Sinusoidal":
        return Sinusoidal(width, self.base, self.interleaved, self.combine, self.exponents_from, self.positions_from)


class Sinusoidal(Absolute):
    """PE(pos, 2i) = sin(pos / base^(2i/d)), PE(pos, 2i+1) = cos(pos / base^(2i/d))."""

    def __init__(
        self,
        width: int,
        base: float = 10_000.0,
        interleaved: bool = True,
        combine: Combine = "add",
        exponents_from: int = 0,
        positions_from: int = 0,
    ) -> None:
        super().__init__(width, combine)
        self.width, self.base, self.interleaved = width, base, interleaved
        self.exponents_from, self.positions_from = exponents_from, positions_from

    def vectors(self, index: Int[Tensor, "#batch time"]) -> Float[Tensor, "#batch time width"]:
        """One wave vector for each place."""
        return waves(index + self.positions_from, self.width, self.base, self.interleaved, self.exponents_from)


def waves(
    index: Int[Tensor, "#batch time"],
    width: int,
    base: float = 10_000.0,
    interleaved: bool = True,
    exponents_from: int = 0,
) -> Float[Tensor, "#batch time width"]:
    """The sinusoids of these positions: exponents 2i/d, i from `exponents_from`."""
    even = torch.arange(0, width, 2, device=index.device, dtype=torch.float32) + 2 * exponents_from
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

    def __init__(self, width: int, length: int, combine: Combine = "add") -> None:
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
