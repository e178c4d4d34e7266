"""Several models that write together, as one stepper."""

import math
from collections.abc import Sequence
from typing import Any, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.errors import ConfigError
from regard.models.stepper import Stepper
from regard.nn.layout import Sequences

Mean = Literal["probabilities", "logprobs"]


class Ensemble:
    """Averages its members' distributions over the next token; an ensemble of one is its member.

    `probabilities`: log of the mean probability; one confident member can carry a token. `logprobs`: mean of the
    log-probabilities; a token needs the favour of all.
    """

    def __init__(self, members: Sequence[Stepper[Any]], mean: Mean = "probabilities") -> None:
        if not members:
            raise ConfigError("ensemble", "expected at least one model, got none")
        self.members, self.mean = list(members), mean

    def start(self, source: Sequences | None, *, rows: int, capacity: int) -> list[Any]:
        """A state of each member."""
        return [member.start(source, rows=rows, capacity=capacity) for member in self.members]

    def step(
        self, tokens: Int[Tensor, "batch time"], state: list[Any], lengths: Int[Tensor, " batch"] | None = None
    ) -> tuple[Float[Tensor, "batch time vocab"], list[Any]]:
        """The members' logits averaged; what comes out are log-probabilities, up to a constant a place."""
        steps = [member.step(tokens, own, lengths) for member, own in zip(self.members, state, strict=True)]
        states = [own for _, own in steps]
        self._check_vocabularies([logits.shape[-1] for logits, _ in steps])
        return self._average([logits for logits, _ in steps]), states

    def reorder(self, state: list[Any], rows: Int[Tensor, " rows"]) -> list[Any]:
        """Every member's rows reordered alike."""
        return [member.reorder(own, rows) for member, own in zip(self.members, state, strict=True)]

    def _average(self, logits: list[Float[Tensor, "batch time vocab"]]) -> Float[Tensor, "batch time vocab"]:
        if len(logits) == 1:
            return logits[0]
        logprobs = torch.stack([member.float().log_softmax(-1) for member in logits])
        if self.mean == "logprobs":
            return logprobs.mean(0)
        return logprobs.logsumexp(0) - math.log(len(logits))

    def _check_vocabularies(self, sizes: list[int]) -> None:
        for number, size in enumerate(sizes):
            if size != sizes[0]:
                raise ConfigError(
                    "ensemble",
                    f"model {number + 1} has {size} tokens and model 1 has {sizes[0]}; "
                    "only models trained with the same tokenizer can write together",
                )
