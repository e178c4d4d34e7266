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
class Quick:
    """A stepper for a model, and why this one; nothing is said where there was nothing to choose."""

    stepper: Any
    why: str


def quickest(model: Any, device: torch.device, way: Way | None = None) -> Quick:  # noqa: ANN401
    """On a CPU the short way of a step, on a GPU its captured step, where the model allows it."""
    if device.type != "cuda":
        return Quick(model if too_special(model) else Lean(model), "")
    if why := obstacle(model) or ("" if HAS_TRITON else "its kernels need Triton, which is not installed"):
        return Quick(model, f"decoding goes kernel by kernel: {why}")
    return Quick(Graphed(model, way), f"decoding: {CAPTURED}")


def exchanged(stepper: Any, quick_ones: Mapping[int, Any]) -> Any:  # noqa: ANN401
    """A stepper whose models gave way to their quick steppers, which are known by the models' ids."""
    if isinstance(stepper, Ensemble):
        return Ensemble([exchanged(member, quick_ones) for member in stepper.members], stepper.mean)  # type: ignore[arg-type]
    if isinstance(stepper, Prompted):
        decoder = exchanged(stepper.decoder, quick_ones)
        return Prompted(decoder, begin=stepper.begin, separator=stepper.separator)
    return quick_ones.get(id(stepper), stepper)
