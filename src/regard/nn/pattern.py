"""Which pairs may attend: one predicate over indices, read in several ways.

A pattern answers `allowed(batch, head, query, key)` for index tensors that broadcast. From that predicate come a dense
mask (reference, figures), a FlexAttention block mask and, where a fused kernel has one, a flag. Patterns compose with
`&` and `|`; a new one is one small class.

For long sequences, `classify_block` decides whole blocks of queries and keys at once: all, none or some pairs allowed.
Only the last are evaluated pair by pair, so that a sparse pattern costs no more than the pairs it allows.

The output of a query whose keys are all masked is zero. Most patterns allow each query at least its own key; those that
do not (strict causal; global and random without a window) set `may_mask_all_keys`.
"""

from dataclasses import dataclass, field
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
    """The arguments of fused kernels that replace a mask."""

    causal: bool = False
    segments: "Segments | None" = None

    def merge(self, other: "Flags") -> "Flags | None":
        """Both flags, where a kernel takes both."""
        if self.segments is not None and other.segments is not None:
            return None
        causal, segments = self.causal or other.causal, self.segments or other.segments
        if causal and segments is not None and segments.query_segment is not segments.key_segment:
            return None  # positions in two differently packed rows are not comparable
        return Flags(causal, segments)


class IndexRange(NamedTuple):
    """Token indices from `first` to `last`, inclusive."""

    first: Tensor
    last: Tensor

    def blocks(self, block: int) -> "IndexRange":
        """The indices of their blocks."""
        return IndexRange(self.first // block, self.last // block)


class BlockCoverage(NamedTuple):
    """Whether any and whether all pairs of a block are allowed; unclear ones have any and not all."""

    any: Tensor
    """False: none is allowed."""
    all: Tensor
    """True: all are allowed."""


class Pattern:
    """Base of all patterns: the predicate and its readings."""

    per_batch = False
    """Whether rows of the batch have different masks."""
    per_head = False
    """Whether heads have different masks."""
    may_mask_all_keys = False
    """Whether all keys of some query may be masked."""
    uses_table = False
    """Whether a pair is looked up in a table."""
    by_distance = False
    """Whether it depends on query − key alone, not on their positions."""
    sparse = False
    """Whether the allowed pairs grow linearly with the length."""
    granularity = 1
    """Largest block size of its parts."""
    limit: int | None = None
    """Tokens that its table covers, if it has one."""
    single_use = False
    """Whether it serves one call only, so that a block mask would not pay."""

    def allowed(self, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        """True where `query` may attend to `key`; all four are indices."""
        raise TypeError(f"{type(self).__name__} must define which pairs it allows")

    def classify_block(self, batch: Tensor, head: Tensor, query: IndexRange, key: IndexRange) -> BlockCoverage:
        """Whether any and all pairs of a block are allowed; by default unclear."""
        return BlockCoverage(
            torch.ones_like(query.first, dtype=torch.bool), torch.zeros_like(query.first, dtype=torch.bool)
        )

    def flags(self) -> Flags | None:
        """The pattern as flags of a fused kernel, if they can express it."""
        return None

    def dense(
        self, batch: int, heads: int, queries: int, keys: int, device: torch.device | str = "cpu"
    ) -> Bool[Tensor, "#batch #heads query key"]:
        """The boolean mask; axes along which it is constant have size one."""
        rows = torch.arange(batch if self.per_batch else 1, device=device)[:, None, None, None]
        head = torch.arange(heads if self.per_head else 1, device=device)[None, :, None, None]
        query = torch.arange(queries, device=device)[None, None, :, None]
        key = torch.arange(keys, device=device)[None, None, None, :]
        allowed = self.allowed(rows, head, query, key)
        return allowed.expand(len(rows), head.shape[1], queries, keys)

    def __and__(self, other: "Pattern | None") -> "Pattern":
        """Pairs that both allow; None allows all."""
        return self if other is None else And(self, other)

    __rand__ = __and__

    def __or__(self, other: "Pattern") -> "Pattern":
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
    # A query keeps a key under | if one part leaves it one; under & one part is enough to mask all.
    either = all if isinstance(whole, Or) else any
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
    """key ≤ query; strict: key < query, as one lecture writes it for a shifted sequence."""

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
    """Masks the padding on the right of each row.

    With `queries` given (self-attention) padding attends to padding, so that under a narrow window every query, even a
    padded one, keeps a key.
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
        some_real_query, all_real_query = query.first < self.queries[batch], query.last < self.queries[batch]
        return BlockCoverage(
            (some_real & some_real_query) | ~(all_real | all_real_query),
            (all_real & all_real_query) | ~(some_real | some_real_query),
        )


_LAST = 1 << 62


@dataclass(frozen=True, eq=False)
class Segments(Pattern):
    """Packed rows: a token attends only to tokens of its own segment.

    Padding (-1) attends to everything, so that every query keeps a key where the other side has no padding.
    """

    query_segment: Int[Tensor, "batch query"]
    key_segment: Int[Tensor, "batch key"]
    query_lengths: Int[Tensor, " sequences"]
    key_lengths: Int[Tensor, " sequences"]
    longest_query: int
    longest_key: int
    key_ranges: dict[bool, tuple[Tensor, Tensor, Tensor, Tensor]] = field(default_factory=dict, repr=False)
    """For causal masks or not: what `nn.fast.packed` derives once for all layers."""
    per_batch = True

    @override
    def allowed(self, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        segment = self.query_segment[batch, query]
        return (segment == self.key_segment[batch, key]) | (segment < 0)

    @override
    def classify_block(self, batch: Tensor, head: Tensor, query: IndexRange, key: IndexRange) -> BlockCoverage:
        q = [self._in_order(self.query_segment[batch, index]) for index in query]
        k = [self._in_order(self.key_segment[batch, index]) for index in key]
        overlap = (q[0] <= k[1]) & (k[0] <= q[1])
        same = (q[0] == q[1]) & (k[0] == k[1]) & overlap
        return BlockCoverage(overlap | (q[1] == _LAST), same | (q[0] == _LAST))

    def _in_order(self, segment: Tensor) -> Tensor:
        return torch.where(segment < 0, _LAST, segment)  # segments are numbered in order, padding comes last

    @override
    def flags(self) -> Flags | None:
        one_row = len(self.query_segment) == 1
        return Flags(segments=self) if one_row else None


@dataclass(frozen=True, eq=False)
class Window(Pattern):
    """Sliding window: blocks of `block` tokens attend to blocks at most `reach` away."""

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
        extent = torch.maximum(query.last - key.first, key.last - query.first)
        return BlockCoverage(gap <= self.reach, extent <= self.reach)


@dataclass(frozen=True, eq=False)
class Global(Pattern):
    """The first `count` tokens attend to all tokens, and all tokens to them."""

    count: int
    may_mask_all_keys = True
    sparse = True

    @override
    def allowed(self, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return (query < self.count) | (key < self.count)

    @override
    def classify_block(self, batch: Tensor, head: Tensor, query: IndexRange, key: IndexRange) -> BlockCoverage:
        return BlockCoverage(*(self.allowed(batch, head, query[end], key[end]) for end in (0, 1)))


CLASSIFIED_AT_MOST = 16  # pairs of random blocks in one block: with more, evaluating each pair of tokens is as cheap


class Random(Pattern):
    """Each block is linked with `count` random earlier blocks, in both directions: 2·count·blocks links in all.

    A pure function of (seed, head, block): a sequence's mask does not depend on its batch's padding, and a longer
    sequence only adds links.
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
        queries, keys = (int((span.last - span.first).max()) + 1 for span in (query, key))
        if queries * keys > CLASSIFIED_AT_MOST:
            return super().classify_block(batch, head, query, key)
        links = [
            self._linked(head, (query.first + i).minimum(query.last), (key.first + j).minimum(key.last))
            for i, j in product(range(queries), range(keys))
        ]
        return BlockCoverage(torch.stack(links).any(0), torch.stack(links).all(0))

    def _linked(self, head: Tensor, one: Tensor, other: Tensor) -> Tensor:
        later, earlier = torch.maximum(one, other), torch.minimum(one, other)
        links = [self.table[head, later, draw] == earlier for draw in range(self.count)]
        return reduce(torch.logical_or, links, (later == earlier) & (later < 0))


def random_links(count: int, heads: int, blocks: int, seed: int) -> Int[Tensor, "heads blocks count"]:
    """For each block the earlier blocks it is linked with; -1 for the first block, which has none."""
    uniform = torch.tensor(
        np.stack([np.random.default_rng([seed, head]).random((blocks, count)) for head in range(heads)])
    )
    before = torch.arange(blocks)[None, :, None]
    return torch.where(before > 0, (uniform * before).long(), -1)


@dataclass(frozen=True, eq=False)
class Shifted(Pattern):
    """Another pattern over positions in the sequence instead of indices in the row.

    In packed rows positions restart at each segment; in cached decoding queries come after the cached keys.
    """

    inner: Pattern
    queries: Int[Tensor, "#batch query"]
    keys: Int[Tensor, "#batch key"]

    def __post_init__(self) -> None:
        traits = {
            trait: getattr(self.inner, trait) for trait in ("per_head", "uses_table", "may_mask_all_keys", "sparse")
        }
        traits["limit"] = max(self.queries.shape[1], self.keys.shape[1])  # few queries may follow many keys
        traits["per_batch"] = self.inner.per_batch or len(self.queries) > 1 or len(self.keys) > 1
        _set(self, traits)

    @override
    def allowed(self, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        row_q, row_k = self._rows(batch)
        return self.inner.allowed(batch, head, self.queries[row_q, query], self.keys[row_k, key])

    @override
    def classify_block(self, batch: Tensor, head: Tensor, query: IndexRange, key: IndexRange) -> BlockCoverage:
        row_q, row_k = self._rows(batch)
        q = IndexRange(*(self.queries[row_q, index] for index in query))
        k = IndexRange(*(self.keys[row_k, index] for index in key))
        some, every = self.inner.classify_block(batch, head, q, k)
        # Where a block holds the end of one segment and the start of another, its positions are no range.
        contiguous = (q.last - q.first == query.last - query.first) & (k.last - k.first == key.last - key.first)
        return BlockCoverage(some | ~contiguous, every & contiguous)

    def _rows(self, batch: Tensor) -> tuple[Tensor, Tensor]:
        alone = torch.zeros_like(batch)
        return batch if len(self.queries) > 1 else alone, batch if len(self.keys) > 1 else alone
