"""Between the processor and a device that works by itself: neither waits for the other where it need not."""

from importlib.util import find_spec

import torch
from torch import Tensor

HAS_TRITON = find_spec("triton") is not None
"""Whether our own kernels for GPUs can be compiled; torch brings what they need along, but not everywhere.

A constant and no function: blocks that are compiled ask for it, and torch would follow the search for a module."""


def to_device(tensor: Tensor, device: torch.device | str) -> Tensor:
    """The tensor on a device. To a GPU it goes by way of memory that cannot be moved, so that nobody waits for it."""
    if tensor.device.type == "cpu" and torch.device(device).type == "cuda":
        return tensor.contiguous().pin_memory().to(device, non_blocking=True)
    return tensor.to(device)


class HostCopy:
    """Tensors on their way to the processor, which may do other things until it asks for them."""

    def __init__(self, *tensors: Tensor) -> None:
        self._tensors = [tensor.to("cpu", non_blocking=True) for tensor in tensors]
        where = tensors[0].device
        self._there = torch.cuda.current_stream(where).record_event() if where.type == "cuda" else None

    def wait(self) -> list[Tensor]:
        """The tensors, once they are there."""
        if self._there is not None:
            self._there.synchronize()
        return self._tensors
