"""One decoding step as a fixed computation: a token a row in, scores of the next out, every length a tensor.

It is what the model's own `step` computes for one token, through the same modules, but over a `Room` in place of a
cache that grows. So it can be captured in a CUDA graph and replayed, which spares the processor all its calls.
"""

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.models.encoder_decoder import EncoderDecoder
from regard.models.stack import Stack
from regard.models.transformer import Decoder
from regard.nn.attention.heads import HeadProjection, split_heads
from regard.nn.attention.module import Attention
from regard.nn.attention.reference import reference_attention
from regard.nn.block import Block
from regard.nn.cache import KVCache
from regard.nn.context import AttentionContext
from regard.nn.experts import Experts
from regard.nn.fast.decode import append, append_and_attend, attend_in_rooms
from regard.nn.fast.static_cache import Room
from regard.nn.pattern import Causal, Padding

Vectors = Float[Tensor, "rows one width"]
Query = Float[Tensor, "rows heads one head_width"]
Key = Float[Tensor, "rows kv_heads one head_width"]
Moments = Float[Tensor, "two parts rows"] | None
"""What kernels tell each other of the numbers between blocks, where they do (`nn/fast/linear.py`)."""


def obstacle(model: object) -> str:
    """Why a model's step is not a fixed computation; empty where it is."""
    if not isinstance(model, Decoder | EncoderDecoder):
        return f"{type(model).__name__} is no Transformer decoder"
    stack = stack_of(model)
    pattern = stack.pattern(1, torch.device("cpu"))
    plain = all(type(block.attention) is Attention for block in stack.blocks)
    if not plain or len(stack.layer_kinds) > 1 or not isinstance(pattern, Causal):
        return f"attention of kind {stack.attention.kind} sees another part of what is written at each step"
    if pattern.strict:
        return "strict attention leaves the first token nothing to see"
    if any(isinstance(block.feedforward, Experts) for block in stack.blocks):
        return "how many tokens each expert serves differs from step to step"
    return ""


def stack_of(model: Decoder | EncoderDecoder) -> Stack:
    """The stack that writes."""
    return model.decoder if isinstance(model, EncoderDecoder) else model.stack


class JoinedMaps(nn.Module):
    """Queries, keys and values by one matrix product in place of three; the matrices are copied."""

    def __init__(self, attention: Attention) -> None:
        super().__init__()
        maps = (attention.query, attention.key, attention.value)
        self.parts = (attention.heads, attention.kv_heads, attention.kv_heads)
        self.weight = torch.cat([part.weight.detach() for part in maps])  # type: ignore[arg-type]
        has_bias = attention.query.bias is not None
        self.bias = torch.cat([part.bias.detach() for part in maps]) if has_bias else None  # type: ignore[union-attr]

    def forward(self, x: Vectors) -> tuple[Query, Key, Key]:
        """Queries, keys and values of all heads."""
        return self.cut(nn.functional.linear(x, self.weight, self.bias))

    def cut(self, mapped: Float[Tensor, "rows one all"]) -> tuple[Query, Key, Key]:
        """What the product gave, cut up."""
        query, key, value = split_heads(mapped, sum(self.parts)).split(self.parts, dim=1)
        return query, key, value


class NewestToken(nn.Module):
    """The newest token of each row in one block; blocks of one shape are compiled once for all."""

    def __init__(self, block: Block) -> None:
        super().__init__()
        self.block = block
        maps = (block.attention.query, block.attention.key, block.attention.value)
        self.joined = JoinedMaps(block.attention) if all(isinstance(part, HeadProjection) for part in maps) else None

    def forward(
        self, x: Vectors, moments: Moments, context: AttentionContext, own: KVCache, heard: KVCache | None, room: Room
    ) -> tuple[Vectors, Moments]:
        """All sub-layers in turn; the token's key and value go into `own`."""
        if torch.compiler.is_compiling():
            context = AttentionContext(
                None, context.query_positions, context.key_positions
            )  # what layers share would not be the same code in each
        block = self.block
        x = block.around_attention(x, lambda x: self._attend(x, context, own, room.lengths))
        if block.cross is not None and block.around_cross is not None and heard is not None:
            x = block.around_cross(x, lambda x: self._listen(x, heard, room))
        if block.feedforward is not None and block.around_feedforward is not None:
            x = block.around_feedforward(x, block.feedforward)
        return x, None

    def _attend(self, x: Vectors, context: AttentionContext, own: KVCache, lengths: Int[Tensor, " rows"]) -> Vectors:
        """Self-attention; the new key and value are stored on the way."""
        answer = self.answer(*self._project(x), context, own, lengths)
        return self.block.attention.output(answer[:, None])

    def answer(
        self, query: Query, key: Key, value: Key, context: AttentionContext, own: KVCache, lengths: Int[Tensor, " rows"]
    ) -> Float[Tensor, "rows all"]:
        """What all heads found, before the output map."""
        position, scale = self.block.attention.position, self.block.attention.scale
        query, key = position.rotate(query, context.query_positions), position.rotate(key, context.query_positions)
        bias = position.on_scores(query, scale, context)
        if position.needs_weights:
            append(key[:, :, 0], value[:, :, 0], own.keys, own.values, lengths)
            by_distance = lambda weights: position.values(weights, context)  # noqa: E731
            answer = reference_attention(
                query, own.keys, own.values, Padding(keys=lengths + 1), bias, scale, values_by_distance=by_distance
            ).output[:, :, 0]
        else:
            shape = (*query.shape[:2], own.keys.shape[2])
            added = None if bias is None else bias.dense(shape[0], 1, shape[2])[:, :, 0].expand(shape)
            new = (part[:, :, 0] for part in (query, key, value))
            answer = append_and_attend(*new, own.keys, own.values, lengths, added, scale)
        return answer.flatten(1)

    def _project(self, x: Vectors) -> tuple[Query, Key, Key]:
        attention = self.block.attention
        return self.joined(x) if self.joined is not None else (attention.query(x), attention.key(x), attention.value(x))

    def _listen(self, x: Vectors, heard: KVCache, room: Room) -> Vectors:
        """Cross-attention to the sentence that each row listens to."""
        cross = self.block.cross
        assert cross is not None
        query = cross.query(x)[:, :, 0]
        answer = attend_in_rooms(query, heard.keys, heard.values, room.heard_lengths, room.listens_to, cross.scale)
        return cross.output(answer.flatten(1)[:, None])


class OneToken:
    """The newest token of each row on its way through a decoder."""

    def __init__(self, model: Decoder | EncoderDecoder, newest: Callable[[Block], NewestToken] = NewestToken) -> None:
        if why := obstacle(model):
            raise TypeError(f"this model cannot be stepped in place: {why}")
        self.stack = stack_of(model)
        self.embedding = model.target_embedding if isinstance(model, EncoderDecoder) else model.embedding
        self.head = model.head
        self.scores: Callable[[Vectors, Moments], Tensor] = self._scores
        self.blocks: list[Callable[..., tuple[Vectors, Moments]]] = [newest(block) for block in self.stack.blocks]  # type: ignore[arg-type]

    def compile(self, options: dict[str, Any] | None = None) -> None:
        """Lets Inductor write the kernels of the blocks."""
        self.blocks = [torch.compile(block, fullgraph=True, options=options) for block in self.blocks]

    @torch.no_grad()
    def __call__(self, room: Room) -> Float[Tensor, "rows vocab"]:
        """Feeds the room's tokens, by which every row grows; scores of what follows."""
        stack, every = self.stack, self.stack.position_config.every_layer
        places = torch.arange(room.shape.capacity, device=room.lengths.device)
        context = AttentionContext(None, room.lengths[:, None], places[None])
        x, moments = self.embedding(room.tokens[:, None]), None
        for layer, block in enumerate(self.blocks):
            if layer == 0 or every:
                x, moments = stack.positions[layer % len(stack.positions)].embed(x, context), None  # type: ignore[operator]
            if layer == 0:
                x = stack.input_norm(x)
            heard = room.heard[layer] if room.heard else None
            x, moments = block(x, moments, context, room.layers[layer], heard, room)
        room.lengths.add_(1)
        return self.scores(x, moments)

    def _scores(self, x: Vectors, moments: Moments) -> Float[Tensor, "rows vocab"]:
        return self.head(self.stack.final_norm(x))[:, 0]
