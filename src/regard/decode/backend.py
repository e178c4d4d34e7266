"""The quickest way to step that a model allows where it is, and the sentence that says which and why."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from regard.decode.ensemble import Ensemble
from regard.models.decoding.cpu import Lean, too_special
from regard.models.decoding.cuda_graph import Graphed, Way
from regard.models.decoding.step import obstacle
from regard.models.prefix_decoder import Prompted
from regard.nn.device import HAS_TRITON

CAPTURED = (
    "each step is replayed as one CUDA graph, as the processor would take longer to ask for its kernels one by one"
)


@dataclass(frozen=True)
class Backend:
    """A stepper for a model and why it was chosen; no reason where there is no choice."""

    stepper: Any
    reason: str


def choose_backend(model: Any, device: torch.device, way: Way | None = None) -> Backend:  # noqa: ANN401
    """On a CPU the short way of a step, on a GPU its captured step, where the model allows it."""
    if device.type != "cuda":
        return Backend(model if too_special(model) else Lean(model), "")
    if why := obstacle(model) or ("" if HAS_TRITON else "its kernels need Triton, which is not installed"):
        return Backend(model, f"decoding goes kernel by kernel: {why}")
    return Backend(Graphed(model, way), f"decoding: {CAPTURED}")


def with_backends(stepper: Any, quick_ones: Mapping[int, Any]) -> Any:  # noqa: ANN401
    """A stepper whose models gave way to their quick steppers, which are known by the models' ids."""
    if isinstance(stepper, Ensemble):
        return Ensemble([with_backends(member, quick_ones) for member in stepper.members], stepper.mean)  # type: ignore[arg-type]
    if isinstance(stepper, Prompted):
        decoder = with_backends(stepper.decoder, quick_ones)
        return Prompted(decoder, begin=stepper.begin, separator=stepper.separator)
    return quick_ones.get(id(stepper), stepper)
