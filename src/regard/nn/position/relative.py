"""Positions on the scores: learned vectors by clipped distance (Shaw), learned bias (T5), fixed bias (ALiBi)."""

import math
from typing import Literal

import torch
from jaxtyping import Float, Int
from pydantic import PositiveInt
from torch import Tensor, nn
from typing_extensions import override

from regard.errors import ConfigError
from regard.nn.context import AttentionContext
from regard.nn.position.base import Bias, Position, PositionConfig, Rule


def distances(context: AttentionContext) -> Rule:
    """key − query in positions; per row where rows have different positions."""
    queries, keys = context.query_positions, context.key_positions

    def rule(batch: Tensor, query: Tensor, key: Tensor) -> Tensor:
        row_q = batch if len(queries) > 1 else torch.zeros_like(batch)
        row_k = batch if len(keys) > 1 else torch.zeros_like(batch)
        return keys[row_k, key] - queries[row_q, query]

    return rule


def by_row(context: AttentionContext) -> bool:
    """Whether rows of the batch have different positions."""
    return len(context.query_positions) > 1 or len(context.key_positions) > 1


class RelativeConfig(PositionConfig):
    """Learned vectors for clipped distances, on keys and on values (Shaw 2018)."""

    kind: Literal["relative"] = "relative"
    clip: PositiveInt = 16
    """Distances beyond this count as this."""
    values: bool = True
    """Learned vectors on the values too, not on the keys alone."""
    shared: bool = False
    """One table for all layers instead of one for each."""

    @override
    def build(self, *, width: int, heads: int, head_width: int, causal: bool) -> "Relative":
        return Relative(head_width, self.clip, self.values)

    @override
    def num_params(self, *, width: int, heads: int, head_width: int) -> int:
        return (2 * self.clip + 1) * head_width * (1 + self.values)

    @override
    def flops(self, *, width: int, heads: int, head_width: int, batch: int, queries: int, keys: int) -> int:
        return 2 * batch * heads * queries * (2 * self.clip + 1) * head_width * (1 + self.values)

    @property
    @override
    def per_layer(self) -> bool:
        return not self.shared

    @property
    @override
    def values_by_distance(self) -> bool:
        return self.values


class Relative(Position):
    """e_ij = q_i·(k_j + a_ij)/√d and z_i = Σ_j α_ij (v_j + b_ij), where a and b depend on the clipped distance j − i.

    q_i·a_ij needs only the products of q_i with the 2·clip + 1 vectors, looked up by distance; Σ_j α_ij b_ij needs only
    the weight that falls on each distance. Neither ever holds a vector for each pair.
    """

    def __init__(self, head_width: int, clip: int = 16, values: bool = True) -> None:
        super().__init__()
        self.clip = clip
        self.key_table = nn.Parameter(torch.empty(2 * clip + 1, head_width))
        self.value_table = nn.Parameter(torch.empty(2 * clip + 1, head_width)) if values else None
        for table in self.parameters():
            nn.init.xavier_uniform_(table)

    def column(self, context: AttentionContext) -> tuple[Rule, bool]:
        """Row of the tables for each pair, and whether it differs between rows of the batch."""
        distance = distances(context)
        return lambda b, q, k: distance(b, q, k).clamp(-self.clip, self.clip) + self.clip, by_row(context)

    def bias(self, query: Float[Tensor, "batch heads query head_width"], context: AttentionContext) -> Bias:
        """q_i·a_ij."""
        rule, per_batch = self.column(context)
        return Bias(query @ self.key_table.to(query.dtype).T, rule, per_batch)

    def values(
        self, weights: Float[Tensor, "batch heads query key"], context: AttentionContext
    ) -> Float[Tensor, "batch heads query head_width"] | None:
        """Σ_j α_ij b_ij: the weight on each distance times that distance's vector."""
        if self.value_table is None:
            return None
        batch, heads, queries, keys = weights.shape
        rule, per_batch = self.column(context)
        columns = Bias(self.value_table[None, None], rule, per_batch).columns(batch, queries, keys)
        on_distance = weights.new_zeros(batch, heads, queries, len(self.value_table))
        on_distance = on_distance.scatter_add(3, columns[:, None].expand_as(weights), weights)
        return on_distance @ self.value_table.to(weights.dtype)

    @property
    @override
    def needs_weights(self) -> bool:
        return self.value_table is not None


class T5Config(PositionConfig):
    """A learned bias for each head and bucket of distances; far distances share buckets (Raffel 2020)."""

    kind: Literal["t5"] = "t5"
    buckets: PositiveInt = 32
    """How many buckets of distances there are."""
    farthest: PositiveInt = 128
    """Distances from here on share the last bucket."""
    shared: bool = True
    """One table for all layers, as in T5, instead of one for each."""

    @override
    def build(self, *, width: int, heads: int, head_width: int, causal: bool) -> "T5Bias":
        return T5Bias(heads, self.buckets, self.farthest, both_sides=not causal)

    @override
    def num_params(self, *, width: int, heads: int, head_width: int) -> int:
        return self.buckets * heads

    @property
    @override
    def per_layer(self) -> bool:
        return not self.shared


class T5Bias(Position):
    """score(i, j) + b[head, bucket(j − i)]: exact for near distances, logarithmic for far ones."""

    def __init__(self, heads: int, buckets: int = 32, farthest: int = 128, both_sides: bool = True) -> None:
        super().__init__()
        each_side = buckets // 2 if both_sides else buckets
        if each_side < 2:
            raise ConfigError("model.position.buckets", f"expected at least {4 if both_sides else 2}, got {buckets}")
        if farthest <= each_side // 2:
            exact = f"the {each_side // 2} distances that have a bucket of their own"
            raise ConfigError("model.position.farthest", f"expected more than {exact}, got {farthest}")
        self.buckets, self.farthest, self.both_sides = buckets, farthest, both_sides
        self.table = nn.Parameter(torch.randn(buckets, heads) * 0.02)

    def bias(self, query: Float[Tensor, "batch heads query head_width"], context: AttentionContext) -> Bias:
        """The learned bias of each pair's bucket."""
        if self not in context.shared:  # the same for all layers that share this table
            distance = distances(context)
            table = self.table.T[None, :, None].to(query.dtype)
            context.shared[self] = Bias(table, lambda b, q, k: self.bucket(distance(b, q, k)), by_row(context))
        return context.shared[self]

    def bucket(self, distance: Int[Tensor, "..."]) -> Int[Tensor, "..."]:
        """The bucket of a distance key − query; half of the buckets are for later keys in encoders."""
        buckets = self.buckets // 2 if self.both_sides else self.buckets
        ahead = torch.where(distance > 0, buckets, 0) if self.both_sides else torch.zeros_like(distance)
        far = distance.abs() if self.both_sides else -torch.minimum(distance, torch.zeros_like(distance))
        exact = buckets // 2
        log = torch.log(far.clamp(min=1).float() / exact) / math.log(self.farthest / exact)
        coarse = (exact + (log * (buckets - exact)).long()).clamp(max=buckets - 1)
        return ahead + torch.where(far < exact, far, coarse)


class AlibiConfig(PositionConfig):
    """A fixed penalty linear in the distance, with a slope per head (Press 2022)."""

    kind: Literal["alibi"] = "alibi"

    @override
    def build(self, *, width: int, heads: int, head_width: int, causal: bool) -> "Alibi":
        return Alibi(heads)


class Alibi(Position):
    """score(i, j) − slope_h·|i − j| with slopes 2^(−8/h), 2^(−16/h), …: train short, test long."""

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.slopes: Tensor
        self.register_buffer("slopes", alibi_slopes(heads), persistent=False)

    def bias(self, query: Float[Tensor, "batch heads query head_width"], context: AttentionContext) -> Bias:
        """The penalty of each distance."""
        if self not in context.shared:
            distance, reach = distances(context), context.length or context.key_positions.shape[1]
            table = -self.slopes[None, :, None, None] * torch.arange(reach, device=query.device)
            rule: Rule = lambda b, q, k: distance(b, q, k).abs().clamp(max=reach - 1)  # noqa: E731
            context.shared[self] = Bias(table.to(query.dtype), rule, by_row(context))
        return context.shared[self]


def alibi_slopes(heads: int) -> Float[Tensor, " heads"]:
    """Geometric slopes; other head counts take the rest from the next power of two."""
    power = 2 ** math.floor(math.log2(heads))
    slopes = [2 ** (-8 * (head + 1) / power) for head in range(power)]
    extra = [2 ** (-4 * (2 * head + 1) / power) for head in range(heads - power)]
    return torch.tensor(slopes + extra)
