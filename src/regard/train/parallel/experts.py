"""Experts divided among processes: each has some of every mixture's, and tokens travel to theirs.

    8 processes, train.expert_parallel = 4, 8 experts        processes 0 1 2 3      4 5 6 7
                                                      hold experts     01 23 45 67    01 23 45 67

Weights, gradients and moments of an expert are only where the expert is. All else stays as `train.parallel` has it.
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
from regard.train.parallel.processes import Team
from regard.train.parallel.state import gathered
from regard.train.precision import gradient_norm


def _processes(value: object) -> object:
    if value != "auto" and (type(value) is not int or value < 1):
        raise ValueError("a number of processes or auto")
    return value


ExpertParallelSetting = Annotated[int | Literal["auto"], BeforeValidator(_processes)]


def choose_expert_parallel(setting: ExpertParallelSetting, processes: int, model: Config) -> int:
    """Among how many processes experts are divided; `auto`: among as many as divide both processes and experts."""
    found = dict(_mixtures(model, "model"))
    if setting == "auto":
        return gcd(processes, *found.values()) if found else 1
    if setting > 1 and not found:
        raise ConfigError("train.expert_parallel", f"the model has no experts to divide among {setting}; leave it out")
    if processes % setting:
        raise ConfigError(
            "train.expert_parallel",
            f"expected a number that divides the processes, of which torchrun has started {processes} "
            f"(--nproc-per-node), got {setting}; choose 1 or auto, or start others",
        )
    for path, experts in found.items():
        if experts % setting:
            raise ConfigError(
                "train.expert_parallel",
                f"expected a number that divides {path} = {experts}, got {setting}; change either, or choose auto",
            )
    return setting


def has_experts(model: Config) -> bool:
    """Whether a model has mixtures of experts."""
    return any(True for _ in _mixtures(model, "model"))


def _mixtures(config: Config, path: str) -> Iterator[tuple[str, int]]:
    """The numbers of experts that a model's settings ask for, by the settings' paths."""
    for name in type(config).model_fields:
        value = getattr(config, name)
        if isinstance(value, ExpertsConfig):
            yield f"{path}.{name}.experts", value.experts
        elif isinstance(value, Config):
            yield from _mixtures(value, f"{path}.{name}")


def held_params(model: Any, num_params: Callable[[Any], int], among: int) -> int:  # noqa: ANN401
    """Learned numbers that each process holds a copy of, where experts are divided among so many; routers are not."""
    whole = num_params(model)
    if among == 1:
        return whole
    experts = num_params(_twice_as_wide(model, model.width)) - whole  # what only the experts' matrices have more
    return whole - experts + experts // among


def _twice_as_wide(config: Config, width: int) -> Config:
    """A model's settings with experts of twice the inner width."""
    changed = {}
    for name in type(config).model_fields:
        value = getattr(config, name)
        if isinstance(value, ExpertsConfig):
            changed[name] = value.but(hidden=2 * value.hidden_of(width))
        elif isinstance(value, Config) and dict(_mixtures(value, name)):
            changed[name] = _twice_as_wide(value, width)
    return config.but(**changed)


def refuse_undividable(optimiser: str, rewarded: bool) -> None:
    """What cannot be trained with divided experts."""
    if optimiser == "adafactor":
        raise ConfigError(
            "train.optimiser",
            "adafactor measures all experts of a layer together, and train.expert_parallel divides these; choose "
            "adamw, muon or sgd, or train.expert_parallel=1",
        )
    if rewarded:
        raise ConfigError(
            "train.expert_parallel",
            "task.reward writes texts of different lengths in each process, and divided experts need all to compute "
            "in step; choose 1",
        )


def expert_matrices(model: nn.Module) -> dict[str, nn.Parameter]:
    """The parameters that have a matrix for each expert of a mixture, by name."""
    return {
        f"{path}.{name}" if path else name: getattr(part, name)
        for path, part in model.named_modules()
        if isinstance(part, Experts)
        for name in ("up", "down")
    }


class DividedExperts:
    """What the mixtures of a model have in this process; where `size` is 1, all of it, and nothing here does anything.

    A model is divided before it goes to its device, so that the device never holds it whole.
    """

    def __init__(self, model: nn.Module, team: Team, size: int = 1) -> None:
        self.team, self.size = team, size
        self._parts: dict[str, nn.Parameter] = {}
        if size > 1:
            self._divide(model)

    def _divide(self, model: nn.Module) -> None:
        # loaded here, as it takes a second that runs in one piece need not wait
        from torch.distributed.device_mesh import init_device_mesh

        shape = (self.team.size // self.size, self.size)
        mesh = init_device_mesh(self.team.device.type, shape, mesh_dim_names=("copies", "experts"))
        self._mesh, self._copies = mesh["experts"], mesh.get_group("copies")
        self._company = Company(self._mesh.get_group(), dist.new_group())  # type: ignore[arg-type]
        for name, whole in expert_matrices(model).items():
            part = self._own(whole.detach()).to(self.team.device, copy=True)
            self._parts[name] = nn.Parameter(part, requires_grad=whole.requires_grad)
            path, _, own = name.rpartition(".")
            mixture = model.get_submodule(path)
            setattr(mixture, own, self._parts[name])
            mixture.company = self._company  # type: ignore[assignment]

    def _own(self, whole: Tensor) -> Tensor:
        return whole.chunk(self.size)[self._mesh.get_local_rank()]

    @property
    def parameters(self) -> set[nn.Parameter]:
        """Those that other processes have other parts of: nobody else may average or cut them."""
        return set(self._parts.values())

    # In a step

    def count(self, counts: bool) -> None:
        """Says whether the rows that come now count, or stand in for none."""
        if self.size > 1:
            self._company.counts = counts

    def sum_gradients(self) -> None:
        """Sums the gradients of an expert over the processes that have it, and scales as the team's are scaled.

        Slopes came back with the tokens of all, and each process has multiplied its loss by the size of the team.
        """
        for part in self._parts.values():
            if part.grad is not None:
                dist.all_reduce(part.grad, group=self._copies)
                part.grad /= self.team.size

    def norm(self, trained: Sequence[nn.Parameter]) -> Tensor:
        """The norm of all gradients, in which each expert counts once."""
        apart = self.parameters
        shared = gradient_norm([parameter for parameter in trained if parameter not in apart])
        if not apart:
            return shared
        square = gradient_norm([parameter for parameter in trained if parameter in apart]).square()
        square = square.to(self.team.device)
        dist.all_reduce(square, group=self._mesh.get_group())
        return (shared.square() + square.to(shared.device)).sqrt()

    # In checkpoints

    def gathered(self, tensors: Mapping[str, Tensor], keep: bool) -> dict[str, Tensor]:
        """Tensors by the names of parameters, or `parameter/quantity`, in one piece, for processes that `keep`."""
        if self.size == 1:
            return gathered(tensors, keep)
        from torch.distributed.tensor import DTensor, Shard

        def known(name: str, tensor: Tensor) -> Tensor:
            if not self._is_part(name, tensor):
                return tensor
            return DTensor.from_local(tensor.detach(), self._mesh, [Shard(0)], run_check=False)

        return gathered({name: known(name, tensor) for name, tensor in tensors.items()}, keep)

    def _is_part(self, name: str, tensor: Tensor) -> bool:
        part = self._parts.get(name.partition("/")[0])
        return part is not None and part.shape == tensor.shape

    def own(self, saved: Checkpoint) -> Checkpoint:
        """A checkpoint with this process's parts in place of whole mixtures."""
        if self.size == 1:
            return saved
        extra = {name: self._cut(tensors) for name, tensors in saved.extra.items()}
        return replace(saved, model=self._cut(saved.model), optimizer=self._cut(saved.optimizer), extra=extra)

    def _cut(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        def fits(name: str, whole: Tensor) -> bool:  # others are left for those to refuse who expect them
            part = self._parts.get(name.partition("/")[0])
            return part is not None and whole.shape == (len(part) * self.size, *part.shape[1:])

        return {name: self._own(whole) if fits(name, whole) else whole for name, whole in tensors.items()}
