"""Decoding on a GPU without waiting for the CPU: the step is captured once as a CUDA graph and replayed.

A step of a small model is some hundred kernels of a few microseconds each, which the CPU takes longer to launch than
the device to compute; a CUDA graph launches them at once. It replays fixed addresses, so all tensors lie in a static KV
cache; prompts, whose lengths differ, go through the model's own step and are then copied into it. Shapes are rounded up
to powers of two, so that few graphs serve all batches: unused rows are ignored, unused capacity is never read.
"""

import weakref
from collections.abc import Callable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.errors import ShapeError
from regard.models.decoding.static_blocks import fused_head, static_block
from regard.models.decoding.step import DecodingStep
from regard.models.encoder_decoder import EncoderDecoder
from regard.models.stepper import at_last, last_logits
from regard.models.transformer import Decoder, DecoderState
from regard.nn.cache import KVCache
from regard.nn.context import AttentionContext
from regard.nn.fast.decode import CacheShape, StaticKVCache
from regard.nn.fast.linear import MAX_ROWS
from regard.nn.layout import Sequences

MAX_IDLE_GRAPHS = 4
"""Graphs kept for later batches; each holds the keys and values of a batch."""
MIN_CAPACITY = 64
WARMUP_STEPS = 3
"""Steps before a capture, in which libraries choose their kernels and allocate their memory."""


class StaticStep:
    """The decoding step over a static KV cache: its tokens in, logits out, every row one token longer."""

    def __init__(self, model: Decoder | EncoderDecoder) -> None:
        self._step, self._head = DecodingStep(model, static_block), model.head
        self._fused_head = fused_head(model.head, self._step.stack.final_norm)

    @torch.no_grad()
    def __call__(self, cache: StaticKVCache) -> Float[Tensor, "rows vocab"]:
        key_positions = torch.arange(cache.shape.capacity, device=cache.lengths.device)
        context = AttentionContext(None, cache.lengths[:, None], key_positions[None])
        x, statistics = self._step.hidden(cache.tokens[:, None], context, cache)
        cache.lengths.add_(1)
        if self._fused_head is not None and len(x) <= MAX_ROWS:
            return self._fused_head(x, statistics)
        return self._head(self._step.stack.final_norm(x))[:, 0]


class CapturedStep:
    """A static KV cache and the step over it: on a GPU a CUDA graph, on a CPU the step itself."""

    def __init__(self, cache: StaticKVCache, step: Callable[[StaticKVCache], Tensor]) -> None:
        self.cache = cache
        on_gpu = cache.lengths.device.type == "cuda"
        self.run = capture(lambda: step(cache), before=cache.lengths.zero_) if on_gpu else lambda: step(cache)


def capture(step: Callable[[], Tensor], before: Callable[[], object]) -> Callable[[], Tensor]:
    """The step as one CUDA graph; a replay overwrites the last result, so a copy is returned.

    `before` empties the cache for each warm-up step, as positions may be limited to one token.
    """
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(WARMUP_STEPS):
            before()
            step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        result = step()

    def replay() -> Tensor:
        graph.replay()
        return result.clone()

    return replay


class StaticState:
    """The rows of a batch in the cache of a captured step, which is free again when this state is."""

    def __init__(self, captured: CapturedStep, rows: int, filled: int, capacity: int) -> None:
        self.captured, self.rows = captured, rows
        self.filled, self.capacity = filled, capacity

    def step(self, tokens: Int[Tensor, " rows"]) -> Float[Tensor, "rows vocab"]:
        """Appends one token to each row."""
        if self.filled == self.capacity:
            raise ShapeError(
                f"the cache has room for {self.capacity} tokens, got {self.filled + 1}; ask for more capacity"
            )
        self.captured.cache.tokens[: self.rows] = tokens
        self.filled += 1
        return self.captured.run()[: self.rows]

    def shorten(self, time: int, lengths: Int[Tensor, " rows"]) -> None:
        """Of the last `time` tokens, row b keeps the first `lengths[b]`; the others will be overwritten."""
        self.captured.cache.lengths[: self.rows] += lengths - time
        self.filled += int(lengths.max()) - time


State = DecoderState | StaticState
"""After the prompt: in the model's own cache, or in a static one."""


class CUDAGraphDecoder:
    """A Stepper around a Transformer decoder or encoder-decoder: the same logits, by a CUDA graph on a GPU.

    It holds copies of most weights, joined or with a norm's gain folded in: make a new one after further training.
    """

    def __init__(self, model: Decoder | EncoderDecoder) -> None:
        self.model, self._step = model, StaticStep(model)
        self._idle: list[CapturedStep] = []

    def start(self, source: Sequences | None, *, rows: int, capacity: int) -> DecoderState:
        return self.model.start(source, rows=rows, capacity=capacity)

    @torch.no_grad()
    def step(
        self,
        tokens: Int[Tensor, "batch time"],
        state: State,
        lengths: Int[Tensor, " batch"] | None = None,
    ) -> tuple[Float[Tensor, "batch time vocab"], State]:
        """Appends tokens to each row: the prompt by the model's own step, then token after token by the graph."""
        if isinstance(state, DecoderState):
            if state.cache_lengths.longest == 0:
                return self.model.step(tokens, state, lengths)
            state = self._from_prompt(state)
        logits = [state.step(column)[:, None] for column in tokens.unbind(1)]
        if lengths is not None:
            state.shorten(len(logits), lengths)
        return logits[0] if len(logits) == 1 else torch.cat(logits, 1), state

    def last_logits(
        self,
        tokens: Int[Tensor, "batch time"],
        state: State,
        lengths: Int[Tensor, " batch"] | None = None,
    ) -> tuple[Float[Tensor, "batch vocab"], State]:
        """A prompt is left to the model, which computes the last logits only."""
        if isinstance(state, DecoderState) and state.cache_lengths.longest == 0:
            return last_logits(self.model, tokens, state, lengths)
        logits, state = self.step(tokens, state, lengths)
        return at_last(logits, lengths), state

    @torch.no_grad()
    def reorder(self, state: State, rows: Int[Tensor, " rows"]) -> State:
        """The state of the selected rows; where their number rounds to another, it moves to a cache of that size."""
        if isinstance(state, DecoderState):
            return self.model.reorder(state, rows)
        cache, needed = state.captured.cache, next_power_of_two(len(rows))
        if needed == cache.shape.rows:
            cache.copy_rows(cache, rows, state.filled)
            state.rows = len(rows)
            return state
        shape = CacheShape(needed, cache.shape.capacity, cache.shape.sources, cache.shape.source_capacity)
        moved = self._state(shape, cache.layers, cache.source_kv, len(rows), state.filled, state.capacity)
        moved.captured.cache.copy_rows(cache, rows, state.filled)
        return moved

    def _from_prompt(self, state: DecoderState) -> StaticState:
        """Copies the cache that the model's own step filled."""
        cache_lengths, source_kv = state.cache_lengths, state.source_kv or []
        rows = len(cache_lengths.lengths)
        shape = CacheShape(next_power_of_two(rows), max(MIN_CAPACITY, next_power_of_two(cache_lengths.capacity)))
        if source_kv:
            sentences, _, time, _ = source_kv[0].keys.shape
            shape = CacheShape(shape.rows, shape.capacity, next_power_of_two(sentences), next_power_of_two(time))
        static = self._state(shape, state.caches, source_kv, rows, cache_lengths.longest, cache_lengths.capacity)
        cache = static.captured.cache
        cache.load(state.caches, cache_lengths.lengths, cache_lengths.longest)
        if source_kv and state.source_layout is not None and state.source_rows is not None:
            cache.load_source(source_kv, state.source_layout.lengths)
            cache.set_source_rows(state.source_rows)
        return static

    def _state(
        self,
        shape: CacheShape,
        like: list[KVCache],
        source_kv: list[KVCache],
        rows: int,
        filled: int,
        capacity: int,
    ) -> StaticState:
        """A state in an idle captured step of that shape, or in a new one."""
        idle = next((captured for captured in self._idle if captured.cache.shape == shape), None)
        if idle is not None:
            self._idle.remove(idle)
        captured = idle or CapturedStep(StaticKVCache(shape, like, source_kv), self._step)
        state = StaticState(captured, rows, filled, capacity)
        weakref.finalize(state, self._release, captured).atexit = False
        return state

    def _release(self, captured: CapturedStep) -> None:
        self._idle = [*self._idle, captured][-MAX_IDLE_GRAPHS:]


def next_power_of_two(count: int) -> int:
    return 1 << max(count - 1, 0).bit_length()
