"""Decoding on a CPU with few calls: a one-token step with everything that can be computed beforehand.

A step of a small model reads its weights once, which takes a millisecond, and calls hundreds of small torch functions,
which takes two. Here a block is about twenty calls. Caches and their lengths are the model's own, and anything but a
plain step (a prompt, rows of different lengths) is left to the model.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.models.decoding.step import DecodingStep, QKVProjection, Statistics, decoder_stack, linear_of, obstacle
from regard.models.encoder_decoder import EncoderDecoder
from regard.models.stepper import last_logits
from regard.models.transformer import Decoder, DecoderState
from regard.nn.attention.heads import HeadProjection
from regard.nn.attention.module import Attention
from regard.nn.block import Block, Residual
from regard.nn.cache import CacheLengths, KVCache
from regard.nn.context import AttentionContext
from regard.nn.fast.linear import PrepackedLinear
from regard.nn.feedforward import FeedForward, activate
from regard.nn.head import VocabularyHead
from regard.nn.layout import Sequences
from regard.nn.norm import LayerNorm

Vectors = Float[Tensor, "rows 1 width"]
Mask = Bool[Tensor, "sentences 1 1 source"]


def cpu_obstacle(model: object) -> str:
    """Why a model cannot be decoded by `CPUDecoder`; empty where it can."""
    if why := obstacle(model):
        return why
    assert isinstance(model, Decoder | EncoderDecoder)
    stack = decoder_stack(model)
    for block in stack.blocks:
        attentions = [block.attention] if block.cross is None else [block.attention, block.cross]
        if not all(isinstance(part, HeadProjection) for one in attentions for part in (one.query, one.key, one.value)):
            return "its heads have projections of their own"
    if any(position.acts_on_scores for position in stack.positions):
        return "its positions act on the scores"
    return ""


class CPUDecoder:
    """A Stepper around a Transformer decoder or encoder-decoder: the same logits, in less time on a CPU.

    Weights are copied: make a new one after further training.
    """

    def __init__(self, model: Decoder | EncoderDecoder) -> None:
        if why := cpu_obstacle(model):
            raise TypeError(f"this model cannot be decoded by few calls: {why}")
        self.model, self._step = model, DecodingStep(model, CPUBlock)
        self.final_norm, self.head = without_lookups(self._step.stack.final_norm), without_lookups(model.head)

    def start(self, source: Sequences | None, *, rows: int, capacity: int) -> DecoderState:
        return self.model.start(source, rows=rows, capacity=capacity)

    def reorder(self, state: DecoderState, rows: Int[Tensor, " rows"]) -> DecoderState:
        return self.model.reorder(state, rows)

    @torch.no_grad()
    def step(
        self, tokens: Int[Tensor, "batch time"], state: DecoderState, lengths: Int[Tensor, " batch"] | None = None
    ) -> tuple[Float[Tensor, "batch time vocab"], DecoderState]:
        """Appends tokens to each row; the logits of what follows them."""
        cache_lengths = state.cache_lengths
        if tokens.shape[1] > 1 or lengths is not None or not cache_lengths.uniform:
            return self.model.step(tokens, state, lengths)
        context = AttentionContext(None, cache_lengths.next_positions(1), torch.arange(cache_lengths.longest + 1)[None])
        x, _ = self._step.hidden(
            tokens, context, CPUCache(state.caches, cache_lengths, state.source_kv, _source_mask(state))
        )
        return self.head(self.final_norm(x)), replace(state, cache_lengths=cache_lengths.advance(1))

    def last_logits(
        self, tokens: Int[Tensor, "batch time"], state: DecoderState, lengths: Int[Tensor, " batch"] | None = None
    ) -> tuple[Float[Tensor, "batch vocab"], DecoderState]:
        """A prompt is left to the model, which computes the last logits only."""
        if tokens.shape[1] > 1:
            return last_logits(self.model, tokens, state, lengths)
        logits, state = self.step(tokens, state, lengths)
        return logits[:, 0], state


class CPUCache(NamedTuple):
    """The caches of all layers, and the keys and values of the source, if any."""

    caches: list[KVCache]
    cache_lengths: CacheLengths
    source_kv: list[KVCache] | None
    source_mask: Mask | None


def _source_mask(state: DecoderState) -> Mask | None:
    """False where a source is padded; None where none is."""
    layout = state.source_layout
    return None if layout is None or layout.whole else layout.valid[:, None, None]


class CPUBlock:
    """One block for one token a row."""

    def __init__(self, block: Block) -> None:
        attention, cross = block.attention, block.cross
        qkv = QKVProjection(attention)
        self.qkv, self.split = PrepackedLinear(qkv.weight, qkv.bias), qkv.split
        self.rotate, self.on_values = attention.position.rotate, attention.position.on_values
        self.attention, self.around_attention = CPUAttention(attention), CPUResidual(block.around_attention)
        if cross is not None and block.around_cross is not None:
            query = linear_of(cross.query)
            self.cross_query = PrepackedLinear(query.weight, query.bias)
            self.cross, self.around_cross = CPUAttention(cross), CPUResidual(block.around_cross)
        self.feedforward = None if block.feedforward is None else without_lookups(block.feedforward)
        self.around_feedforward = block.around_feedforward and CPUResidual(block.around_feedforward)

    def __call__(
        self, x: Vectors, statistics: Statistics, context: AttentionContext, cache: CPUCache, layer: int
    ) -> tuple[Vectors, None]:
        x = self._self_attention(x, context.query_positions, cache.caches[layer], cache.cache_lengths)
        if cache.source_kv is not None:
            x = self._cross_attention(x, cache.source_kv[layer], cache.source_mask)
        if self.feedforward is not None and self.around_feedforward is not None:
            x = self.around_feedforward.add(x, self.feedforward(self.around_feedforward.norm_before(x)))
        return x, None

    def _self_attention(
        self, x: Vectors, index: Int[Tensor, "#rows 1"], cache: KVCache, cache_lengths: CacheLengths
    ) -> Vectors:
        qkv = self.qkv(self.around_attention.norm_before(x))
        q, k, v = self.split(qkv)
        q, k, v = self.rotate(q, index), self.rotate(k, index), self.on_values(v, index)
        keys, values = cache.append(k, v, cache_lengths)
        return self.around_attention.add(x, self.attention(q, keys, values, None, x.shape[0]))

    def _cross_attention(self, x: Vectors, source_kv: KVCache, mask: Mask | None) -> Vectors:
        """Rows of a beam that share a source sentence are queries of one batch row."""
        rows, sentences = x.shape[0], source_kv.keys.shape[0]
        q = self.cross_query(self.around_cross.norm_before(x))
        q = q.view(sentences, rows // sentences, self.cross.heads, -1).transpose(1, 2)
        return self.around_cross.add(x, self.cross(q, source_kv.keys, source_kv.values, mask, rows))


class CPUResidual:
    """A residual connection and its norm."""

    def __init__(self, around: Residual) -> None:
        norm = without_lookups(around.norm)
        self.norm_before = norm if around.norm_place == "before" else lambda x: x
        self.norm_after = norm if around.norm_place == "after" else None
        self.connected = around.connected

    def add(self, x: Vectors, change: Vectors) -> Vectors:
        y = x + change if self.connected else change
        return y if self.norm_after is None else self.norm_after(y)


class CPUAttention:
    """softmax(qkᵀ) v of all heads, and the output projection."""

    def __init__(self, attention: Attention) -> None:
        self.output, self.scale, self.heads = without_lookups(attention.output), attention.scale, attention.heads
        self.grouped = attention.heads != attention.kv_heads

    def __call__(self, q: Tensor, keys: Tensor, values: Tensor, mask: Mask | None, rows: int) -> Vectors:
        y = F.scaled_dot_product_attention(q, keys, values, attn_mask=mask, scale=self.scale, enable_gqa=self.grouped)
        return self.output(y.transpose(1, 2).reshape(rows, 1, -1))


def without_lookups(module: nn.Module) -> Callable[[Tensor], Tensor]:
    """What a module computes, with its weights looked up once and not at every call; other kinds as they are."""
    if type(module) is nn.Linear:
        return PrepackedLinear(module.weight, module.bias)
    if type(module) is VocabularyHead:
        linear = PrepackedLinear(module.weight, module.bias)
        return lambda x: module.without_never(linear(module.prepare(x)))
    if type(module) is LayerNorm and module.usual:
        shape, gain, shift, epsilon = (module.width,), module.gain, module.shift, module.epsilon
        return lambda x: torch.layer_norm(x, shape, gain, shift, epsilon)
    if type(module) is FeedForward:
        up, down, activation = without_lookups(module.up), without_lookups(module.down), module.activation
        return lambda x: down(activate(up(x), activation))
    return module
