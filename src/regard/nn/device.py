"""Asynchronous copies between CPU and GPU."""

from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

HAS_TRITON = find_spec("triton") is not None
"""Whether Triton kernels can be compiled.

A constant, so that torch.compile does not trace the module search."""


def to_device(tensor: Tensor, device: torch.device | str) -> Tensor:
    """The tensor on a device; to a GPU through pinned memory, without waiting."""
    if tensor.device.type == "cpu" and torch.device(device).type == "cuda":
        return tensor.contiguous().pin_memory().to(device, non_blocking=True)
    return tensor.to(device)


def to_list(tensor: Tensor) -> list[Any]:
    """The elements as nested lists of Python numbers; waits for the device."""
    return tensor.tolist()


class HostCopy:
    """An asynchronous copy of tensors to the CPU."""

    def __init__(self, *tensors: Tensor) -> None:
        self._tensors = [tensor.to("cpu", non_blocking=True) for tensor in tensors]
        where = tensors[0].device
        self._there = torch.cuda.current_stream(where).record_event() if where.type == "cuda" else None

    def wait(self) -> list[Tensor]:
        if self._there is not None:
            self._there.synchronize()
        return self._tensors
