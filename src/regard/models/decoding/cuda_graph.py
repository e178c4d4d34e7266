"""A Transformer that writes on a GPU without waiting for the processor: its step is captured once and replayed.

A step of a small model is some hundred kernels of a few microseconds each, and the processor needs longer to ask for
them than the device to compute them. Captured as a CUDA graph, they are asked for at once. A graph knows addresses, not
tensors, so everything it touches lies in a `Room`; prompts, whose lengths differ, go the model's ordinary way and are
then taken over. Shapes are rounded up to powers of two, so that few graphs serve all batches: rows that nobody needs
are computed and not looked at, and of the room's capacity only what is filled is read.
"""

import weakref
from collections.abc import Callable
from typing import Any, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.errors import ShapeError
from regard.models.decoding.fused_step import fused_head, fused_where_known
from regard.models.decoding.step import OneToken
from regard.models.encoder_decoder import EncoderDecoder
from regard.models.stepper import at_last, last_logits
from regard.models.transformer import Decoder, DecoderState
from regard.nn.cache import KVCache
from regard.nn.fast.static_cache import Room, RoomShape
from regard.nn.layout import Sequences

Way = Literal["eager", "captured", "fused", "compiled"]
"""How a step runs: call by call, as a CUDA graph of torch's own kernels, of few kernels that compute what stands around
a product with it, or of kernels that Inductor wrote for it."""

KEPT = 4
"""Graphs that are kept for later batches; each holds the keys and values of a batch."""
SMALLEST_CAPACITY = 64
WARMING = 3
"""Steps before a capture, in which libraries choose their kernels and take their memory."""
INDUCTOR: dict[str, Any] = {"coordinate_descent_tuning": True, "triton.cudagraphs": False}
"""The former also writes products of a single row as sums, which fuse with what stands around them."""


class Program:
    """A room and the step that writes in it."""

    def __init__(self, room: Room, step: Callable[[Room], Tensor], captures: bool) -> None:
        self.room = room
        once = lambda: step(room)  # noqa: E731
        self.run = captured(once, before=room.lengths.zero_) if captures else once


def captured(step: Callable[[], Tensor], before: Callable[[], object]) -> Callable[[], Tensor]:
    """The step as one CUDA graph; what it gives is overwritten by the next replay, so a copy is handed out.

    `before` makes the room empty again for each step of the warming, as positions may reach no further than one token.
    """
    aside = torch.cuda.Stream()
    aside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(aside):
        for _ in range(WARMING):
            before()
            step()
    torch.cuda.current_stream().wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        result = step()

    def replay() -> Tensor:
        graph.replay()
        return result.clone()

    return replay


class Held:
    """What is written so far, in a program's room; the program is free again when nobody holds this."""

    def __init__(self, program: Program, rows: int, filled: int, capacity: int) -> None:
        self.program, self.rows = program, rows
        self.filled, self.capacity = filled, capacity

    def step(self, tokens: Int[Tensor, " rows"]) -> Float[Tensor, "rows vocab"]:
        """One token more in each row."""
        if self.filled == self.capacity:
            raise ShapeError(
                f"the cache has room for {self.capacity} tokens, got {self.filled + 1}; ask for more capacity"
            )
        self.program.room.tokens[: self.rows] = tokens
        self.filled += 1
        return self.program.run()[: self.rows]

    def shorten(self, time: int, lengths: Int[Tensor, " rows"]) -> None:
        """Of the last `time` tokens, row b keeps the first `lengths[b]`; what stands behind them is written over."""
        self.program.room.lengths[: self.rows] += lengths - time
        self.filled += int(lengths.max()) - time


class Graphed:
    """A Stepper around a Transformer decoder or encoder-decoder: the same logits, captured on a GPU.

    On a GPU it holds copies of most matrices, joined or with a norm's gain in them: make a new one after training on.
    On a CPU the same step runs uncaptured, and of the weights only the maps of queries, keys and values are copied.
    """

    def __init__(self, model: Decoder | EncoderDecoder, way: Way | None = None) -> None:
        on_gpu = next(model.parameters()).device.type == "cuda"
        self.model = model
        self.way: Way = way or ("fused" if on_gpu else "eager")
        self._step = OneToken(model, fused_where_known) if self.way == "fused" else OneToken(model)
        if self.way == "fused":
            self._step.scores = fused_head(self._step)
        if self.way == "compiled":
            self._step.compile(INDUCTOR if on_gpu else None)
        self._captures = on_gpu and self.way != "eager"
        self._idle: list[Program] = []

    def start(self, source: Sequences | None, *, rows: int, capacity: int) -> DecoderState:
        """Nothing written yet."""
        return self.model.start(source, rows=rows, capacity=capacity)

    @torch.no_grad()
    def step(
        self,
        tokens: Int[Tensor, "batch time"],
        state: Any,  # noqa: ANN401
        lengths: Int[Tensor, " batch"] | None = None,
    ) -> tuple[Float[Tensor, "batch time vocab"], Any]:
        """Appends tokens to each row: the prompt by the model's own step, then token after token in a room."""
        if isinstance(state, DecoderState):
            if state.cache_lengths.longest == 0:
                return self.model.step(tokens, state, lengths)
            state = self._seated(state)
        logits = [state.step(column)[:, None] for column in tokens.unbind(1)]
        if lengths is not None:
            state.shorten(len(logits), lengths)
        return logits[0] if len(logits) == 1 else torch.cat(logits, 1), state

    def last_logits(
        self,
        tokens: Int[Tensor, "batch time"],
        state: Any,  # noqa: ANN401
        lengths: Int[Tensor, " batch"] | None = None,
    ) -> tuple[Float[Tensor, "batch vocab"], Any]:
        """A prompt goes the model's own way, which computes no more logits than are asked for."""
        if isinstance(state, DecoderState) and state.cache_lengths.longest == 0:
            return last_logits(self.model, tokens, state, lengths)
        logits, state = self.step(tokens, state, lengths)
        return at_last(logits, lengths), state

    @torch.no_grad()
    def reorder(self, state: Any, rows: Int[Tensor, " rows"]) -> Any:  # noqa: ANN401
        """The state of the chosen rows; far fewer or more rows than before move to a room of their size."""
        if isinstance(state, DecoderState):
            return self.model.reorder(state, rows)
        here, needed = state.program.room, rounded(len(rows))
        if needed == here.shape.rows:
            here.take(here, rows, state.filled)
            state.rows = len(rows)
            return state
        shape = RoomShape(needed, here.shape.capacity, here.shape.sources, here.shape.source_capacity)
        moved = self._held(shape, here.layers, here.heard, len(rows), state.filled, state.capacity)
        moved.program.room.take(here, rows, state.filled)
        return moved

    def _seated(self, state: DecoderState) -> Held:
        """Takes over what the model's own step wrote."""
        cache_lengths, heard = state.cache_lengths, state.source_kv or []
        shape = RoomShape(rounded(len(cache_lengths.lengths)), max(SMALLEST_CAPACITY, rounded(cache_lengths.capacity)))
        if heard:
            source_rows, _, time, _ = heard[0].keys.shape
            shape = RoomShape(shape.rows, shape.capacity, rounded(source_rows), rounded(time))
        held = self._held(
            shape, state.caches, heard, len(cache_lengths.lengths), cache_lengths.longest, cache_lengths.capacity
        )
        room = held.program.room
        room.fill(state.caches, cache_lengths.lengths, cache_lengths.longest)
        if heard and state.source_layout is not None and state.source_rows is not None:
            room.hear(heard, state.source_layout.lengths)
            room.listen(state.source_rows)
        return held

    def _held(
        self,
        shape: RoomShape,
        like: list[KVCache],
        heard: list[KVCache],
        rows: int,
        filled: int,
        capacity: int,
    ) -> Held:
        """A state in a program of that shape: one that is idle, or a new one."""
        found = next((program for program in self._idle if program.room.shape == shape), None)
        if found is not None:
            self._idle.remove(found)
        held = Held(found or Program(Room(shape, like, heard), self._step, self._captures), rows, filled, capacity)
        weakref.finalize(held, self._release, held.program).atexit = False
        return held

    def _release(self, program: Program) -> None:
        self._idle = [*self._idle, program][-KEPT:]


def rounded(count: int) -> int:
    """The next power of two."""
    return 1 << max(count - 1, 0).bit_length()
