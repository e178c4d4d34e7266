"""The contract between search algorithms and models.

A stepper decodes sequences token by token. Transformers with their key/value caches, recurrent and convolutional
baselines and ensembles all implement it, so greedy search, beam search and sampling exist once.
"""

from typing import Generic, Protocol, TypeVar, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.errors import ShapeError
from regard.nn.layout import Sequences

State = TypeVar("State")


@runtime_checkable
class Stepper(Protocol[State]):
    """Decodes the rows of a batch; no row's logits depend on another row."""

    def start(self, source: Sequences | None, *, rows: int, capacity: int) -> State:
        """The state before the first token, with capacity for so many tokens in each row.

        `source` is what an encoder-decoder translates, one padded sequence a row; a decoder alone takes None.
        """
        ...

    def step(
        self, tokens: Int[Tensor, "batch time"], state: State, lengths: Int[Tensor, " batch"] | None = None
    ) -> tuple[Float[Tensor, "batch time vocab"], State]:
        """Appends tokens to each row; the logits at each position are those of the next token.

        A prompt is several tokens at once. Rows of different lengths are padded on the right: row b then advances by
        `lengths[b]` tokens only, and its logits beyond them mean nothing.
        """
        ...

    def reorder(self, state: State, rows: Int[Tensor, " rows"]) -> State:
        """The state whose row i continues row `rows[i]`; rows may repeat, be left out, and change in number."""
        ...


@runtime_checkable
class SkipsLogits(Protocol[State]):
    """A stepper that computes the logits after a prompt alone."""

    def last_logits(
        self, tokens: Int[Tensor, "batch time"], state: State, lengths: Int[Tensor, " batch"] | None = None
    ) -> tuple[Float[Tensor, "batch vocab"], State]: ...


def last_logits(
    stepper: "Stepper[State]",
    tokens: Int[Tensor, "batch time"],
    state: State,
    lengths: Int[Tensor, " batch"] | None = None,
) -> tuple[Float[Tensor, "batch vocab"], State]:
    """Feeds a prompt; the logits after each row's last token."""
    if isinstance(stepper, SkipsLogits):
        return stepper.last_logits(tokens, state, lengths)
    logits, state = stepper.step(tokens, state, lengths)
    return at_last(logits, lengths), state


def at_last(
    x: Float[Tensor, "batch time numbers"], lengths: Int[Tensor, " batch"] | None
) -> Float[Tensor, "batch numbers"]:
    """The vectors at the last position of each row."""
    return x[:, -1] if lengths is None else x[torch.arange(len(x), device=x.device), lengths - 1]


def padded_source(source: Sequences | None, rows: int) -> Sequences:
    """The source, which must be padded with one sequence per row."""
    if source is None or source.layout.packed or len(source.tokens) != rows:
        got = "none" if source is None else f"{len(source.tokens)}{' packed' if source.layout.packed else ''}"
        raise ShapeError(f"source: expected {rows} padded rows, got {got}")
    return source


class PrefixDecoder(Generic[State]):
    """A decoder used as encoder-decoder: source, separator and target as one text.

    The begin token is replaced by the separator, and the source's end token is left out. A Stepper.
    """

    def __init__(self, decoder: Stepper[State], *, begin: int, separator: int) -> None:
        self.decoder, self.begin, self.separator = decoder, begin, separator

    @torch.no_grad()
    def start(self, source: Sequences | None, *, rows: int, capacity: int) -> State:
        """Feeds the source as a prompt."""
        source = padded_source(source, rows)
        lengths = source.layout.lengths - 1
        time = int(lengths.max())
        state = self.decoder.start(None, rows=rows, capacity=capacity + time)
        if time == 0:
            return state
        even = bool((lengths == time).all())
        return last_logits(self.decoder, source.tokens[:, :time], state, None if even else lengths)[1]

    def step(
        self, tokens: Int[Tensor, "batch time"], state: State, lengths: Int[Tensor, " batch"] | None = None
    ) -> tuple[Float[Tensor, "batch time vocab"], State]:
        return self.decoder.step(torch.where(tokens == self.begin, self.separator, tokens), state, lengths)

    def reorder(self, state: State, rows: Int[Tensor, " rows"]) -> State:
        return self.decoder.reorder(state, rows)
