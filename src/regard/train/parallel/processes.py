"""Several processes under `torchrun`, or one: the same code for both."""

import atexit
import os
import re
from collections.abc import Collection
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from regard.errors import ConfigError
from regard.train.parallel.rendezvous import kept_by_agent, store_for


@dataclass(frozen=True)
class Team:
    """The processes that train together."""

    rank: int
    size: int
    device: torch.device

    @property
    def leads(self) -> bool:
        """Whether this process writes files and speaks."""
        return self.rank == 0

    def wrap(self, module: nn.Module, apart: Collection[nn.Parameter] = ()) -> nn.Module:
        """The module whose gradients are averaged over all processes, but for those `apart`."""
        if self.size == 1:
            return module
        devices = [self.device] if self.device.type == "cuda" else None
        names = [name for name, parameter in module.named_parameters() if parameter in apart]
        DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(module, names)
        return DistributedDataParallel(module, device_ids=devices)

    def own_gradients(self, module: nn.Module, more: bool) -> AbstractContextManager[None]:
        """Within it, a copy keeps its gradients to itself while more are to come: what is sent is their sum."""
        return module.no_sync() if more and isinstance(module, DistributedDataParallel) else nullcontext()

    def total(self, value: float) -> float:
        """The sum over all processes."""
        if self.size == 1:
            return value
        summed = torch.tensor(value, dtype=torch.float64, device=self.device)
        dist.all_reduce(summed)
        return float(summed)

    def agree(self, value: float) -> float:
        """The first process's value, for all: decisions that depend on a clock or a signal must not differ."""
        if self.size == 1:
            return value
        shared = torch.tensor(value, dtype=torch.float64, device=self.device)
        dist.broadcast(shared, 0)
        return float(shared)

    def wait(self) -> None:
        """Until all processes are here."""
        if self.size > 1:
            dist.barrier()


def leads() -> bool:
    """Whether this process speaks for all that torchrun has started, also before they are a team and after it."""
    return os.environ.get("RANK", "0") == "0"


def take_gpu() -> None:
    """Gives each process of a machine a GPU of its own; where there are fewer, processes that never talk share them."""
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")) % torch.cuda.device_count())


def device_called(name: str, setting: str = "--device") -> torch.device:
    """The device of a name; ConfigError, which names the setting, where there is no such device here."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if name not in ("cpu", "cuda") and not re.fullmatch(r"cuda:\d{1,2}", name):
        raise ConfigError(setting, f"expected auto, cpu or cuda, got '{name}'")
    device = torch.device(name)
    if device.type == "cuda" and not (device.index or 0) < torch.cuda.device_count():
        raise ConfigError(setting, f"there is no GPU '{name}' here that torch can use; take cpu, or leave it out")
    return device


def take_in_hand(device: torch.device) -> None:
    """Makes a GPU that was called by its number the one at hand: kernels of ours go there, not to their tensors'."""
    if device.type == "cuda" and device.index is not None:
        torch.cuda.set_device(device)


def join_team(device: str = "auto", alone: bool = False) -> Team:
    """The team this process belongs to: `torchrun` says so in the environment.

    A process by itself needs no group of processes, unless it is to work as a group would (`alone`).
    """
    size = int(os.environ.get("WORLD_SIZE", "1"))
    use_cuda = device_called(device, "train.device").type == "cuda"
    local = int(os.environ.get("LOCAL_RANK", "0"))
    chosen = torch.device("cuda", local) if use_cuda else torch.device("cpu")
    if use_cuda:
        torch.cuda.set_device(chosen)
    backend = "nccl" if use_cuda else "gloo"
    if size > 1 and not dist.is_initialized():
        if kept_by_agent():
            rank = int(os.environ["RANK"])
            dist.init_process_group(backend, store=store_for("group"), rank=rank, world_size=size)
        else:
            dist.init_process_group(backend)
        atexit.register(_leave)
    elif alone and not dist.is_initialized():
        dist.init_process_group(backend, store=dist.HashStore(), rank=0, world_size=1)  # type: ignore[attr-defined]
        atexit.register(_leave)
    return Team(int(os.environ.get("RANK", "0")), size, chosen)


def _leave() -> None:
    """Ends the group with its process; a process that trains twice needs it twice."""
    if dist.is_initialized():
        dist.destroy_process_group()
