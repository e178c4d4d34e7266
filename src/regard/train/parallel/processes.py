"""The processes of a run, started by `torchrun` or one alone: rank, collectives, devices."""

import atexit
import os
import re
from collections.abc import Collection
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from regard.errors import ConfigError


@dataclass(frozen=True)
class World:
    """The processes that train together; collectives do nothing where there is one."""

    rank: int
    size: int
    device: torch.device

    @property
    def is_main(self) -> bool:
        """Whether this process writes files and messages."""
        return self.rank == 0

    def wrap_ddp(self, module: nn.Module, ignored: Collection[nn.Parameter] = ()) -> nn.Module:
        """The module under DDP, which averages gradients over all processes, except those of `ignored` parameters."""
        if self.size == 1:
            return module
        devices = [self.device] if self.device.type == "cuda" else None
        names = [name for name, parameter in module.named_parameters() if parameter in ignored]
        DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(module, names)
        return DistributedDataParallel(module, device_ids=devices)

    def no_sync(self, module: nn.Module, more: bool) -> AbstractContextManager[None]:
        """Within it, DDP only accumulates gradients while `more` micro-batches follow."""
        return module.no_sync() if more and isinstance(module, DistributedDataParallel) else nullcontext()

    def sum(self, value: float) -> float:
        """The sum over all processes."""
        if self.size == 1:
            return value
        summed = torch.tensor(value, dtype=torch.float64, device=self.device)
        dist.all_reduce(summed)
        return float(summed)

    def broadcast(self, value: float) -> float:
        """The main process's value: decisions that depend on a clock or a signal must be the same in all."""
        if self.size == 1:
            return value
        shared = torch.tensor(value, dtype=torch.float64, device=self.device)
        dist.broadcast(shared, 0)
        return float(shared)

    def barrier(self) -> None:
        if self.size > 1:
            dist.barrier()


def is_main_process() -> bool:
    """Whether this is the main process of torchrun's, also before the group is initialised and after."""
    return os.environ.get("RANK", "0") == "0"


def use_local_gpu() -> None:
    """Gives each process of a machine a GPU; where there are fewer, processes that never communicate share them."""
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")) % torch.cuda.device_count())


def parse_device(name: str, setting: str = "--device") -> torch.device:
    """The device of a name; ConfigError, which names the setting, where there is no such device here."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if name not in ("cpu", "cuda") and not re.fullmatch(r"cuda:\d{1,2}", name):
        raise ConfigError(setting, f"expected auto, cpu or cuda, got '{name}'")
    device = torch.device(name)
    if device.type == "cuda" and not (device.index or 0) < torch.cuda.device_count():
        raise ConfigError(setting, f"there is no GPU '{name}' here that torch can use; take cpu, or leave it out")
    return device


def set_current_device(device: torch.device) -> None:
    """Makes a GPU with an index the current one: Triton kernels run there, not where their tensors are."""
    if device.type == "cuda" and device.index is not None:
        torch.cuda.set_device(device)


def join_world(device: str = "auto", alone: bool = False) -> World:
    """Initialises torch's process group from torchrun's environment.

    A single process needs no group, unless it is to work as a group of one (`alone`), as FSDP does.
    """
    size = int(os.environ.get("WORLD_SIZE", "1"))
    use_cuda = parse_device(device, "train.device").type == "cuda"
    local = int(os.environ.get("LOCAL_RANK", "0"))
    chosen = torch.device("cuda", local) if use_cuda else torch.device("cpu")
    if use_cuda:
        torch.cuda.set_device(chosen)
    backend = "nccl" if use_cuda else "gloo"
    if size > 1 and not dist.is_initialized():
        if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True":
            rank = int(os.environ["RANK"])
            dist.init_process_group(backend, store=agent_store("group"), rank=rank, world_size=size)
        else:
            dist.init_process_group(backend)
        atexit.register(_destroy_group)
    elif alone and not dist.is_initialized():
        dist.init_process_group(backend, store=dist.HashStore(), rank=0, world_size=1)  # type: ignore[attr-defined]
        atexit.register(_destroy_group)
    return World(int(os.environ.get("RANK", "0")), size, chosen)


def agent_store(purpose: str, timeout: timedelta = timedelta(minutes=30)) -> dist.Store:  # type: ignore[reportPrivateImportUsage]
    """The key-value store of torchrun's agent, with keys of one purpose and this start of the processes.

    torchrun restarts all processes after a failure, but keeps the store: addresses that the dead ones left there must
    not be read by those that follow.
    """
    address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    store = dist.TCPStore(address, port, is_master=False, wait_for_workers=False, timeout=timeout)  # type: ignore[reportPrivateImportUsage]
    start = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    return dist.PrefixStore(f"regard/{purpose}/{start}", store)  # type: ignore[reportPrivateImportUsage]


def _destroy_group() -> None:
    """At exit, as a process may train more than once."""
    if dist.is_initialized():
        dist.destroy_process_group()
