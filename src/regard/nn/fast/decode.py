"""Decode attention: one query a row over a static KV cache, whose filled lengths are known to the device only.

A CUDA graph replays fixed addresses and shapes, so nothing here grows: new keys are stored into the cache at each row's
length, and what lies beyond is masked. Plain torch on a CPU; on a GPU one kernel, which reads only what is filled.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.nn.cache import KVCache

Query = Float[Tensor, "rows heads head_width"]
Key = Float[Tensor, "rows kv_heads head_width"]
Cache = Float[Tensor, "cache_rows kv_heads capacity head_width"]
Value = Float[Tensor, "rows kv_heads value_width"]
ValueCache = Float[Tensor, "cache_rows kv_heads capacity value_width"]
Output = Float[Tensor, "rows heads value_width"]
Lengths = Int[Tensor, " cache_rows"]


def decode_attention(
    q: Query,
    k: Key,
    v: Value,
    k_cache: Cache,
    v_cache: ValueCache,
    lengths: Lengths,
    bias: Float[Tensor, "rows heads capacity"] | None,
    scale: float,
) -> Output:
    """Appends each row's k and v to its cache, of `lengths` tokens before, and attends to all of it."""
    if _kernel_fits(q, v_cache):
        from regard.nn.fast.decode_triton import decode_attention as kernel

        return kernel(q, k, v, k_cache, v_cache, lengths, None, bias, scale)
    append_to_cache(k, v, k_cache, v_cache, lengths)
    return attend_to_cache(q, k_cache, v_cache, lengths + 1, bias, scale)


def shared_cache_attention(
    q: Query, k_cache: Cache, v_cache: ValueCache, lengths: Lengths, cache_rows: Int[Tensor, " rows"], scale: float
) -> Output:
    """Row i attends to row cache_rows[i] of the cache; beams share the cache of their source."""
    if _kernel_fits(q, v_cache):
        from regard.nn.fast.decode_triton import decode_attention as kernel

        return kernel(q, None, None, k_cache, v_cache, lengths, cache_rows, None, scale)
    return attend_to_cache(q, k_cache[cache_rows], v_cache[cache_rows], lengths[cache_rows], None, scale)


def _kernel_fits(q: Query, v_cache: Tensor) -> bool:
    """Whether the GPU kernel applies: it takes values that are as wide as keys."""
    return q.device.type == "cuda" and q.shape[-1] == v_cache.shape[-1]


def append_to_cache(k: Key, v: Value, k_cache: Cache, v_cache: ValueCache, lengths: Lengths) -> None:
    """Stores each row's k and v at index `lengths`."""
    for cache, new in ((k_cache, k), (v_cache, v)):
        index = lengths[:, None, None, None].expand(-1, cache.shape[1], 1, cache.shape[3])
        cache.scatter_(2, index, new[:, :, None])


def attend_to_cache(
    q: Query, k_cache: Cache, v_cache: ValueCache, lengths: Lengths, bias: Tensor | None, scale: float
) -> Output:
    """softmax(q·kᵀ·scale + bias) v over the first `lengths` keys of each row."""
    groups = q.shape[1] // k_cache.shape[1]
    k, v = (x if groups == 1 else x.repeat_interleave(groups, 1) for x in (k_cache, v_cache))
    scores = (k @ q[..., None])[..., 0] * scale
    scores = scores if bias is None else scores + bias
    masked = torch.arange(k.shape[2], device=k.device) >= lengths[:, None, None]
    weights = scores.masked_fill(masked, -torch.inf).softmax(-1)
    return (weights[:, :, None] @ v)[:, :, 0]


@dataclass(frozen=True)
class CacheShape:
    """Rows and tokens that a static cache has room for."""

    rows: int
    capacity: int
    sources: int = 0
    """Source sentences of an encoder-decoder; 0 for a decoder."""
    source_capacity: int = 0


class StaticKVCache:
    """Keys and values of every layer in tensors that never move or grow, with each row's length, all on the device.

    Rows that are not in use have length 0: they are computed, and their output is ignored.
    """

    def __init__(self, shape: CacheShape, like: Sequence[KVCache], source_kv: Sequence[KVCache] = ()) -> None:
        self.shape = shape
        device = like[0].keys.device
        self.tokens = torch.zeros(shape.rows, dtype=torch.long, device=device)
        """The token of each row that the next step feeds."""
        self.lengths = torch.zeros(shape.rows, dtype=torch.long, device=device)
        self.layers = _zero_layers(like, shape.rows, shape.capacity)
        self.source_kv = _zero_layers(source_kv, shape.sources, shape.source_capacity)
        self.source_lengths = torch.ones(shape.sources, dtype=torch.long, device=device)
        self.source_rows = torch.zeros(shape.rows, dtype=torch.long, device=device)
        """Which source sentence each row attends to."""

    def load(self, caches: Sequence[KVCache], lengths: Int[Tensor, " some"], filled: int) -> None:
        """Copies the first `filled` keys and values of other caches."""
        rows = len(lengths)
        for layer, cache in zip(self.layers, caches, strict=True):
            layer.keys[:rows, :, :filled] = cache.keys[:, :, :filled]
            layer.values[:rows, :, :filled] = cache.values[:, :, :filled]
        self.lengths.zero_()
        self.lengths[:rows] = lengths

    def load_source(self, source_kv: Sequence[KVCache], lengths: Int[Tensor, " sentences"]) -> None:
        """Copies the keys and values of the encoder's output."""
        for layer, source in zip(self.source_kv, source_kv, strict=True):
            sentences, _, time, _ = source.keys.shape
            layer.keys[:sentences, :, :time] = source.keys
            layer.values[:sentences, :, :time] = source.values
        self.source_lengths[: len(lengths)] = lengths

    def set_source_rows(self, source_rows: Int[Tensor, " some"]) -> None:
        self.source_rows.zero_()
        self.source_rows[: len(source_rows)] = source_rows

    def copy_rows(self, other: "StaticKVCache", rows: Int[Tensor, " some"], filled: int) -> None:
        """Row i becomes row `rows[i]` of another cache, which may be this one; so does its source row."""
        lengths, source_rows = other.lengths[rows], other.source_rows[rows]
        layers = [KVCache(layer.keys[:, :, :filled], layer.values[:, :, :filled]) for layer in other.layers]
        self.load([layer.reorder(rows) for layer in layers], lengths, filled)
        if other is not self:
            self.load_source(other.source_kv, other.source_lengths)
        self.set_source_rows(source_rows)


def _zero_layers(like: Sequence[KVCache], rows: int, capacity: int) -> list[KVCache]:
    """Zero-initialised: masked values are multiplied by 0, and 0·NaN is NaN."""

    def zeros(tensor: Tensor) -> Tensor:
        return tensor.new_zeros(rows, tensor.shape[1], capacity, tensor.shape[3])

    return [KVCache(zeros(layer.keys), zeros(layer.values)) for layer in like]
