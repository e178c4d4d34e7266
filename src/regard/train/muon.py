"""Muon: momentum whose steps are made orthogonal, for the matrices inside a model (Jordan 2024).

torch has one too, of the same mathematics. It iterates in bfloat16 on every device, which processors without such
instructions compute tens of times slower than float32; this one does so on GPUs only, treats matrices of one shape
together, and takes stacks of matrices (experts, one map a head) as well.
"""

import math
from collections import defaultdict
from collections.abc import Iterable
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.train.parallel.state import is_sharded

Scaling = Literal["adamw", "original"]
NEWTON_SCHULZ = (3.4445, -4.7750, 2.0315)  # steepest at zero: singular values end near 1, not exactly at it


class Muon(torch.optim.Optimizer):
    """B ← μB + (1 − μ)g;  θ ← (1 − lr·λ)θ − lr·s·orthogonal(μB + (1 − μ)g), with s by the shape of θ."""

    def __init__(
        self,
        params: Iterable[nn.Parameter] | Iterable[dict[str, Any]],
        lr: float = 1e-3,
        weight_decay: float = 0.0,
        momentum: float = 0.95,
        nesterov: bool = True,
        iterations: int = 5,
        scaling: Scaling = "adamw",
    ) -> None:
        settings = {"lr": lr, "weight_decay": weight_decay, "momentum": momentum, "nesterov": nesterov}
        super().__init__(params, {**settings, "iterations": iterations, "scaling": scaling})

    found_inf: Tensor | None = None
    """1 where a step must change nothing, as torch's fused optimisers take it; on the device."""
    grad_scale: Tensor | None = None
    """Divisor of the gradients; on the device."""

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """One step; parameters without a gradient stay."""
        for group in self.param_groups:
            for alike in _by_shape(group["params"]):
                if self.found_inf is not None:
                    self._step_on_device(alike, group, self.found_inf)
                    continue
                blends = torch.stack([self._blend(parameter, group) for parameter in alike])
                directions = orthogonal(blends, group["iterations"]).to(blends.dtype)
                rate = group["lr"] * step_scale(alike[0].shape, group["scaling"])
                for parameter, direction in zip(alike, directions, strict=True):
                    parameter.mul_(1 - group["lr"] * group["weight_decay"]).add_(direction, alpha=-rate)

    def _blend(self, parameter: nn.Parameter, group: dict[str, Any]) -> Tensor:
        """The running mean of the gradients, once more blended with the newest (Nesterov)."""
        gradient, momentum = parameter.grad, group["momentum"]
        assert gradient is not None
        mean = self._mean(parameter).lerp_(gradient, 1 - momentum)
        return gradient.lerp(mean, momentum) if group["nesterov"] else mean

    def _mean(self, parameter: nn.Parameter) -> Tensor:
        state = self.state[parameter]
        if "momentum_buffer" not in state:
            state["momentum_buffer"] = torch.zeros_like(parameter)
        return state["momentum_buffer"]

    def _step_on_device(self, alike: list[nn.Parameter], group: dict[str, Any], found_inf: Tensor) -> None:
        """The same without waiting for the device: rate, divisor and whether to step at all are tensors there."""
        lr, momentum, means = group["lr"] * (1 - found_inf), group["momentum"], [self._mean(p) for p in alike]
        gradients = torch.stack([parameter.grad for parameter in alike if parameter.grad is not None])
        gradients = gradients if self.grad_scale is None else gradients / self.grad_scale
        gradients = torch.where(found_inf > 0, 0.0, gradients)  # 0 · NaN would be NaN
        changed = torch.stack(means).lerp(gradients, (1 - momentum) * (1 - found_inf))
        for mean, new in zip(means, changed, strict=True):
            mean.copy_(new)
        blends = gradients.lerp(changed, momentum) if group["nesterov"] else changed
        directions = orthogonal(blends, group["iterations"]).to(blends.dtype)
        steps = directions * (lr * step_scale(alike[0].shape, group["scaling"]))
        for parameter, step in zip(alike, steps, strict=True):
            parameter.mul_(1 - lr * group["weight_decay"]).sub_(step)


def orthogonal(matrices: Float[Tensor, "*stack rows columns"], iterations: int = 5) -> Tensor:
    """Each matrix with its singular values brought near 1 by Newton–Schulz; on GPUs in bfloat16, as that suffices."""
    x = matrices.bfloat16() if matrices.is_cuda else matrices
    tall = x.shape[-2] > x.shape[-1]
    x = x.mT if tall else x
    x = x / x.norm(dim=(-2, -1), keepdim=True).clamp(min=1e-7)
    a, b, c = NEWTON_SCHULZ
    for _ in range(iterations):
        gram = x @ x.mT
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.mT if tall else x


def step_scale(shape: torch.Size, scaling: Scaling) -> float:
    """How far to go along an orthogonal direction.

    `adamw`: 0.2·√max(rows, columns), so that a step is about as long as AdamW's and one learning rate serves both
    (Liu 2025). `original`: √max(1, rows / columns).
    """
    rows, columns = shape[-2:]
    return 0.2 * math.sqrt(max(rows, columns)) if scaling == "adamw" else math.sqrt(max(1.0, rows / columns))


def _by_shape(parameters: Iterable[nn.Parameter]) -> Iterable[list[nn.Parameter]]:
    """Parameters that have a gradient, those of one shape, kind and device together, in order of appearance."""
    alike: dict[tuple[Any, ...], list[nn.Parameter]] = defaultdict(list)
    for parameter in parameters:
        if parameter.grad is not None:
            alike[parameter.shape, parameter.dtype, parameter.device, is_sharded(parameter)].append(parameter)
    return alike.values()
