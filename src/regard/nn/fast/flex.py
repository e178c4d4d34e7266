"""FlexAttention: a kernel generated for one kind of pattern and bias, which skips blocks where all pairs are masked."""

from collections.abc import Callable
from functools import cache

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask, noop_mask
from torch.nn.attention.flex_attention import flex_attention as torch_flex_attention

from regard.nn.fast.block_layout import Blocks, classify_blocks
from regard.nn.fast.memo import memo
from regard.nn.fast.sdpa import shares_keys
from regard.nn.pattern import Pattern
from regard.nn.position import Bias

Query = Float[Tensor, "batch heads query head_width"]
Key = Float[Tensor, "batch kv_heads key head_width"]
Value = Float[Tensor, "batch kv_heads key value_width"]
Output = Float[Tensor, "batch heads query value_width"]

MAX_BLOCK_MASKS = 64
"""Block masks kept of one pattern: a decoder's lives as long as the model, and batches of text have many shapes."""


def flex_attention(
    q: Query, k: Key, v: Value, pattern: Pattern | None, bias: Bias | None, scale: float, dropout: float
) -> Output:
    """torch's flex_attention with the pattern as block mask and the bias as score_mod.

    With a table lookup for each pair it has one pipeline stage: prefetched entries would not fit into shared memory.
    """
    assert dropout == 0
    mask = memoised_block_mask(pattern, q, k) if pattern is not None else None
    uses_table = pattern is not None and pattern.uses_table and mask is not None and mask.mask_mod is not noop_mask
    return _flex_kernel(q, pattern, bias)(
        q,
        k,
        v,
        score_mod=bias.score_mod if bias is not None else None,
        block_mask=mask,
        scale=scale,
        enable_gqa=shares_keys(q, k),
        kernel_options={"num_stages": 1} if bias is not None or uses_table else None,
    )


def _flex_kernel(q: Query, pattern: Pattern | None, bias: Bias | None) -> Callable[..., Tensor]:
    if q.device.type != "cuda" or torch.compiler.is_compiling():  # the latter compiles it with all around it
        return torch_flex_attention  # type: ignore[return-value]
    return _compiled_flex((_structure(pattern), bias and bias.rule.__qualname__, q.dtype, q.shape[3]))


@cache
def _compiled_flex(kind: tuple[object, ...]) -> Callable[..., Tensor]:
    """FlexAttention compiled for one kind of pattern and bias, whatever their values and lengths.

    torch caches compiled code by code object, and stops compiling after a few variants of one. So each kind has a code
    object of its own.
    """
    fresh = lambda *tensors, **options: torch_flex_attention(*tensors, **options)  # noqa: E731
    fresh.__code__ = fresh.__code__.replace(co_name=f"flex_{abs(hash(kind))}")
    return torch.compile(fresh)


def _structure(pattern: Pattern | None) -> tuple[object, ...]:
    """The kinds of patterns that one is composed of."""
    parts = vars(pattern).values() if pattern is not None else ()
    return (type(pattern), *(_structure(part) for part in parts if isinstance(part, Pattern)))


def memoised_block_mask(pattern: Pattern, q: Query, k: Key) -> BlockMask:
    shape = (q.shape[0], q.shape[1], q.shape[2], k.shape[2], q.device)
    return memo(pattern, ("block mask", *shape), lambda: block_mask(pattern, *shape), keep=MAX_BLOCK_MASKS)


def block_mask(
    pattern: Pattern, batch: int, heads: int, queries: int, keys: int, device: torch.device | str, block: int = 128
) -> BlockMask:
    """The pattern as FlexAttention's block mask: empty blocks are never computed, full ones never masked.

    Packed sequences come anew with each batch, and nearly all of their blocks can be classified as a whole: evaluating
    the pairs of the others would make the CPU wait for the device.
    """
    flags = pattern.flags()
    packed = flags is not None and flags.segments is not None
    some, every = classify_blocks(pattern, batch, heads, queries, keys, block, device, evaluate_pairs=not packed)
    partial = some & ~every
    # Without partial blocks, a compiled kernel needs no mask_mod; uncompiled, on the CPU, it evaluates it all the same.
    needs_mask = packed or some.device.type == "cpu" or bool(partial.any())
    return BlockMask.from_kv_blocks(
        *_indices(partial),
        *_indices(every),
        BLOCK_SIZE=block,
        # torch counts arguments, and with a method would count `self` too
        mask_mod=(lambda row, head, query, key: pattern.allowed(row, head, query, key)) if needs_mask else None,
        seq_lengths=(queries, keys),
    )


def _indices(blocks: Blocks) -> tuple[Int[Tensor, "#batch #heads row"], Int[Tensor, "#batch #heads row column"]]:
    """How many blocks each row has, and their columns in order, before those of all others."""
    return blocks.sum(-1).int(), torch.argsort((~blocks).int(), dim=-1, stable=True).int()
