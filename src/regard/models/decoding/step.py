"""One decoding step, the same loop for all backends: one token a row in, logits of the next out.

It computes what the model's own `step` computes for one token, by blocks that a backend provides: `cpu.py` over caches
that grow, `static_blocks.py` over a static KV cache, which `cuda_graph.py` captures.
"""

from collections.abc import Callable
from typing import Generic, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.models.encoder_decoder import EncoderDecoder
from regard.models.stack import Stack
from regard.models.transformer import Decoder
from regard.nn.attention.heads import HeadProjection
from regard.nn.attention.module import Attention
from regard.nn.block import Block
from regard.nn.context import AttentionContext
from regard.nn.experts import Experts
from regard.nn.pattern import Causal

Vectors = Float[Tensor, "rows one width"]
Query = Float[Tensor, "rows heads one head_width"]
Key = Float[Tensor, "rows kv_heads one head_width"]
Value = Float[Tensor, "rows kv_heads one value_width"]
Statistics = Float[Tensor, "two parts rows"] | None
"""Row statistics of the residual stream, where the kernel that wrote it stored them (`nn/fast/linear.py`)."""
Cache = TypeVar("Cache")
DecodingBlock = Callable[[Vectors, Statistics, AttentionContext, Cache, int], tuple[Vectors, Statistics]]
"""One block for one token a row; its arguments end with the backend's cache and the layer's index."""


def obstacle(model: object) -> str:
    """Why a model's step is not the same computation for every token; empty where it is."""
    if not isinstance(model, Decoder | EncoderDecoder):
        return f"{type(model).__name__} is no Transformer decoder"
    stack = decoder_stack(model)
    pattern = stack.pattern(1, torch.device("cpu"))
    plain = all(type(block.attention) is Attention for block in stack.blocks)
    if not plain or len(stack.layer_kinds) > 1 or not isinstance(pattern, Causal):
        return f"attention of kind {stack.attention.kind} attends to other keys at each step"
    if pattern.strict:
        return "strict attention leaves the first token no key to attend to"
    if any(isinstance(block.feedforward, Experts) for block in stack.blocks):
        return "the number of tokens of each expert differs from step to step"
    if any(part._forward_hooks or part._forward_pre_hooks for part in stack.modules()):
        return "its modules have hooks, which only the model's own step calls"
    return ""


def decoder_stack(model: Decoder | EncoderDecoder) -> Stack:
    return model.decoder if isinstance(model, EncoderDecoder) else model.stack


class DecodingStep(Generic[Cache]):
    """The tokens of one step through a decoder, by the blocks of a backend."""

    def __init__(self, model: Decoder | EncoderDecoder, block: Callable[[Block], DecodingBlock[Cache]]) -> None:
        if why := obstacle(model):
            raise TypeError(f"this model has no fixed decoding step: {why}")
        self.stack = decoder_stack(model)
        self.embedding = model.target_embedding if isinstance(model, EncoderDecoder) else model.embedding
        self.blocks = [block(part) for part in self.stack.blocks]

    def hidden(self, tokens: Tensor, context: AttentionContext, cache: Cache) -> tuple[Vectors, Statistics]:
        """The decoder's output for tokens (rows, 1) before the final norm; their keys and values go into the cache."""
        stack, every_layer = self.stack, self.stack.position_config.every_layer
        x, statistics = self.embedding(tokens), None
        for layer, block in enumerate(self.blocks):
            if layer == 0 or every_layer:
                x, statistics = stack.positions[layer % len(stack.positions)].embed(x, context), None
            if layer == 0:
                x = stack.input_norm(x)
            x, statistics = block(x, statistics, context, cache, layer)
        return x, statistics


def linear_of(part: nn.Module) -> nn.Linear:
    """A part of a block, known to be one matrix."""
    assert isinstance(part, nn.Linear)
    return part


class QKVProjection:
    """Queries, keys and values by one matmul instead of three; the weights are copied."""

    def __init__(self, attention: Attention) -> None:
        projections = [linear_of(part) for part in (attention.query, attention.key, attention.value)]
        self.heads = (attention.heads, attention.kv_heads, attention.kv_heads)
        widths = (attention.head_width, attention.head_width, attention.value_width)
        self.sizes = tuple(heads * width for heads, width in zip(self.heads, widths, strict=True))
        self.weight = torch.cat([part.weight.detach() for part in projections])
        has_bias = projections[0].bias is not None
        self.bias = torch.cat([part.bias.detach() for part in projections]) if has_bias else None

    @staticmethod
    def fits(attention: Attention) -> bool:
        return all(isinstance(part, HeadProjection) for part in (attention.query, attention.key, attention.value))

    def split(self, qkv: Float[Tensor, "rows 1 all"]) -> tuple[Query, Key, Value]:
        """Views of one token's queries, keys and values, by heads."""
        q, k, v = qkv.split(self.sizes, dim=2)
        rows, (of_query, of_key, of_value) = len(qkv), self.heads
        return q.view(rows, of_query, 1, -1), k.view(rows, of_key, 1, -1), v.view(rows, of_value, 1, -1)
