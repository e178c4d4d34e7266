"""A decoder that reads its source as the beginning of its own text: T-D of Liu 2018, one stack in place of two."""

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.models.stepper import last_logits, padded_source
from regard.nn.layout import Sequences


class Prompted:
    """source, separator, target as one text, seen as an encoder-decoder is: what reads a source, then writes.

    Searches begin with the begin token, here the separator. The source's end token is left out. A Stepper.
    """

    def __init__(self, decoder: Any, *, begin: int, separator: int) -> None:  # noqa: ANN401
        self.decoder, self.begin, self.separator = decoder, begin, separator

    @torch.no_grad()
    def start(self, source: Sequences | None, *, rows: int, capacity: int) -> Any:  # noqa: ANN401
        """Reads the source, row by row its own length; nothing written yet."""
        source = padded_source(source, rows)
        lengths = source.layout.lengths - 1
        time = int(lengths.max())
        state = self.decoder.start(None, rows=rows, capacity=capacity + time)
        if time == 0:
            return state
        even = bool((lengths == time).all())
        return last_logits(self.decoder, source.tokens[:, :time], state, None if even else lengths)[1]

    def step(
        self,
        tokens: Int[Tensor, "batch time"],
        state: Any,  # noqa: ANN401
        lengths: Int[Tensor, " batch"] | None = None,
    ) -> tuple[Float[Tensor, "batch time vocab"], Any]:
        """Appends tokens to each row; the logits of what follows them."""
        return self.decoder.step(torch.where(tokens == self.begin, self.separator, tokens), state, lengths)

    def reorder(self, state: Any, rows: Int[Tensor, " rows"]) -> Any:  # noqa: ANN401
        """The state of the chosen rows."""
        return self.decoder.reorder(state, rows)
