"""The state of a model that may be cut up among processes: put together to be saved, cut up again when put back."""

import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from typing_extensions import TypeIs

from regard.errors import RunError

if TYPE_CHECKING:
    from torch.distributed.tensor import DTensor


def is_cut_up(tensor: Tensor) -> "TypeIs[DTensor]":
    """Whether processes hold parts of it: who has cut it up has loaded torch's module, which takes a second."""
    module = sys.modules.get("torch.distributed.tensor")
    return module is not None and isinstance(tensor, module.DTensor)


def whole(tensor: Tensor) -> Tensor:
    """A tensor in one piece. All processes must ask together, as each holds a part."""
    return tensor.full_tensor() if is_cut_up(tensor) else tensor


def own_part(tensor: Tensor) -> Tensor:
    """What this process holds of a tensor, to be changed in place.

    Work that treats each number by itself is done on these: torch's way through cut-up tensors takes a hundred times
    as long to begin, and a step has hundreds of them.
    """
    return tensor.to_local() if is_cut_up(tensor) else tensor


@torch.no_grad()
def gathered(tensors: Mapping[str, Tensor], keep: bool) -> dict[str, Tensor]:
    """Tensors in one piece, one after the other; those that were cut up come to the CPU, for processes that `keep`."""
    found: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        full = whole(tensor)
        if keep:
            found[name] = full.cpu() if is_cut_up(tensor) else tensor
    return found


def put(own: Tensor, value: Tensor) -> None:
    """Copies a tensor in one piece into one that may be cut up: each process takes its part."""
    if is_cut_up(own):
        from torch.distributed.tensor import distribute_tensor

        value = value.to(own.device, own.dtype)
        value = distribute_tensor(value, own.device_mesh, own.placements, src_data_rank=None)
    own.copy_(value)


@torch.no_grad()
def put_weights(model: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Copies weights into a model; RunError where names or sizes differ."""
    own = dict(model.named_parameters())
    for name in {*own, *weights}:
        if name not in own or name not in weights:
            side = "checkpoint" if name in own else "model"
            raise RunError(f"the {side} has no '{name}'; is this the run's own recipe?")
        if own[name].shape != weights[name].shape:
            raise RunError(f"'{name}': expected {tuple(own[name].shape)}, got {tuple(weights[name].shape)}")
        put(own[name], weights[name])


def held_bytes(tensors: Iterable[Tensor]) -> int:
    """Bytes of tensors that this process holds itself."""
    return sum(own_part(tensor).nbytes for tensor in tensors)
