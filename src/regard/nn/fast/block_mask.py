"""Patterns read block by block: which blocks of queries and keys hold a pair that may attend.

Whole blocks are judged first (`Pattern.judge`), and only those left open are looked into. So what is asked grows with
what may be seen; only a table of truth values, one for each pair of blocks, grows with the square of the length.
"""

from collections.abc import Iterator

import torch
from jaxtyping import Bool, Int
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask

from regard.nn.pattern import IndexRange, Pattern

AT_ONCE = 1 << 22
"""Pairs that are asked at once where blocks are looked into."""

Blocks = Bool[Tensor, "#batch #heads query_blocks key_blocks"]


def classified_blocks(
    pattern: Pattern,
    batch: int,
    heads: int,
    queries: int,
    keys: int,
    block: int,
    device: torch.device | str = "cpu",
    look: bool = True,
) -> tuple[Blocks, Blocks]:
    """Which blocks hold an allowed pair, and which of those hold nothing else; axes where nothing changes are one.

    Without a look into them, blocks that are left open count as holding both.
    """
    rows = torch.arange(batch if pattern.per_batch else 1, device=device)[:, None, None, None]
    head = torch.arange(heads if pattern.per_head else 1, device=device)[None, :, None, None]
    query, key = _spans(pattern, queries, block, device), _spans(pattern, keys, block, device)
    coverage = pattern.classify_block(rows, head, IndexRange(query.first[:, None], query.last[:, None]), key)
    inside = (torch.arange(len(query.first), device=device)[:, None] + 1) * block <= queries
    inside = inside & ((torch.arange(len(key.first), device=device) + 1) * block <= keys)
    shape = (len(rows), head.shape[1], *inside.shape)
    some, every = coverage.any.expand(shape).clone(), (coverage.any & coverage.all & inside).expand(shape).clone()
    for place, tile in tiles(pattern, some & ~every, queries, keys, block) if look else ():
        some[place], every[place] = tile.flatten(1).any(1), tile.flatten(1).all(1)
    return some, every


def tiles(
    pattern: Pattern, wanted: Blocks, queries: int, keys: int, block: int
) -> Iterator[tuple[tuple[Int[Tensor, " some"], ...], Bool[Tensor, "some block block"]]]:
    """The pairs inside the wanted blocks, some blocks at a time, and where these blocks stand."""
    inside, last = torch.arange(block, device=wanted.device), _last(pattern)
    for some in torch.nonzero(wanted).split(max(1, AT_ONCE // block**2)):
        batch, head, row, column = (index[:, None, None] for index in some.unbind(1))
        query, key = row * block + inside[:, None], column * block + inside
        real = (query < queries) & (key < keys)
        query, key = query.clamp(max=min(queries - 1, last)), key.clamp(max=min(keys - 1, last))
        yield some.unbind(1), pattern.allowed(batch, head, query, key) & real


def _spans(pattern: Pattern, tokens: int, block: int, device: torch.device | str) -> IndexRange:
    """First and last token of each block; nothing beyond what a pattern has a table for, where no token can stand."""
    first = torch.arange(0, tokens, block, device=device)
    last = min(tokens - 1, _last(pattern))
    return IndexRange(first.clamp(max=last), (first + block - 1).clamp(max=last))


def _last(pattern: Pattern) -> int:
    return (1 << 62) if pattern.limit is None else pattern.limit - 1


def block_mask(
    pattern: Pattern, batch: int, heads: int, queries: int, keys: int, device: torch.device | str, block: int = 128
) -> BlockMask:
    """The pattern as FlexAttention wants it: empty blocks are never computed, full ones never masked.

    Packed sequences come anew with each batch, and whole blocks tell nearly all about them: a look into the others
    would keep the processor waiting for the device.
    """
    flags = pattern.flags()
    packed = flags is not None and flags.segments is not None
    some, every = classified_blocks(pattern, batch, heads, queries, keys, block, device, look=not packed)
    partial = some & ~every
    # Where no block is partial, a compiled kernel has nothing to ask; uncompiled, on the CPU, it asks all the same.
    asks = packed or some.device.type == "cpu" or bool(partial.any())
    return BlockMask.from_kv_blocks(
        *_in_order(partial),
        *_in_order(every),
        BLOCK_SIZE=block,
        # torch counts arguments, and with a method would count `self` too
        mask_mod=(lambda row, head, query, key: pattern.allowed(row, head, query, key)) if asks else None,
        seq_lengths=(queries, keys),
    )


def _in_order(blocks: Blocks) -> tuple[Int[Tensor, "#batch #heads row"], Int[Tensor, "#batch #heads row column"]]:
    """How many blocks each row has, and which: those first, in order."""
    return blocks.sum(-1).int(), torch.argsort((~blocks).int(), dim=-1, stable=True).int()
