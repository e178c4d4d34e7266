"""The finished hypotheses of beam search, kept on the device until the whole batch is done."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.decode.hypothesis import Hypothesis


class Finished:
    """Up to `size` hypotheses a row, in the order they finished."""

    def __init__(self, rows: int, size: int, longest: int, device: torch.device) -> None:
        self.size = size
        # a spare slot takes what is not to be kept: asking which is which would wait for the device
        slots = (rows, size + 1)
        self.tokens = torch.zeros(*slots, longest, dtype=torch.long, device=device)
        self.logprobs = torch.zeros(*slots, longest, device=device)
        self.scores = torch.full(slots, -torch.inf, device=device)
        self.lengths = torch.zeros(slots, dtype=torch.long, device=device)
        self.ended = torch.zeros(slots, dtype=torch.bool, device=device)
        self.count = torch.zeros(rows, dtype=torch.long, device=device)

    def add(
        self,
        rows: Int[Tensor, " sentences"],
        which: Bool[Tensor, "sentences some"],
        tokens: Int[Tensor, "sentences some length"],
        logprobs: Float[Tensor, "sentences some length"],
        scores: Float[Tensor, "sentences some"],
        ended: Bool[Tensor, "sentences some"],
    ) -> None:
        """Keeps those hypotheses that `which` marks; `ended` says which of them have their end token."""
        slot = self.count[rows, None] + which.cumsum(1) - 1
        place = (rows[:, None], slot.where(which, self.size))
        length = tokens.shape[-1]
        self.tokens[(*place, slice(length))] = tokens
        self.logprobs[(*place, slice(length))] = logprobs
        self.scores[place] = scores
        self.lengths[place] = length
        self.ended[place] = ended
        self.count[rows] += which.sum(1)

    def nth_best(self, rows: Int[Tensor, " sentences"], n: int) -> Float[Tensor, " sentences"]:
        """The n-th best score of each row; minus infinity where fewer have finished."""
        return self.scores[rows, : self.size].topk(n, dim=1).values[:, -1]

    def best(self, n: int) -> list[list[Hypothesis]]:
        """The n best of each row: ended before cut, then by score, then the earlier first."""
        parts = (self.tokens, self.logprobs, self.scores, self.lengths, self.ended)
        slots = zip(*(part.flatten(0, 1).tolist() for part in parts), strict=True)
        found = [_hypothesis(*slot) for slot in slots]
        starts = range(0, len(found), self.size + 1)
        rows = [found[start : start + count] for start, count in zip(starts, self.count.tolist(), strict=True)]
        return [sorted(row, key=lambda one: (not one.finished, -one.score))[:n] for row in rows]


def _hypothesis(tokens: list[int], logprobs: list[float], score: float, length: int, ended: bool) -> Hypothesis:
    return Hypothesis(tokens[: length - ended], score, logprobs[:length], finished=ended)
