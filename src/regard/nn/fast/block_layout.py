"""Patterns and sequences in blocks: which blocks of keys each block of queries needs, and in which order.

Whole blocks are classified first (`Pattern.classify_block`), and only those left open are evaluated pair by pair. So
the work grows with the allowed pairs; only one boolean for each pair of blocks grows with the square of the length.

Every sequence of a batch, whether alone, padded or packed with others, is cut into blocks of its own. So no block holds
tokens of two sequences, padding costs nothing, and the pattern of one sequence serves for all.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.nn.fast.memo import memo
from regard.nn.pattern import And, IndexRange, Padding, Pattern, Segments, Shifted

BLOCK = 64
"""Tokens in a block where a pattern has no blocks of its own."""
MIN_BLOCK, MAX_BLOCK = 16, 128
"""Bounds within which a pattern's own block size is used."""
PAIRS_PER_CHUNK = {"cpu": 1 << 18, "cuda": 1 << 26}
"""Scores computed at once: what the cache of a CPU thread holds, or what keeps a GPU busy."""
PAIRS_PER_EVALUATION = 1 << 22
"""Pairs evaluated at once where blocks are evaluated pair by pair."""
MAX_TABLES = 64

Blocks = Bool[Tensor, "#batch #heads query_blocks key_blocks"]


def classify_blocks(
    pattern: Pattern,
    batch: int,
    heads: int,
    queries: int,
    keys: int,
    block: int,
    device: torch.device | str = "cpu",
    evaluate_pairs: bool = True,
) -> tuple[Blocks, Blocks]:
    """Which blocks hold an allowed pair, and which of those hold no other; axes where nothing changes have size 1.

    Without evaluating their pairs, blocks that are left open count as partial.
    """
    rows = torch.arange(batch if pattern.per_batch else 1, device=device)[:, None, None, None]
    head = torch.arange(heads if pattern.per_head else 1, device=device)[None, :, None, None]
    query, key = _block_spans(pattern, queries, block, device), _block_spans(pattern, keys, block, device)
    coverage = pattern.classify_block(rows, head, IndexRange(query.first[:, None], query.last[:, None]), key)
    whole = (torch.arange(len(query.first), device=device)[:, None] + 1) * block <= queries
    whole = whole & ((torch.arange(len(key.first), device=device) + 1) * block <= keys)
    shape = (len(rows), head.shape[1], *whole.shape)
    some, every = coverage.any.expand(shape).clone(), (coverage.any & coverage.all & whole).expand(shape).clone()
    for index, pairs in block_pairs(pattern, some & ~every, queries, keys, block) if evaluate_pairs else ():
        some[index], every[index] = pairs.flatten(1).any(1), pairs.flatten(1).all(1)
    return some, every


def block_pairs(
    pattern: Pattern, selected: Blocks, queries: int, keys: int, block: int
) -> Iterator[tuple[tuple[Int[Tensor, " some"], ...], Bool[Tensor, "some block block"]]]:
    """The indices of selected blocks and whether each of their pairs is allowed, some blocks at a time."""
    inside, last = torch.arange(block, device=selected.device), _last_token(pattern)
    for some in torch.nonzero(selected).split(max(1, PAIRS_PER_EVALUATION // block**2)):
        batch, head, row, column = (index[:, None, None] for index in some.unbind(1))
        query, key = row * block + inside[:, None], column * block + inside
        valid = (query < queries) & (key < keys)
        query, key = query.clamp(max=min(queries - 1, last)), key.clamp(max=min(keys - 1, last))
        yield some.unbind(1), pattern.allowed(batch, head, query, key) & valid


def _block_spans(pattern: Pattern, tokens: int, block: int, device: torch.device | str) -> IndexRange:
    """First and last token of each block, within the tokens that the pattern has a table for."""
    first = torch.arange(0, tokens, block, device=device)
    last = min(tokens - 1, _last_token(pattern))
    return IndexRange(first.clamp(max=last), (first + block - 1).clamp(max=last))


def _last_token(pattern: Pattern) -> int:
    return (1 << 62) if pattern.limit is None else pattern.limit - 1


@dataclass(frozen=True, eq=False)
class SequencePattern:
    """A pattern taken apart: the pattern within one sequence, and the one that separates sequences."""

    inner: Pattern
    separation: Padding | Segments | None

    @classmethod
    def of(cls, pattern: Pattern) -> "SequencePattern | None":
        """None where a pattern is composed in another way."""
        if not isinstance(pattern, And):
            return None if pattern.per_batch else cls(pattern, None)
        one, other = pattern.one, pattern.other
        if isinstance(other, Padding) and other.queries is other.keys and not one.per_batch:
            return cls(one, other)
        if isinstance(other, Segments) and other.query_segment is other.key_segment and len(other.query_segment) == 1:
            shifted = isinstance(one, Shifted) and one.queries is one.keys
            inner = one.inner if shifted else one  # type: ignore[attr-defined]
            return cls(inner, other) if shifted or one.by_distance else None
        return None if pattern.per_batch else cls(pattern, None)

    def sequences(self, batch: int, time: int) -> tuple[Tensor, Tensor, Tensor]:
        """Row, start and length of each sequence that has a token."""
        if isinstance(self.separation, Segments):
            length = self.separation.query_lengths.cpu()
            row, start = torch.zeros_like(length), length.cumsum(0) - length
        else:
            length = torch.full((batch,), time) if self.separation is None else self.separation.keys.cpu()
            row, start = torch.arange(batch), torch.zeros_like(length)
        some = length > 0
        return row[some], start[some], length[some]


@dataclass(frozen=True, eq=False)
class BlockTable:
    """The pairs of blocks that one sequence needs, and the masks of those that are allowed in part only."""

    head: Int[Tensor, " pairs"]
    query: Int[Tensor, " pairs"]
    key: Int[Tensor, " pairs"]
    mask: Int[Tensor, " pairs"]
    """Index of the pair's mask; 0 where every pair of tokens is allowed."""
    masks: Bool[Tensor, "kinds block block"]

    @classmethod
    def of(cls, pattern: Pattern, heads: int, blocks: int, block: int, device: torch.device) -> "BlockTable":
        """The table for sequences of up to so many blocks; built once on the pattern's device, and kept on the CPU."""
        shape = (heads, 1 << (blocks - 1).bit_length(), block)
        return memo(pattern, ("block table", *shape), lambda: cls._build(pattern, *shape, device), keep=MAX_TABLES)

    @classmethod
    def _build(cls, pattern: Pattern, heads: int, blocks: int, block: int, device: torch.device) -> "BlockTable":
        length = blocks * block
        some, every = classify_blocks(pattern, 1, heads, length, length, block, device)
        mask = torch.zeros_like(some, dtype=torch.long)
        numbers = {np.packbits(np.ones(block * block, dtype=bool)).tobytes(): 0}  # equal masks are kept once
        for index, pairs in block_pairs(pattern, some & ~every, length, length, block):
            packed = np.packbits(pairs.flatten(1).cpu().numpy(), axis=1)
            indices = [numbers.setdefault(bits.tobytes(), len(numbers)) for bits in packed]
            mask[index] = torch.tensor(indices, dtype=torch.long, device=device)
        masks = np.stack([np.unpackbits(np.frombuffer(bits, np.uint8), count=block * block) for bits in numbers])
        _, head, query, key = torch.nonzero(some.cpu().expand(-1, heads, -1, -1), as_tuple=True)
        mask = mask.cpu().expand(-1, heads, -1, -1)[0, head, query, key]
        return cls(head, query, key, mask, torch.from_numpy(masks).view(-1, block, block).bool())


@dataclass(frozen=True, eq=False)
class Chunk:
    """Blocks of queries that need equally many blocks of keys: computed together."""

    queries: Int[Tensor, " chunk"]
    keys: Int[Tensor, "chunk key_blocks"]
    masks: Int[Tensor, "chunk key_blocks"] | None
    """Indices of the masks; None where all pairs are allowed."""
    padding: Bool[Tensor, "chunk 1 tokens"] | None
    """True for the keys behind a sequence's end; None where there are none."""


class BlockLayout:
    """All blocks of a batch, numbered head by head, and the chunks in which they are computed."""

    def __init__(
        self, pattern: SequencePattern, batch: int, heads: int, kv_heads: int, time: int, device: torch.device
    ) -> None:
        row, start, length = pattern.sequences(batch, time)
        granularity = pattern.inner.granularity
        self.block = BLOCK if granularity == 1 else min(max(granularity, MIN_BLOCK), MAX_BLOCK)
        self.batch, self.heads, self.time, self.device = batch, heads, time, device
        counts = -(-length // self.block)
        self.blocks = int(counts.sum())
        position = torch.arange(int(counts.max()) * self.block).view(-1, self.block)
        sequence = torch.arange(len(counts)).repeat_interleave(counts)
        number = torch.arange(self.blocks) - (counts.cumsum(0) - counts)[sequence]
        length = length[sequence, None]
        valid = position[number] < length
        index = row[sequence, None] * time + start[sequence, None] + position[number].minimum(length - 1)
        table = BlockTable.of(pattern.inner, heads, int(counts.max()), self.block, device)
        self.masks, self.chunks = table.masks.to(device), self._chunks(table, counts, valid, heads // kv_heads)
        self.index, self.valid = index.to(device), valid.to(device)

    def _chunks(
        self, table: BlockTable, counts: Int[Tensor, " sequences"], valid: Bool[Tensor, "blocks block"], group: int
    ) -> list[Chunk]:
        starts = counts.cumsum(0) - counts
        pairs = [
            torch.stack([table.head * self.blocks + table.query + start, table.key + start, table.mask])[:, exists]
            for start, count in zip(starts.tolist(), counts.tolist(), strict=True)
            for exists in [(table.query < count) & (table.key < count)]
        ]
        query, key, mask = torch.cat(pairs, dim=1)
        order = torch.argsort(query, stable=True)
        query, key, mask = query[order], key[order], mask[order]
        key = query // self.blocks // group * self.blocks + key
        degrees = torch.bincount(query, minlength=self.heads * self.blocks)
        first, chunks = degrees.cumsum(0) - degrees, []
        gpu = self.device.type == "cuda"
        most = PAIRS_PER_CHUNK["cuda"] if gpu else PAIRS_PER_CHUNK["cpu"] * torch.get_num_threads()
        for degree in degrees.unique().tolist():
            for queries in torch.nonzero(degrees == degree)[:, 0].split(max(1, most // (degree * self.block**2))):
                pair = first[queries, None] + torch.arange(degree)
                chunks.append(self._chunk(queries, key[pair], mask[pair], valid))
        return chunks

    def _chunk(
        self,
        queries: Int[Tensor, " chunk"],
        keys: Int[Tensor, "chunk key_blocks"],
        masks: Int[Tensor, "chunk key_blocks"],
        valid: Bool[Tensor, "blocks block"],
    ) -> Chunk:
        padding = ~valid[keys % self.blocks].flatten(1)[:, None]
        device = self.device
        return Chunk(
            queries.to(device),
            keys.to(device),
            masks.to(device) if masks.any() else None,
            padding.to(device) if padding.any() else None,
        )

    @cached_property
    def inverse(self) -> Int[Tensor, " tokens"] | None:
        """For each token of the batch its index among the blocks, -1 for padding; None where both orders agree."""
        tokens = self.batch * self.time
        if self.valid.all() and torch.equal(self.index.flatten(), torch.arange(tokens, device=self.device)):
            return None
        inverse = torch.full((tokens,), -1, device=self.device)
        return inverse.index_put_((self.index[self.valid],), torch.nonzero(self.valid.flatten())[:, 0])

    def to_blocks(self, x: Float[Tensor, "batch heads time n"]) -> Float[Tensor, "blocks block n"]:
        """Tokens in blocks, one head after another."""
        tokens = x.transpose(0, 1).flatten(1, 2)
        tokens = tokens if self.inverse is None else tokens[:, self.index.flatten()]
        return tokens.reshape(-1, self.block, x.shape[-1])

    def from_blocks(self, x: Float[Tensor, "blocks block n"]) -> Float[Tensor, "batch heads time n"]:
        """The inverse of `to_blocks`; zero at padding."""
        tokens = x.view(self.heads, -1, x.shape[-1])
        if self.inverse is not None:
            tokens = tokens[:, self.inverse.clamp(min=0)].masked_fill((self.inverse < 0)[:, None], 0.0)
        return tokens.unflatten(1, (self.batch, self.time)).transpose(0, 1)
