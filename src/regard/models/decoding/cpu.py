"""A Transformer that writes on a CPU by few calls: one-token steps with all that is known beforehand done beforehand.

A step of a small model reads its weights once, which takes a millisecond, and asks torch for hundreds of small things,
which takes two. So a step of one token has a way of its own here: a block is about twenty calls. Caches and clock are
the model's own, and whatever is no plain step (a prompt, rows of different lengths) goes the model's own way.
"""

from collections.abc import Callable
from dataclasses import replace

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.models.decoding.step import JoinedMaps, obstacle, stack_of
from regard.models.encoder_decoder import EncoderDecoder
from regard.models.stepper import last_logits
from regard.models.transformer import Decoder, DecoderState
from regard.nn.attention.heads import HeadProjection
from regard.nn.attention.module import Attention
from regard.nn.block import Block, Residual
from regard.nn.cache import CacheLengths, KVCache
from regard.nn.context import AttentionContext
from regard.nn.fast.prepacked import Laid
from regard.nn.feedforward import FeedForward, activate
from regard.nn.head import VocabularyHead
from regard.nn.layout import Sequences
from regard.nn.norm import LayerNorm

Vectors = Float[Tensor, "rows 1 width"]
Mask = Bool[Tensor, "sentences 1 1 source"]


def too_special(model: object) -> str:
    """Why a model's steps cannot go the short way; empty where they can."""
    if why := obstacle(model):
        return why
    stack = stack_of(model)  # type: ignore[arg-type]
    for block in stack.blocks:
        assert isinstance(block, Block)
        attentions = [block.attention] if block.cross is None else [block.attention, block.cross]
        if not all(isinstance(part, HeadProjection) for one in attentions for part in (one.query, one.key, one.value)):
            return "its heads have maps of their own"
    if any(position.acts_on_scores for position in stack.positions):
        return "its positions act on the scores"
    return ""


class Lean:
    """A Stepper around a Transformer decoder or encoder-decoder: the same logits, in less time on a CPU.

    Many matrices are copied: make a new one after training on.
    """

    def __init__(self, model: Decoder | EncoderDecoder) -> None:
        if why := too_special(model):
            raise TypeError(f"this model has no short way: {why}")
        self.model, self.stack = model, stack_of(model)
        self.embedding = model.target_embedding if isinstance(model, EncoderDecoder) else model.embedding
        self.blocks = [LeanBlock(block) for block in self.stack.blocks]  # type: ignore[arg-type]
        self.final_norm, self.head = plainly(self.stack.final_norm), plainly(model.head)

    def start(self, source: Sequences | None, *, rows: int, capacity: int) -> DecoderState:
        """Reads the source, if any; nothing written yet."""
        return self.model.start(source, rows=rows, capacity=capacity)

    def reorder(self, state: DecoderState, rows: Int[Tensor, " rows"]) -> DecoderState:
        """The state of the chosen rows."""
        return self.model.reorder(state, rows)

    @torch.no_grad()
    def step(
        self, tokens: Int[Tensor, "batch time"], state: DecoderState, lengths: Int[Tensor, " batch"] | None = None
    ) -> tuple[Float[Tensor, "batch time vocab"], DecoderState]:
        """Appends tokens to each row; the logits of what follows them."""
        cache_lengths, stack = state.cache_lengths, self.stack
        if tokens.shape[1] > 1 or lengths is not None or not cache_lengths.uniform:
            return self.model.step(tokens, state, lengths)
        context = AttentionContext(None, cache_lengths.next_positions(1), torch.arange(cache_lengths.longest + 1)[None])
        every = stack.position_config.every_layer
        mask = _mask(state)
        x = self.embedding(tokens)
        for layer, block in enumerate(self.blocks):
            if layer == 0 or every:
                x = stack.positions[layer % len(stack.positions)].embed(x, context)  # type: ignore[operator]
            if layer == 0:
                x = stack.input_norm(x)
            x = block(x, context.query_positions, state.caches[layer], cache_lengths)
            if state.source_kv is not None:
                x = block.listen(x, state.source_kv[layer], mask)
            x = block.feed(x)
        return self.head(self.final_norm(x)), replace(state, cache_lengths=cache_lengths.advance(1))

    def last_logits(
        self, tokens: Int[Tensor, "batch time"], state: DecoderState, lengths: Int[Tensor, " batch"] | None = None
    ) -> tuple[Float[Tensor, "batch vocab"], DecoderState]:
        """A prompt goes the model's own way, which computes no more logits than are asked for."""
        if tokens.shape[1] > 1:
            return last_logits(self.model, tokens, state, lengths)
        logits, state = self.step(tokens, state, lengths)
        return logits[:, 0], state


def _mask(state: DecoderState) -> Mask | None:
    """Which tokens of its sentence each row may listen to; None where none is padding."""
    layout = state.source_layout
    return None if layout is None or layout.whole else layout.valid[:, None, None]


class LeanBlock:
    """One block for one token a row."""

    def __init__(self, block: Block) -> None:
        own, cross = block.attention, block.cross
        joined = JoinedMaps(own)
        self.maps, self.parts = Laid(joined.weight, joined.bias), joined.parts
        self.rotate = own.position.rotate
        self.attend, self.around_attention = Attend(own), Around(block.around_attention)
        if cross is not None and block.around_cross is not None:
            self.query, self.heads = Laid(cross.query.weight, cross.query.bias), cross.heads  # type: ignore[arg-type]
            self.ask, self.around_cross = Attend(cross), Around(block.around_cross)
        self.feedforward = None if block.feedforward is None else plainly(block.feedforward)
        self.around_feedforward = block.around_feedforward and Around(block.around_feedforward)

    def __call__(
        self, x: Vectors, index: Int[Tensor, "#rows 1"], cache: KVCache, cache_lengths: CacheLengths
    ) -> Vectors:
        """Self-attention, with its residual connection; the token's key and value go into the cache."""
        mapped = self.maps(self.around_attention.before(x))
        query, key, value = mapped.view(x.shape[0], sum(self.parts), 1, -1).split(self.parts, dim=1)
        query, key = self.rotate(query, index), self.rotate(key, index)
        keys, values = cache.append(key, value, cache_lengths)
        return self.around_attention.behind(x, self.attend(query, keys, values, None, x.shape[0]))

    def listen(self, x: Vectors, source: KVCache, mask: Mask | None) -> Vectors:
        """Cross-attention; where rows of a beam share a sentence, they ask it together."""
        rows, source_rows = x.shape[0], source.keys.shape[0]
        mapped = self.query(self.around_cross.before(x))
        query = mapped.view(source_rows, rows // source_rows, self.heads, -1).transpose(1, 2)
        return self.around_cross.behind(x, self.ask(query, source.keys, source.values, mask, rows))

    def feed(self, x: Vectors) -> Vectors:
        """The feed-forward part."""
        if self.feedforward is None or self.around_feedforward is None:
            return x
        return self.around_feedforward.behind(x, self.feedforward(self.around_feedforward.before(x)))


class Around:
    """A residual connection and its norm."""

    def __init__(self, around: Residual) -> None:
        norm = plainly(around.norm)
        self.before = norm if around.place == "before" else lambda x: x
        self.after = norm if around.place == "after" else None
        self.connected = around.connected

    def behind(self, x: Vectors, change: Vectors) -> Vectors:
        """x + change, normalised where that comes after."""
        y = x + change if self.connected else change
        return y if self.after is None else self.after(y)


class Attend:
    """softmax(qkᵀ) v of all heads, and the output map."""

    def __init__(self, attention: Attention) -> None:
        self.output, self.scale = plainly(attention.output), attention.scale
        self.shared = attention.heads != attention.kv_heads

    def __call__(self, query: Tensor, keys: Tensor, values: Tensor, mask: Mask | None, rows: int) -> Vectors:
        """What the rows found."""
        answer = F.scaled_dot_product_attention(
            query, keys, values, attn_mask=mask, scale=self.scale, enable_gqa=self.shared
        )
        return self.output(answer.transpose(1, 2).reshape(rows, 1, -1))


class LeanHead:
    """The output layer."""

    def __init__(self, head: VocabularyHead) -> None:
        self.head, self.product = head, Laid(head.weight, head.bias)

    def __call__(self, x: Vectors) -> Float[Tensor, "rows 1 vocab"]:
        """Scores of every token of the vocabulary."""
        head = self.head
        return head.without_never(self.product(head.prepare(x)))


def plainly(part: nn.Module) -> Callable[[Tensor], Tensor]:
    """What a module computes, its weights looked up once and not at every call; the module itself, where unknown."""
    if type(part) is nn.Linear:
        return Laid(part.weight, part.bias)
    if type(part) is VocabularyHead:
        return LeanHead(part)
    if type(part) is LayerNorm and part.epsilon_inside:
        shape, gain, shift, epsilon = (part.width,), part.gain, part.shift, part.epsilon
        return lambda x: torch.layer_norm(x, shape, gain, shift, epsilon)
    if type(part) is FeedForward:
        up, down, activation = plainly(part.up), plainly(part.down), part.activation
        return lambda x: down(activate(up(x), activation))
    return part
