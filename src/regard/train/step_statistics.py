"""Loss and gradient norm of a step: how they are read from the device, how gradients are clipped, and what happens to
batches where either is not finite."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.distributed as dist
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.utils import get_total_norm

from regard.data.batches import Batch
from regard.data.collate import Padded, Ragged
from regard.errors import Failure
from regard.nn.device import HostCopy
from regard.text.tokenizer import Tokenizer
from regard.train.parallel.state import full_tensor, is_sharded, local_part

TINY = 1e-6  # as in torch, so that gradients of norm zero can be scaled
MOST_SKIPPED = 10
"""Consecutive non-finite batches after which the weights, not the data, must be wrong."""
SHOWN = 3
CHARACTERS = 40


@dataclass(frozen=True)
class StepStatistics:
    """Objective and gradient norm of a step, before clipping."""

    loss: float
    norm: float
    plain: float | None = None
    """The cross-entropy as validation reports it, where the objective is another."""

    @property
    def finite(self) -> bool:
        """Whether the loss and all gradients are finite; if not, the step must not be taken."""
        return math.isfinite(self.loss) and math.isfinite(self.norm)


class PendingStatistics:
    """Statistics of a step on their way from the device; the norm is finite only if all gradients are."""

    def __init__(self, values: Float[Tensor, " statistics"]) -> None:
        self._values, self._arriving = values, HostCopy(values)

    def read(self) -> StepStatistics:
        return StepStatistics(*self._arriving.wait()[0].tolist())

    def found_inf(self) -> Tensor:
        """1 where a value is not finite, else 0; on the device, as torch's fused optimisers take it."""
        return (~self._values[:2].isfinite().all()).float()


def grad_scale(norm: Tensor, limit: float) -> Tensor:
    """Divisor of the gradients that brings their norm to at most `limit`; on the device."""
    return ((norm + TINY) / limit).clamp(min=1.0)


def gradient_norm(parameters: Sequence[nn.Parameter]) -> Tensor:
    """Norm of all gradients together; where they are sharded, squares are summed over the processes."""
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    norm = get_total_norm([local_part(gradient) for gradient in gradients])
    if not gradients or not is_sharded(gradients[0]) or gradients[0].device_mesh.size() == 1:
        return norm
    square = norm.double().square()
    dist.all_reduce(square, group=gradients[0].device_mesh.get_group())
    return square.sqrt()


@torch.no_grad()
def clip_gradients(parameters: Iterable[nn.Parameter], limit: float | None, statistics: StepStatistics) -> None:
    """Scales gradients to a norm of at most `limit`; non-finite ones stay, so that they can be located."""
    if limit is not None and statistics.finite and statistics.norm > limit:
        gradients = [local_part(parameter.grad) for parameter in parameters if parameter.grad is not None]
        torch._foreach_mul_(gradients, limit / (statistics.norm + TINY))  # type: ignore[attr-defined]


def non_finite_gradients(model: nn.Module) -> list[str]:
    """Names of the parameters whose gradient holds NaN or infinity."""
    gradients = ((name, p.grad) for name, p in model.named_parameters() if p.grad is not None)
    return [name for name, gradient in gradients if not full_tensor(gradient).isfinite().all()]


def describe_non_finite(
    step: int,
    statistics: StepStatistics,
    model: nn.Module,
    location: str,
    batch: Batch,
    tokenizers: Mapping[str, Tokenizer],
) -> str:
    """The beginning of a sentence: what is not finite, in which parameters, and which examples were read."""
    names = non_finite_gradients(model)
    shown = f"{', '.join(names[:SHOWN])}{' and others' if len(names) > SHOWN else ''}" or "no single parameter"
    norm = f"the gradient not finite in {shown}" if names else f"the gradient's norm {statistics.norm}"
    examples = _named_examples(batch, tokenizers)
    return f"step {step}: the loss is {statistics.loss} and {norm}; {location} (examples {examples})"


class NonFiniteBatches:
    """Non-finite batches: the first one stops the run, or with `train.skip_bad` they are skipped and reported."""

    def __init__(self, skip: bool, say: Callable[[str], None]) -> None:
        self.skip, self.say = skip, say
        self.in_a_row = 0

    def handle(self, description: str) -> None:
        """Reports a batch that is skipped; Failure where none is to be skipped, or too many follow one another."""
        if not self.skip:
            raise Failure(
                f"{description}; the weights were not changed. Lower train.schedule.lr, look at these examples, or "
                "skip such batches with --skip-bad"
            )
        self.in_a_row += 1
        if self.in_a_row > MOST_SKIPPED:
            raise Failure(
                f"{description}; so were the {MOST_SKIPPED} batches before it: the weights are at fault, not the data"
            )
        self.say(f"{description}; skipped")


def _named_examples(batch: Batch, tokenizers: Mapping[str, Tokenizer]) -> str:
    """File and line of the first few examples with the beginnings of their texts, and how many more there are."""
    numbers = batch.examples.tolist()
    if batch.origins is not None:
        numbers = [f"{batch.origins[0]}:{line}" for line in batch.origins[1].tolist()]
    name = next((name for name in batch.fields if name in tokenizers), None)
    texts = [tokenizers[name].decode(row) for row in _rows(batch, name)] if name else [""] * len(numbers)
    named = [
        f"{number} '{_short(text)}'" if text else str(number) for number, text in zip(numbers, texts, strict=False)
    ]
    return ", ".join(named[:SHOWN]) + (f" and {len(numbers) - SHOWN} more" if len(numbers) > SHOWN else "")


def _rows(batch: Batch, name: str) -> list[list[int]]:
    field = batch.fields[name]
    if isinstance(field, Padded):
        filled = np.arange(field.tokens.shape[1]) < field.lengths[:, None]
        return Ragged(field.tokens[filled], field.lengths).rows()
    return Ragged(field.tokens[0], field.lengths).rows()


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= CHARACTERS else f"{text[: CHARACTERS - 1]}…"
