"""Tensors that may be sharded over processes (DTensor): gathered to be saved, sharded again when loaded."""

import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from typing_extensions import TypeIs

from regard.errors import RunError

if TYPE_CHECKING:
    from torch.distributed.tensor import DTensor


def is_sharded(tensor: Tensor) -> "TypeIs[DTensor]":
    """Whether it is a DTensor; torch's module, which takes a second to load, is loaded if any is."""
    module = sys.modules.get("torch.distributed.tensor")
    return module is not None and isinstance(tensor, module.DTensor)


def full_tensor(tensor: Tensor) -> Tensor:
    """The unsharded tensor; a collective where it is sharded."""
    return tensor.full_tensor() if is_sharded(tensor) else tensor


def local_part(tensor: Tensor) -> Tensor:
    """This process's shard, to be changed in place.

    Elementwise work is done on these: dispatch through DTensors takes a hundred times as long, for hundreds of tensors
    in a step.
    """
    return tensor.to_local() if is_sharded(tensor) else tensor


@torch.no_grad()
def gather_full(tensors: Mapping[str, Tensor], keep: bool) -> dict[str, Tensor]:
    """Unsharded tensors, gathered one after the other to the CPU, in processes that `keep` them."""
    gathered: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        full = full_tensor(tensor)
        if keep:
            gathered[name] = full.cpu() if is_sharded(tensor) else tensor
    return gathered


def copy_full(target: Tensor, value: Tensor) -> None:
    """Copies an unsharded tensor into one that may be sharded."""
    if is_sharded(target):
        from torch.distributed.tensor import distribute_tensor

        value = value.to(target.device, target.dtype)
        value = distribute_tensor(value, target.device_mesh, target.placements, src_data_rank=None)
    target.copy_(value)


@torch.no_grad()
def load_weights(model: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Copies weights into a model; RunError where names or shapes differ."""
    parameters = dict(model.named_parameters())
    for name in {*parameters, *weights}:
        if name not in parameters or name not in weights:
            side = "checkpoint" if name in parameters else "model"
            raise RunError(f"the {side} has no '{name}'; is this the run's own recipe?")
        if parameters[name].shape != weights[name].shape:
            raise RunError(f"'{name}': expected {tuple(parameters[name].shape)}, got {tuple(weights[name].shape)}")
        copy_full(parameters[name], weights[name])


def local_bytes(tensors: Iterable[Tensor]) -> int:
    """Bytes of tensors that this process holds."""
    return sum(local_part(tensor).nbytes for tensor in tensors)
