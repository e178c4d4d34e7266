"""Expert parallelism: each process holds some experts of every mixture, and tokens are sent to theirs.

    8 processes, train.expert_parallel = 4, 8 experts        processes 0 1 2 3      4 5 6 7
                                                      hold experts     01 23 45 67    01 23 45 67

Weights, gradients and moments of an expert are only where the expert is. All else follows `train.parallel`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import gcd
from typing import Annotated, Any, Literal

import torch.distributed as dist
from pydantic import BeforeValidator
from torch import Tensor, nn

from regard.config import Config
from regard.errors import ConfigError
from regard.nn.experts import Experts, ExpertsConfig
from regard.train.checkpoint import Checkpoint
from regard.train.parallel.expert_exchange import Company
from regard.train.parallel.processes import World
from regard.train.parallel.state import gather_full
from regard.train.step_statistics import gradient_norm


def _processes(value: object) -> object:
    if value != "auto" and (type(value) is not int or value < 1):
        raise ValueError("a number of processes or auto")
    return value


ExpertParallelSetting = Annotated[int | Literal["auto"], BeforeValidator(_processes)]


def choose_expert_parallel(setting: ExpertParallelSetting, processes: int, model: Config) -> int:
    """Over how many processes experts are divided; `auto`: over as many as divide both processes and experts."""
    mixtures = dict(_mixtures(model, "model"))
    if setting == "auto":
        return gcd(processes, *mixtures.values()) if mixtures else 1
    if setting > 1 and not mixtures:
        raise ConfigError("train.expert_parallel", f"the model has no experts to divide among {setting}; leave it out")
    if processes % setting:
        raise ConfigError(
            "train.expert_parallel",
            f"expected a number that divides the processes, of which torchrun has started {processes} "
            f"(--nproc-per-node), got {setting}; choose 1 or auto, or start others",
        )
    for path, experts in mixtures.items():
        if experts % setting:
            raise ConfigError(
                "train.expert_parallel",
                f"expected a number that divides {path} = {experts}, got {setting}; change either, or choose auto",
            )
    return setting


def has_experts(model: Config) -> bool:
    return any(True for _ in _mixtures(model, "model"))


def _mixtures(config: Config, path: str) -> Iterator[tuple[str, int]]:
    """Numbers of experts in a model's config, by the settings' paths."""
    for name in type(config).model_fields:
        value = getattr(config, name)
        if isinstance(value, ExpertsConfig):
            yield f"{path}.{name}.experts", value.experts
        elif isinstance(value, Config):
            yield from _mixtures(value, f"{path}.{name}")


def held_params(model: Any, num_params: Callable[[Any], int], among: int) -> int:  # noqa: ANN401
    """Parameters in each process, where experts are divided among so many; routers are copied."""
    total = num_params(model)
    if among == 1:
        return total
    experts = num_params(_twice_as_wide(model, model.width)) - total  # only the experts' matrices have more
    return total - experts + experts // among


def _twice_as_wide(config: Config, width: int) -> Config:
    """A model's config with experts of twice the hidden width."""
    changed = {}
    for name in type(config).model_fields:
        value = getattr(config, name)
        if isinstance(value, ExpertsConfig):
            changed[name] = value.but(hidden=2 * value.hidden_of(width))
        elif isinstance(value, Config) and dict(_mixtures(value, name)):
            changed[name] = _twice_as_wide(value, width)
    return config.but(**changed)


def refuse_expert_parallel(optimiser: str, rewarded: bool) -> None:
    """ConfigError for what cannot be trained with expert parallelism."""
    if optimiser == "adafactor":
        raise ConfigError(
            "train.optimiser",
            "adafactor measures all experts of a layer together, and train.expert_parallel divides these; choose "
            "adamw, muon or sgd, or train.expert_parallel=1",
        )
    if rewarded:
        raise ConfigError(
            "train.expert_parallel",
            "task.reward generates texts of different lengths in each process, and expert parallelism needs all to "
            "compute in step; choose 1",
        )


def expert_matrices(model: nn.Module) -> dict[str, nn.Parameter]:
    """The parameters that have a matrix for each expert of a mixture, by name."""
    return {
        f"{path}.{name}" if path else name: getattr(part, name)
        for path, part in model.named_modules()
        if isinstance(part, Experts)
        for name in ("up", "down")
    }


class ExpertParallel:
    """The experts of this process; with `size` 1 all of them, and every method does nothing.

    A model is divided before it goes to its device, so that the device never holds all of it.
    """

    def __init__(self, model: nn.Module, world: World, size: int = 1) -> None:
        self.world, self.size = world, size
        self._parts: dict[str, nn.Parameter] = {}
        if size > 1:
            self._divide(model)

    def _divide(self, model: nn.Module) -> None:
        # imported here, as it takes a second that other runs need not wait
        from torch.distributed.device_mesh import init_device_mesh

        shape = (self.world.size // self.size, self.size)
        mesh = init_device_mesh(self.world.device.type, shape, mesh_dim_names=("copies", "experts"))
        self._mesh, self._copies = mesh["experts"], mesh.get_group("copies")
        self._company = Company(self._mesh.get_group(), dist.new_group())  # type: ignore[arg-type]
        for name, full in expert_matrices(model).items():
            part = self._local(full.detach()).to(self.world.device, copy=True)
            self._parts[name] = nn.Parameter(part, requires_grad=full.requires_grad)
            path, _, attribute = name.rpartition(".")
            mixture = model.get_submodule(path)
            setattr(mixture, attribute, self._parts[name])
            mixture.expert_group = self._company  # type: ignore[assignment]

    def _local(self, full: Tensor) -> Tensor:
        return full.chunk(self.size)[self._mesh.get_local_rank()]

    @property
    def parameters(self) -> set[nn.Parameter]:
        """Parameters that differ between processes: DDP and FSDP must leave them alone."""
        return set(self._parts.values())

    # In a step

    def set_counted(self, counted: bool) -> None:
        """Whether the next rows count, or stand in for an empty micro-batch."""
        if self.size > 1:
            self._company.counts = counted

    def sum_gradients(self) -> None:
        """Sums the gradients of an expert over the processes that have it, and scales them as DDP does.

        They came back with the tokens of all processes, each of which has multiplied its loss by the world size.
        """
        for part in self._parts.values():
            if part.grad is not None:
                dist.all_reduce(part.grad, group=self._copies)
                part.grad /= self.world.size

    def gradient_norm(self, parameters: Sequence[nn.Parameter]) -> Tensor:
        """Norm of all gradients, in which each expert counts once."""
        local = self.parameters
        shared = gradient_norm([parameter for parameter in parameters if parameter not in local])
        if not local:
            return shared
        square = gradient_norm([parameter for parameter in parameters if parameter in local]).square()
        square = square.to(self.world.device)
        dist.all_reduce(square, group=self._mesh.get_group())
        return (shared.square() + square.to(shared.device)).sqrt()

    # In checkpoints

    def gather(self, tensors: Mapping[str, Tensor], keep: bool) -> dict[str, Tensor]:
        """Unsharded tensors by the names of parameters, or `parameter/quantity`, in processes that `keep` them."""
        if self.size == 1:
            return gather_full(tensors, keep)
        from torch.distributed.tensor import DTensor, Shard

        def as_dtensor(name: str, tensor: Tensor) -> Tensor:
            if not self._is_part(name, tensor):
                return tensor
            return DTensor.from_local(tensor.detach(), self._mesh, [Shard(0)], run_check=False)

        return gather_full({name: as_dtensor(name, tensor) for name, tensor in tensors.items()}, keep)

    def _is_part(self, name: str, tensor: Tensor) -> bool:
        part = self._parts.get(name.partition("/")[0])
        return part is not None and part.shape == tensor.shape

    def shard_checkpoint(self, saved: Checkpoint) -> Checkpoint:
        """A checkpoint with this process's experts only."""
        if self.size == 1:
            return saved
        extra = {name: self._shard(tensors) for name, tensors in saved.extra.items()}
        return replace(saved, model=self._shard(saved.model), optimizer=self._shard(saved.optimizer), extra=extra)

    def _shard(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        def fits(name: str, full: Tensor) -> bool:  # other shapes are refused where they are loaded
            part = self._parts.get(name.partition("/")[0])
            return part is not None and full.shape == (len(part) * self.size, *part.shape[1:])

        return {name: self._local(full) if fits(name, full) else full for name, full in tensors.items()}
