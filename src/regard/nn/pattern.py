"""Which pairs may attend: one predicate over indices, read in three ways.

A pattern answers `allowed(batch, head, query, key)` for index tensors of any shapes that broadcast. From that one
answer come a dense matrix (reference, pictures), a FlexAttention block mask (sparse and fast) and, where a fused kernel
has a flag for it, that flag. Patterns compose with `&` and `|`; a new one is one small class.

A query that sees no key receives zero. Most patterns let each query see itself at least, alone and composed; those that
do not (strict causal; global and random without a window) say so by `may_blind`.
"""

from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask, create_block_mask
from typing_extensions import override

from regard.errors import ConfigError


@dataclass(frozen=True)
class Flags:
    """What fused kernels can be told instead of a mask."""

    causal: bool = False
    documents: "Documents | None" = None

    def merge(self, other: "Flags") -> "Flags | None":
        """Both at once, where a kernel takes both."""
        if self.documents is not None and other.documents is not None:
            return None
        causal, documents = self.causal or other.causal, self.documents or other.documents
        if causal and documents is not None and documents.query_document is not documents.key_document:
            return None  # two rows that are packed differently share no order of places
        return Flags(causal, documents)


class Pattern:
    """Base of all patterns: the predicate, and the three ways to read it."""

    per_batch = False
    """Whether rows of the batch differ."""
    per_head = False
    """Whether heads differ."""
    may_blind = False
    """Whether some query may see no key at all."""
    looks_up = False
    """Whether the answer for a pair is looked up in a table."""
    by_distance = False
    """Whether only the distance between query and key matters, not where they stand."""

    def allowed(self, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        """True where `query` may look at `key`; all four are indices."""
        raise TypeError(f"{type(self).__name__} must say which pairs it allows")

    def flags(self) -> Flags | None:
        """The same pattern as flags of a fused kernel, or None where no flag says it."""
        return None

    def dense(
        self, batch: int, heads: int, queries: int, keys: int, device: torch.device | str = "cpu"
    ) -> Bool[Tensor, "#batch #heads query key"]:
        """The pattern as a matrix; axes along which nothing changes have size one."""
        rows = torch.arange(batch if self.per_batch else 1, device=device)[:, None, None, None]
        head = torch.arange(heads if self.per_head else 1, device=device)[None, :, None, None]
        query = torch.arange(queries, device=device)[None, None, :, None]
        key = torch.arange(keys, device=device)[None, None, None, :]
        allowed = self.allowed(rows, head, query, key)
        return allowed.expand(len(rows), head.shape[1], queries, keys)

    def block_mask(
        self, batch: int, heads: int, queries: int, keys: int, device: torch.device | str, block: int = 128
    ) -> BlockMask:
        """The pattern as FlexAttention wants it: blocks that are empty are never computed."""
        return create_block_mask(
            lambda row, head, query, key: self.allowed(row, head, query, key),  # torch counts arguments, `self` too
            batch if self.per_batch else None,
            heads if self.per_head else None,
            queries,
            keys,
            device=device,
            BLOCK_SIZE=block,
        )

    def __and__(self, other: "Pattern | None") -> "Pattern":
        """Pairs that both allow; None allows everything."""
        return self if other is None else And(self, other)

    __rand__ = __and__

    def __or__(self, other: "Pattern") -> "Pattern":
        """Pairs that either allows."""
        return Or(self, other)


@dataclass(frozen=True, eq=False)
class And(Pattern):
    """Pairs that both patterns allow."""

    one: Pattern
    other: Pattern

    def __post_init__(self) -> None:
        _inherit(self)

    @override
    def allowed(self, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return self.one.allowed(batch, head, query, key) & self.other.allowed(batch, head, query, key)

    @override
    def flags(self) -> Flags | None:
        one, other = self.one.flags(), self.other.flags()
        return one.merge(other) if one and other else None


@dataclass(frozen=True, eq=False)
class Or(Pattern):
    """Pairs that at least one of two patterns allows."""

    one: Pattern
    other: Pattern

    def __post_init__(self) -> None:
        _inherit(self)

    @override
    def allowed(self, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return self.one.allowed(batch, head, query, key) | self.other.allowed(batch, head, query, key)


def _inherit(whole: Any) -> None:  # noqa: ANN401
    for trait in ("per_batch", "per_head", "looks_up"):
        object.__setattr__(whole, trait, getattr(whole.one, trait) or getattr(whole.other, trait))
    either = isinstance(whole, Or)  # seeing by one of two is enough
    blinds = (whole.one.may_blind, whole.other.may_blind)
    object.__setattr__(whole, "may_blind", all(blinds) if either else any(blinds))
    object.__setattr__(whole, "by_distance", whole.one.by_distance and whole.other.by_distance)


@dataclass(frozen=True, eq=False)
class Causal(Pattern):
    """No look into the future: key ≤ query; or key < query, as one lecture writes it for a shifted sequence."""

    strict: bool = False
    by_distance = True

    @property
    @override
    def may_blind(self) -> bool:  # type: ignore[override]
        return self.strict

    @override
    def allowed(self, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return key < query if self.strict else key <= query

    @override
    def flags(self) -> Flags | None:
        return None if self.strict else Flags(causal=True)


@dataclass(frozen=True, eq=False)
class Padding(Pattern):
    """Hides the padding on the right of each row.

    With `queries` given (self-attention) padding sees padding, so that no query, not even one that means nothing, is
    left without a key under a narrow window.
    """

    keys: Int[Tensor, " batch"]
    queries: Int[Tensor, " batch"] | None = None
    per_batch = True

    @override
    def allowed(self, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        real_key = key < self.keys[batch]
        return real_key if self.queries is None else real_key == (query < self.queries[batch])


@dataclass(frozen=True, eq=False)
class Documents(Pattern):
    """Packed rows: a token sees only tokens of the sequence with its own number.

    Padding (-1) sees everything, so that no query is left without a key where the other side has no padding.
    """

    query_document: Int[Tensor, "batch query"]
    key_document: Int[Tensor, "batch key"]
    query_lengths: Int[Tensor, " sequences"]
    key_lengths: Int[Tensor, " sequences"]
    longest_query: int
    longest_key: int
    per_batch = True

    @override
    def allowed(self, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        document = self.query_document[batch, query]
        return (document == self.key_document[batch, key]) | (document < 0)

    @override
    def flags(self) -> Flags | None:
        one_row = len(self.query_document) == 1
        return Flags(documents=self) if one_row else None


@dataclass(frozen=True, eq=False)
class Window(Pattern):
    """Neighbours only: blocks of `block` tokens see blocks at most `reach` away (block 1: tokens see tokens)."""

    reach: int
    block: int = 1

    def __post_init__(self) -> None:
        if self.reach < 0 or self.block < 1:
            raise ConfigError("window", f"expected reach ≥ 0 and block ≥ 1, got {self.reach} and {self.block}")

    @property
    @override
    def by_distance(self) -> bool:  # type: ignore[override]
        return self.block == 1

    @override
    def allowed(self, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return (query // self.block - key // self.block).abs() <= self.reach


@dataclass(frozen=True, eq=False)
class Global(Pattern):
    """The first `count` tokens see everything and everything sees them."""

    count: int
    may_blind = True

    @override
    def allowed(self, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return (query < self.count) | (key < self.count)


class Random(Pattern):
    """Each block is linked with `count` earlier blocks drawn at random, in both directions.

    The draw is a pure function of (seed, head, block), so what a sentence sees never depends on how far its batch is
    padded, and a longer sequence only adds links. Links are 2·count·blocks in all: linear in length.
    """

    per_head = True
    may_blind = True
    looks_up = True

    def __init__(
        self, count: int, block: int, heads: int, length: int, seed: int = 0, device: torch.device | str = "cpu"
    ) -> None:
        self.count, self.block = count, block
        self.table = _random_links(count, heads, -(-length // block), seed).to(device)

    @override
    def allowed(self, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        query, key = query // self.block, key // self.block
        later, earlier = torch.maximum(query, key), torch.minimum(query, key)
        links = [self.table[head, later, draw] == earlier for draw in range(self.count)]
        return reduce(torch.logical_or, links, (later == earlier) & (later < 0))


def _random_links(count: int, heads: int, blocks: int, seed: int) -> Int[Tensor, "heads blocks count"]:
    """For each block the earlier blocks it is linked with; the first block, which has none before it, points at -1."""
    draws = torch.tensor(
        np.stack([np.random.default_rng([seed, head]).random((blocks, count)) for head in range(heads)])
    )
    before = torch.arange(blocks)[None, :, None]
    return torch.where(before > 0, (draws * before).long(), -1)


@dataclass(frozen=True, eq=False)
class Placed(Pattern):
    """Another pattern over places in a sequence instead of places in the grid.

    In packed rows each sequence counts from zero; in cached decoding the queries stand behind what is written already.
    """

    inner: Pattern
    queries: Int[Tensor, "#batch query"]
    keys: Int[Tensor, "#batch key"]

    @property
    @override
    def per_batch(self) -> bool:  # type: ignore[override]
        return self.inner.per_batch or len(self.queries) > 1 or len(self.keys) > 1

    @property
    @override
    def per_head(self) -> bool:  # type: ignore[override]
        return self.inner.per_head

    @property
    @override
    def looks_up(self) -> bool:  # type: ignore[override]
        return self.inner.looks_up

    @property
    @override
    def may_blind(self) -> bool:  # type: ignore[override]
        return self.inner.may_blind

    @override
    def allowed(self, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        row_q = batch if len(self.queries) > 1 else torch.zeros_like(batch)
        row_k = batch if len(self.keys) > 1 else torch.zeros_like(batch)
        return self.inner.allowed(batch, head, self.queries[row_q, query], self.keys[row_k, key])
