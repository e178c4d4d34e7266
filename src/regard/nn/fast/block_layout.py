"""The work of sparse attention, laid out in blocks: which blocks of keys each block of queries needs, in which order.

Every sequence of a batch, however it lies in the grid (alone, padded, or packed with others), is cut into blocks of its
own. So no block holds tokens of two sequences, padding costs nothing, and the pattern of one sequence serves for all.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.nn.fast.block_mask import classified_blocks, tiles
from regard.nn.pattern import And, Padding, Pattern, Segments, Shifted

BLOCK = 64
"""Tokens in a block where a pattern knows no blocks of its own."""
SMALLEST, LARGEST = 16, 128
"""Blocks of a pattern are used as they are within these bounds."""
PAIRS_AT_ONCE = {"cpu": 1 << 18, "cuda": 1 << 26}
"""Scores computed at once: for each thread of a CPU what its cache holds, or what a GPU is kept busy with."""


@dataclass(frozen=True, eq=False)
class Within:
    """A pattern taken apart: what one sequence looks like, and what keeps sequences apart."""

    inner: Pattern
    own: Padding | Segments | None

    @classmethod
    def of(cls, pattern: Pattern) -> "Within | None":
        """None where a pattern is composed in another way."""
        if not isinstance(pattern, And):
            return None if pattern.per_batch else cls(pattern, None)
        one, own = pattern.one, pattern.other
        if isinstance(own, Padding) and own.queries is own.keys and not one.per_batch:
            return cls(one, own)
        if isinstance(own, Segments) and own.query_segment is own.key_segment and len(own.query_segment) == 1:
            placed = isinstance(one, Shifted) and one.queries is one.keys
            inner = one.inner if placed else one  # type: ignore[attr-defined]
            return cls(inner, own) if placed or one.by_distance else None
        return None if pattern.per_batch else cls(pattern, None)


@dataclass(frozen=True, eq=False)
class BlockTable:
    """The pairs of blocks that one sequence needs, and the masks of those that may be seen in part only."""

    head: Int[Tensor, " pairs"]
    query: Int[Tensor, " pairs"]
    key: Int[Tensor, " pairs"]
    mask: Int[Tensor, " pairs"]
    """Number of the pair's mask; 0 where every pair of tokens is allowed."""
    masks: Bool[Tensor, "kinds block block"]

    @classmethod
    def of(cls, pattern: Pattern, heads: int, blocks: int, block: int, device: torch.device) -> "BlockTable":
        """The table for sequences of up to so many blocks; made once, and shortened for shorter ones.

        It is made where the pattern's own tables are, and kept on the CPU.
        """
        known: dict[object, BlockTable] = vars(pattern).setdefault("_block_tables", {})
        shape = (heads, 1 << (blocks - 1).bit_length(), block)
        if shape not in known:
            known[shape] = cls._made(pattern, *shape, device)
        return known[shape]

    @classmethod
    def _made(cls, pattern: Pattern, heads: int, blocks: int, block: int, device: torch.device) -> "BlockTable":
        length = blocks * block
        some, every = classified_blocks(pattern, 1, heads, length, length, block, device)
        number = torch.zeros_like(some, dtype=torch.long)
        known = {np.packbits(np.ones(block * block, dtype=bool)).tobytes(): 0}  # equal masks are kept once
        for place, tile in tiles(pattern, some & ~every, length, length, block):
            rows = np.packbits(tile.flatten(1).cpu().numpy(), axis=1)
            numbers = [known.setdefault(row.tobytes(), len(known)) for row in rows]
            number[place] = torch.tensor(numbers, dtype=torch.long, device=device)
        masks = np.stack([np.unpackbits(np.frombuffer(mask, np.uint8), count=block * block) for mask in known])
        _, head, query, key = torch.nonzero(some.cpu().expand(-1, heads, -1, -1), as_tuple=True)
        number = number.cpu().expand(-1, heads, -1, -1)[0, head, query, key]
        return cls(head, query, key, number, torch.from_numpy(masks).view(-1, block, block).bool())


@dataclass(frozen=True, eq=False)
class Chunk:
    """Blocks of queries that need equally many blocks of keys: computed together."""

    queries: Int[Tensor, " chunk"]
    keys: Int[Tensor, "chunk seen"]
    masks: Int[Tensor, "chunk seen"] | None
    """Numbers of the masks; None where all is allowed."""
    hidden: Bool[Tensor, "chunk 1 tokens"] | None
    """True for the keys behind a sequence's end; None where there are none."""


class Tiling:
    """All blocks of a batch, numbered head by head, and the chunks in which they are computed."""

    def __init__(self, within: Within, batch: int, heads: int, kv_heads: int, time: int, device: torch.device) -> None:
        row, start, length = _sequences(within.own, batch, time)
        granularity = within.inner.granularity
        self.block = BLOCK if granularity == 1 else min(max(granularity, SMALLEST), LARGEST)
        self.batch, self.heads, self.time, self.device = batch, heads, time, device
        counts = -(-length // self.block)
        self.blocks = int(counts.sum())
        place = torch.arange(int(counts.max()) * self.block).view(-1, self.block)
        own = torch.arange(len(counts)).repeat_interleave(counts)
        number = torch.arange(self.blocks) - (counts.cumsum(0) - counts)[own]
        real = place[number] < length[own, None]
        index = row[own, None] * time + start[own, None] + place[number].minimum(length[own, None] - 1)
        table = BlockTable.of(within.inner, heads, int(counts.max()), self.block, device)
        self.masks, self.chunks = table.masks.to(device), self._chunks(table, counts, real, heads // kv_heads)
        self.index, self.real = index.to(device), real.to(device)

    def _chunks(
        self, table: BlockTable, counts: Int[Tensor, " sequences"], real: Bool[Tensor, "blocks block"], group: int
    ) -> list[Chunk]:
        starts = counts.cumsum(0) - counts
        pairs = [
            torch.stack([table.head * self.blocks + table.query + start, table.key + start, table.mask])[:, kept]
            for start, count in zip(starts.tolist(), counts.tolist(), strict=True)
            for kept in [(table.query < count) & (table.key < count)]
        ]
        query, key, mask = torch.cat(pairs, dim=1)
        order = torch.argsort(query, stable=True)
        query, key, mask = query[order], key[order], mask[order]
        key = query // self.blocks // group * self.blocks + key
        seen = torch.bincount(query, minlength=self.heads * self.blocks)
        first, chunks = seen.cumsum(0) - seen, []
        gpu = self.device.type == "cuda"
        most = PAIRS_AT_ONCE["cuda"] if gpu else PAIRS_AT_ONCE["cpu"] * torch.get_num_threads()
        for degree in seen.unique().tolist():
            for queries in torch.nonzero(seen == degree)[:, 0].split(max(1, most // (degree * self.block**2))):
                pair = first[queries, None] + torch.arange(degree)
                chunks.append(self._chunk(queries, key[pair], mask[pair], real))
        return chunks

    def _chunk(
        self,
        queries: Int[Tensor, " chunk"],
        keys: Int[Tensor, "chunk seen"],
        masks: Int[Tensor, "chunk seen"],
        real: Bool[Tensor, "blocks block"],
    ) -> Chunk:
        hidden = ~real[keys % self.blocks].flatten(1)[:, None]
        device = self.device
        return Chunk(
            queries.to(device),
            keys.to(device),
            masks.to(device) if masks.any() else None,
            hidden.to(device) if hidden.any() else None,
        )

    @cached_property
    def back(self) -> Int[Tensor, " tokens"] | None:
        """For each token of the grid its place among the blocks, -1 if it has none; None where these are the same."""
        tokens = self.batch * self.time
        if self.real.all() and torch.equal(self.index.flatten(), torch.arange(tokens, device=self.device)):
            return None
        back = torch.full((tokens,), -1, device=self.device)
        return back.index_put_((self.index[self.real],), torch.nonzero(self.real.flatten())[:, 0])

    def cut(self, x: Float[Tensor, "batch heads time n"]) -> Float[Tensor, "blocks block n"]:
        """Tokens in blocks, one head after another."""
        tokens = x.transpose(0, 1).flatten(1, 2)
        tokens = tokens if self.back is None else tokens[:, self.index.flatten()]
        return tokens.reshape(-1, self.block, x.shape[-1])

    def join(self, x: Float[Tensor, "blocks block n"]) -> Float[Tensor, "batch heads time n"]:
        """Blocks as tokens of the grid again; zero where no token stands."""
        tokens = x.view(self.heads, -1, x.shape[-1])
        if self.back is not None:
            tokens = tokens[:, self.back.clamp(min=0)].masked_fill((self.back < 0)[:, None], 0.0)
        return tokens.unflatten(1, (self.batch, self.time)).transpose(0, 1)


def _sequences(own: Padding | Segments | None, batch: int, time: int) -> tuple[Tensor, Tensor, Tensor]:
    """Row, start and length of each sequence that has a token."""
    if isinstance(own, Segments):
        length = own.query_lengths.cpu()
        row, start = torch.zeros_like(length), length.cumsum(0) - length
    else:
        length = torch.full((batch,), time) if own is None else own.keys.cpu()
        row, start = torch.arange(batch), torch.zeros_like(length)
    some = length > 0
    return row[some], start[some], length[some]
