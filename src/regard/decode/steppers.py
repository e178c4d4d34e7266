"""Steppers to search with: an ensemble of several, the fastest backend of one, and how many tokens it can generate."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.errors import ConfigError
from regard.models.decoding.cpu import CPUDecoder, cpu_obstacle
from regard.models.decoding.cuda_graph import CUDAGraphDecoder
from regard.models.decoding.step import obstacle
from regard.models.encoder_decoder import EncoderDecoder
from regard.models.stepper import PrefixDecoder, Stepper
from regard.models.transformer import Decoder
from regard.nn.device import HAS_TRITON
from regard.nn.fast.sdpa import disable_cudnn_attention
from regard.nn.layout import Sequences

AnyStepper = Stepper[Any]
"""A stepper whose state only it can read."""
Mean = Literal["probabilities", "logprobs"]


class Ensemble:
    """Averages its members' distributions over the next token; an ensemble of one is its member.

    `probabilities`: log of the mean probability; one confident member can carry a token. `logprobs`: mean of the
    log-probabilities; a token that one member finds unlikely is unlikely.
    """

    def __init__(self, members: Sequence[AnyStepper], mean: Mean = "probabilities") -> None:
        if not members:
            raise ConfigError("ensemble", "expected at least one model, got none")
        self.members = list(members)
        self.mean: Mean = mean

    def start(self, source: Sequences | None, *, rows: int, capacity: int) -> list[object]:
        return [member.start(source, rows=rows, capacity=capacity) for member in self.members]

    def step(
        self, tokens: Int[Tensor, "batch time"], state: list[object], lengths: Int[Tensor, " batch"] | None = None
    ) -> tuple[Float[Tensor, "batch time vocab"], list[object]]:
        """The members' averaged log-probabilities, up to a constant at each position."""
        steps = [member.step(tokens, part, lengths) for member, part in zip(self.members, state, strict=True)]
        logits = [logits for logits, _ in steps]
        self._check_vocabularies([member.shape[-1] for member in logits])
        return self._average(logits), [part for _, part in steps]

    def reorder(self, state: list[object], rows: Int[Tensor, " rows"]) -> list[object]:
        return [member.reorder(part, rows) for member, part in zip(self.members, state, strict=True)]

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
                    "only models trained with the same tokenizer can decode together",
                )


@dataclass(frozen=True)
class Backend:
    """A stepper for a model, and why this one; no reason where there was nothing to choose."""

    stepper: AnyStepper
    reason: str


def choose_backend(model: nn.Module | AnyStepper, device: torch.device) -> Backend:
    """The fastest stepper that a model allows: its CPU decoding step, or a captured CUDA graph."""
    disable_cudnn_attention()
    stepper, transformer = cast(AnyStepper, model), cast(Decoder | EncoderDecoder, model)
    if device.type != "cuda":
        return Backend(stepper if cpu_obstacle(model) else CPUDecoder(transformer), "")
    if reason := obstacle(model) or ("" if HAS_TRITON else "its kernels need Triton, which is not installed"):
        return Backend(stepper, f"decoding launches its kernels one by one: {reason}")
    return Backend(CUDAGraphDecoder(transformer), "decoding replays each step as one CUDA graph: no launch overhead")


def with_backends(stepper: AnyStepper, backends: Mapping[int, AnyStepper]) -> AnyStepper:
    """A stepper with each model replaced by its backend, found by the model's id."""
    if isinstance(stepper, Ensemble):
        return Ensemble([with_backends(member, backends) for member in stepper.members], stepper.mean)
    if isinstance(stepper, PrefixDecoder):
        return PrefixDecoder(with_backends(stepper.decoder, backends), begin=stepper.begin, separator=stepper.separator)
    return backends.get(id(stepper), stepper)


def max_positions(stepper: nn.Module | AnyStepper, source: Sequences | None = None) -> int | None:
    """Most tokens of a generated sequence, the smallest of an ensemble's members; None without a limit.

    Where the source is the prefix of that sequence, what the longest source leaves.
    """
    if isinstance(stepper, Ensemble):
        members = [max_positions(member, source) for member in stepper.members]
        return min((positions for positions in members if positions is not None), default=None)
    if isinstance(stepper, PrefixDecoder):
        positions = max_positions(stepper.decoder)
        prefix = 0 if source is None else int(source.layout.lengths.max()) - 1  # without its end token
        return None if positions is None else positions - prefix
    config = getattr(getattr(stepper, "model", stepper), "config", None)
    return getattr(config, "longest_target", None)
