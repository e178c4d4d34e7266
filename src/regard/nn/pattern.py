"""Which pairs may attend: one predicate over indices, read in several ways.

A pattern answers `allowed(batch, head, query, key)` for index tensors of any shapes that broadcast. From that one
answer come a dense matrix (reference, pictures), a FlexAttention block mask (sparse and fast) and, where a fused kernel
has a flag for it, that flag. Patterns compose with `&` and `|`; a new one is one small class.

A long sequence is read block by block. There a pattern may also `judge` whole spans of queries and keys at once, so
that only the blocks it leaves open are looked into, and a sparse pattern costs no more than it lets be seen.

A query that sees no key receives zero. Most patterns let each query see itself at least, alone and composed; those that
do not (strict causal; global and random without a window) say so by `may_mask_all_keys`.
"""

from dataclasses import dataclass
from functools import reduce
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor
from typing_extensions import override

from regard.errors import ConfigError


@dataclass(frozen=True)
class Flags:
    """What fused kernels can be told instead of a mask."""

    causal: bool = False
    segments: "Segments | None" = None

    def merge(self, other: "Flags") -> "Flags | None":
        """Both at once, where a kernel takes both."""
        if self.segments is not None and other.segments is not None:
            return None
        causal, segments = self.causal or other.causal, self.segments or other.segments
        if causal and segments is not None and segments.query_segment is not segments.key_segment:
            return None  # two rows that are packed differently share no order of places
        return Flags(causal, segments)


class IndexRange(NamedTuple):
    """Tokens from `first` to `last`, both included."""

    first: Tensor
    last: Tensor

    def blocks(self, block: int) -> "IndexRange":
        """The blocks that they lie in."""
        return IndexRange(self.first // block, self.last // block)


class BlockCoverage(NamedTuple):
    """What is known of all pairs of two spans without looking at each."""

    any: Tensor
    """False: no pair is allowed."""
    all: Tensor
    """True: all pairs are allowed."""


class Pattern:
    """Base of all patterns: the predicate, and the ways to read it."""

    per_batch = False
    """Whether rows of the batch differ."""
    per_head = False
    """Whether heads differ."""
    may_mask_all_keys = False
    """Whether some query may see no key at all."""
    uses_table = False
    """Whether the answer for a pair is looked up in a table."""
    by_distance = False
    """Whether only the distance between query and key matters, not where they stand."""
    sparse = False
    """Whether the pairs grow with the length, not with its square."""
    granularity = 1
    """Tokens that its parts treat alike, at most."""
    limit: int | None = None
    """Tokens that it knows, where it has a table of them."""
    single_use = False
    """Whether it serves one call only, so that finding its blocks would not pay."""

    def allowed(self, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        """True where `query` may look at `key`; all four are indices."""
        raise TypeError(f"{type(self).__name__} must say which pairs it allows")

    def classify_block(self, batch: Tensor, head: Tensor, query: IndexRange, key: IndexRange) -> BlockCoverage:
        """The same for spans of indices; where a pattern has no shorter way, each pair has to be asked."""
        return BlockCoverage(
            torch.ones_like(query.first, dtype=torch.bool), torch.zeros_like(query.first, dtype=torch.bool)
        )

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
    def classify_block(self, batch: Tensor, head: Tensor, query: IndexRange, key: IndexRange) -> BlockCoverage:
        one, other = (part.classify_block(batch, head, query, key) for part in (self.one, self.other))
        return BlockCoverage(one.any & other.any, one.all & other.all)

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

    @override
    def classify_block(self, batch: Tensor, head: Tensor, query: IndexRange, key: IndexRange) -> BlockCoverage:
        one, other = (part.classify_block(batch, head, query, key) for part in (self.one, self.other))
        return BlockCoverage(one.any | other.any, one.all | other.all)


def _inherit(whole: "And | Or") -> None:
    either = all if isinstance(whole, Or) else any  # seeing by one of two is enough, and so is hiding by one of two
    merge = {"per_batch": any, "per_head": any, "uses_table": any, "may_mask_all_keys": either, "sparse": either}
    merge |= {"by_distance": all, "granularity": max}
    traits = {trait: how([getattr(part, trait) for part in (whole.one, whole.other)]) for trait, how in merge.items()}
    limits = [part.limit for part in (whole.one, whole.other) if part.limit is not None]
    _set(whole, {**traits, "limit": min(limits, default=None)})


def _set(pattern: Pattern, traits: dict[str, Any]) -> None:
    for trait, value in traits.items():
        object.__setattr__(pattern, trait, value)  # patterns are frozen


@dataclass(frozen=True, eq=False)
class Causal(Pattern):
    """No look into the future: key ≤ query; or key < query, as one lecture writes it for a shifted sequence."""

    strict: bool = False
    by_distance = True

    def __post_init__(self) -> None:
        _set(self, {"may_mask_all_keys": self.strict})

    @override
    def allowed(self, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return key < query if self.strict else key <= query

    @override
    def classify_block(self, batch: Tensor, head: Tensor, query: IndexRange, key: IndexRange) -> BlockCoverage:
        return BlockCoverage(*(self.allowed(batch, head, query[-1 - end], key[end]) for end in (0, 1)))

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

    @override
    def classify_block(self, batch: Tensor, head: Tensor, query: IndexRange, key: IndexRange) -> BlockCoverage:
        some_real, all_real = key.first < self.keys[batch], key.last < self.keys[batch]
        if self.queries is None:
            return BlockCoverage(some_real, all_real)
        some_ask, all_ask = query.first < self.queries[batch], query.last < self.queries[batch]
        return BlockCoverage(
            (some_real & some_ask) | ~(all_real | all_ask), (all_real & all_ask) | ~(some_real | some_ask)
        )


_LAST = 1 << 62


@dataclass(frozen=True, eq=False)
class Segments(Pattern):
    """Packed rows: a token sees only tokens of the sequence with its own number.

    Padding (-1) sees everything, so that no query is left without a key where the other side has no padding.
    """

    query_segment: Int[Tensor, "batch query"]
    key_segment: Int[Tensor, "batch key"]
    query_lengths: Int[Tensor, " sequences"]
    key_lengths: Int[Tensor, " sequences"]
    longest_query: int
    longest_key: int
    per_batch = True

    @override
    def allowed(self, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        segment = self.query_segment[batch, query]
        return (segment == self.key_segment[batch, key]) | (segment < 0)

    @override
    def classify_block(self, batch: Tensor, head: Tensor, query: IndexRange, key: IndexRange) -> BlockCoverage:
        ask = [self._in_order(self.query_segment[batch, place]) for place in query]
        answer = [self._in_order(self.key_segment[batch, place]) for place in key]
        overlap = (ask[0] <= answer[1]) & (answer[0] <= ask[1])
        same = (ask[0] == ask[1]) & (answer[0] == answer[1]) & overlap
        return BlockCoverage(overlap | (ask[1] == _LAST), same | (ask[0] == _LAST))

    def _in_order(self, segment: Tensor) -> Tensor:
        return torch.where(segment < 0, _LAST, segment)  # sequences are numbered in order, the padding is behind them

    @override
    def flags(self) -> Flags | None:
        one_row = len(self.query_segment) == 1
        return Flags(segments=self) if one_row else None


@dataclass(frozen=True, eq=False)
class Window(Pattern):
    """Neighbours only: blocks of `block` tokens see blocks at most `reach` away (block 1: tokens see tokens)."""

    reach: int
    block: int = 1
    sparse = True

    def __post_init__(self) -> None:
        if self.reach < 0 or self.block < 1:
            raise ConfigError("window", f"expected reach ≥ 0 and block ≥ 1, got {self.reach} and {self.block}")
        _set(self, {"by_distance": self.block == 1, "granularity": self.block})

    @override
    def allowed(self, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return (query // self.block - key // self.block).abs() <= self.reach

    @override
    def classify_block(self, batch: Tensor, head: Tensor, query: IndexRange, key: IndexRange) -> BlockCoverage:
        query, key = query.blocks(self.block), key.blocks(self.block)
        gap = torch.maximum(query.first - key.last, key.first - query.last)
        stretch = torch.maximum(query.last - key.first, key.last - query.first)
        return BlockCoverage(gap <= self.reach, stretch <= self.reach)


@dataclass(frozen=True, eq=False)
class Global(Pattern):
    """The first `count` tokens see everything and everything sees them."""

    count: int
    may_mask_all_keys = True
    sparse = True

    @override
    def allowed(self, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return (query < self.count) | (key < self.count)

    @override
    def classify_block(self, batch: Tensor, head: Tensor, query: IndexRange, key: IndexRange) -> BlockCoverage:
        return BlockCoverage(*(self.allowed(batch, head, query[end], key[end]) for end in (0, 1)))


CLASSIFIED_AT_MOST = 16  # pairs of random blocks in two spans: with more, asking each pair of tokens is no dearer


class Random(Pattern):
    """Each block is linked with `count` earlier blocks drawn at random, in both directions.

    The draw is a pure function of (seed, head, block), so what a sentence sees never depends on how far its batch is
    padded, and a longer sequence only adds links. Links are 2·count·blocks in all: linear in length.
    """

    per_head = True
    may_mask_all_keys = True
    uses_table = True
    sparse = True

    def __init__(
        self, count: int, block: int, heads: int, length: int, seed: int = 0, device: torch.device | str = "cpu"
    ) -> None:
        self.count, self.block, self.granularity = count, block, block
        self.limit = -(-length // block) * block
        self.table = random_links(count, heads, -(-length // block), seed).to(device)

    @override
    def allowed(self, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return self._linked(head, query // self.block, key // self.block)

    @override
    def classify_block(self, batch: Tensor, head: Tensor, query: IndexRange, key: IndexRange) -> BlockCoverage:
        query, key = query.blocks(self.block), key.blocks(self.block)
        asked, answering = (int((span.last - span.first).max()) + 1 for span in (query, key))
        if asked * answering > CLASSIFIED_AT_MOST:
            return super().classify_block(batch, head, query, key)
        links = [
            self._linked(head, (query.first + i).minimum(query.last), (key.first + j).minimum(key.last))
            for i, j in product(range(asked), range(answering))
        ]
        return BlockCoverage(torch.stack(links).any(0), torch.stack(links).all(0))

    def _linked(self, head: Tensor, one: Tensor, other: Tensor) -> Tensor:
        later, earlier = torch.maximum(one, other), torch.minimum(one, other)
        links = [self.table[head, later, draw] == earlier for draw in range(self.count)]
        return reduce(torch.logical_or, links, (later == earlier) & (later < 0))


def random_links(count: int, heads: int, blocks: int, seed: int) -> Int[Tensor, "heads blocks count"]:
    """For each block the earlier blocks it is linked with; the first block, which has none before it, points at -1."""
    draws = torch.tensor(
        np.stack([np.random.default_rng([seed, head]).random((blocks, count)) for head in range(heads)])
    )
    before = torch.arange(blocks)[None, :, None]
    return torch.where(before > 0, (draws * before).long(), -1)


@dataclass(frozen=True, eq=False)
class Shifted(Pattern):
    """Another pattern over places in a sequence instead of places in the grid.

    In packed rows each sequence counts from zero; in cached decoding the queries stand behind what is written already.
    """

    inner: Pattern
    queries: Int[Tensor, "#batch query"]
    keys: Int[Tensor, "#batch key"]

    def __post_init__(self) -> None:
        traits = {
            trait: getattr(self.inner, trait) for trait in ("per_head", "uses_table", "may_mask_all_keys", "sparse")
        }
        traits["limit"] = max(self.queries.shape[1], self.keys.shape[1])  # few queries may stand behind many keys
        traits["per_batch"] = self.inner.per_batch or len(self.queries) > 1 or len(self.keys) > 1
        _set(self, traits)

    @override
    def allowed(self, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        row_q, row_k = self._rows(batch)
        return self.inner.allowed(batch, head, self.queries[row_q, query], self.keys[row_k, key])

    @override
    def classify_block(self, batch: Tensor, head: Tensor, query: IndexRange, key: IndexRange) -> BlockCoverage:
        row_q, row_k = self._rows(batch)
        asked = IndexRange(*(self.queries[row_q, place] for place in query))
        answering = IndexRange(*(self.keys[row_k, place] for place in key))
        some, every = self.inner.classify_block(batch, head, asked, answering)
        # Where a span holds the end of one sequence and the start of another, its places are no span.
        straight = (asked.last - asked.first == query.last - query.first) & (
            answering.last - answering.first == key.last - key.first
        )
        return BlockCoverage(some | ~straight, every & straight)

    def _rows(self, batch: Tensor) -> tuple[Tensor, Tensor]:
        alone = torch.zeros_like(batch)
        return batch if len(self.queries) > 1 else alone, batch if len(self.keys) > 1 else alone
