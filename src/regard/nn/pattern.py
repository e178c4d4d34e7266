"""Which pairs may attend: one predicate over indices, read in three ways.

A pattern answers `allowed(batch, head, query, key)` for index tensors of any shapes that broadcast. From that one answer
come a dense matrix (reference, pictures), a FlexAttention block mask (sparse and fast) and, where a fused kernel has a
flag for it, that flag. Patterns compose with `&` and `|`; a new one is one small class.

Every pattern here lets each query see at least one key, so that softmax has something to spread over; the exception is
the strict reading of causal, whose first query sees nothing and then receives zero (`may_blind`).
"""

from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask, create_block_mask

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
        return Flags(self.causal or other.causal, self.documents or other.documents)


class Pattern:
    """Base of all patterns: the predicate, and the three ways to read it."""

    per_batch = False
    """Whether rows of the batch differ."""
    per_head = False
    """Whether heads differ."""
    may_blind = False
    """Whether some query may see no key at all."""
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
            self.allowed,
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

    def allowed(self, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:  # noqa: D102
        return self.one.allowed(batch, head, query, key) & self.other.allowed(batch, head, query, key)

    def flags(self) -> Flags | None:  # noqa: D102
        one, other = self.one.flags(), self.other.flags()
        return one.merge(other) if one and other else None


@dataclass(frozen=True, eq=False)
class Or(Pattern):
    """Pairs that at least one of two patterns allows."""

    one: Pattern
    other: Pattern

    def __post_init__(self) -> None:
        _inherit(self)

    def allowed(self, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:  # noqa: D102
        return self.one.allowed(batch, head, query, key) | self.other.allowed(batch, head, query, key)


def _inherit(whole: Any) -> None:  # noqa: ANN401
    for trait in ("per_batch", "per_head", "may_blind"):
        object.__setattr__(whole, trait, getattr(whole.one, trait) or getattr(whole.other, trait))
    object.__setattr__(whole, "by_distance", whole.one.by_distance and whole.other.by_distance)


@dataclass(frozen=True, eq=False)
class Causal(Pattern):
    """No look into the future: key ≤ query; or key < query, as one lecture writes it for a shifted sequence."""

    strict: bool = False
    by_distance = True

    @property
    def may_blind(self) -> bool:  # type: ignore[override]  # noqa: D102
        return self.strict

    def allowed(self, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:  # noqa: D102
        return key < query if self.strict else key <= query

    def flags(self) -> Flags | None:  # noqa: D102
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

    def allowed(self, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:  # noqa: D102
        real_key = key < self.keys[batch]
        return real_key if self.queries is None else real_key == (query < self.queries[batch])


@dataclass(frozen=True, eq=False)
class Documents(Pattern):
    """Packed rows: a token sees only tokens of the sequence with its own number."""

    query_document: Int[Tensor, "batch query"]
    key_document: Int[Tensor, "batch key"]
    query_lengths: Int[Tensor, " sequences"]
    key_lengths: Int[Tensor, " sequences"]
    longest_query: int
    longest_key: int
    per_batch = True

    def allowed(self, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:  # noqa: D102
        return self.query_document[batch, query] == self.key_document[batch, key]

    def flags(self) -> Flags | None:  # noqa: D102
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
    def by_distance(self) -> bool:  # type: ignore[override]  # noqa: D102
        return self.block == 1

    def allowed(self, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:  # noqa: D102
        return (query // self.block - key // self.block).abs() <= self.reach


@dataclass(frozen=True, eq=False)
class Global(Pattern):
    """The first `count` tokens see everything and everything sees them."""

    count: int

    def allowed(self, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:  # noqa: D102
        return (query < self.count) | (key < self.count)


class Random(Pattern):
    """Each block is linked with `count` earlier blocks drawn at random, in both directions.

    The draw is a pure function of (seed, head, block), so what a sentence sees never depends on how far its batch is
    padded, and a longer sequence only adds links. Links are 2·count·blocks in all: linear in length.
    """

    per_head = True

    def __init__(
        self, count: int, block: int, heads: int, length: int, seed: int = 0, device: torch.device | str = "cpu"
    ) -> None:
        self.count, self.block = count, block
        self.table = _random_links(count, heads, -(-length // block), seed).to(device)

    def allowed(self, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:  # noqa: D102
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
    def per_batch(self) -> bool:  # type: ignore[override]  # noqa: D102
        return self.inner.per_batch or len(self.queries) > 1 or len(self.keys) > 1

    @property
    def per_head(self) -> bool:  # type: ignore[override]  # noqa: D102
        return self.inner.per_head

    @property
    def may_blind(self) -> bool:  # type: ignore[override]  # noqa: D102
        return self.inner.may_blind

    def allowed(self, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:  # noqa: D102
        row_q = batch if len(self.queries) > 1 else torch.zeros_like(batch)
        row_k = batch if len(self.keys) > 1 else torch.zeros_like(batch)
        return self.inner.allowed(batch, head, self.queries[row_q, query], self.keys[row_k, key])
