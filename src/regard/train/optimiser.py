"""Optimisers: AdamW, Adafactor, Muon, SGD over named parameters, with a state that can be saved and put back exactly.

Parameters are told apart by the part they play, in the order of the model:

    matrix   a map inside the model, or a stack of such maps      decays, Muon's
    head     a map of an output layer (below a module `head`)     decays
    kernel   the weights of a convolution                         decays
    table    looked up, not multiplied: embeddings, positions, added tokens
    vector   gains, shifts, biases

By hand: `Optimiser(model, [torch.optim.AdamW(model.parameters())])`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import torch
from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt, model_validator
from torch import Tensor, nn

from regard.config import Family, refuse
from regard.errors import ConfigError, RunError
from regard.models.stack import Stack
from regard.nn.position import Position
from regard.train.muon import Muon, Scaling
from regard.train.parallel.state import copy_full, is_sharded, local_part

Role = Literal["matrix", "head", "kernel", "table", "vector"]
Groups = list[dict[str, Any]]
Fraction = Annotated[float, Field(ge=0, lt=1)]

DECAYED: dict[str, tuple[Role, ...]] = {
    "matrices": ("matrix", "head", "kernel"),
    "tables": ("matrix", "head", "kernel", "table"),
    "all": ("matrix", "head", "kernel", "table", "vector"),
}


@dataclass(frozen=True, eq=False)
class Member:
    """A trained parameter, by its name in the model."""

    name: str
    parameter: nn.Parameter
    role: Role


def members(model: nn.Module) -> list[Member]:
    """The trained parameters, in the order of the model; shared ones once, under their first name."""
    tables = {id(p) for part in model.modules() if _is_table(part) for p in part.parameters(recurse=False)}
    by_id: dict[int, Member] = {}
    for path, part in model.named_modules():
        for name, parameter in part.named_parameters(path, recurse=False):
            if parameter.requires_grad and id(parameter) not in by_id:
                role: Role = "table" if id(parameter) in tables else _role(name, part, parameter)
                by_id[id(parameter)] = Member(name, parameter, role)
    if not by_id:
        raise ConfigError("model", "no parameter is trained: all are frozen")
    return list(by_id.values())


def _is_table(part: nn.Module) -> bool:
    return isinstance(part, nn.Embedding | nn.EmbeddingBag | Position | Stack)  # a stack's own are the tokens it adds


def _role(name: str, part: nn.Module, parameter: nn.Parameter) -> Role:
    *path, last = name.split(".")
    if last.startswith("bias") or sum(size > 1 for size in parameter.shape) < 2:
        return "vector"
    if isinstance(part, nn.Conv1d | nn.Conv2d | nn.Conv3d):
        return "kernel"
    return "head" if "head" in path else "matrix"


def same_rate(name: str) -> float:
    """The learning rate as it is, for every parameter."""
    return 1.0


class OptimiserConfig(Family):
    """What all optimisers share."""

    weight_decay: NonNegativeFloat = 0.01
    """Pull towards zero, times the learning rate at each step."""
    decay_on: Literal["matrices", "tables", "all"] = "matrices"
    """What is pulled: the matrices; also the tables of embeddings and positions; also gains, shifts and biases."""

    def build(self, model: nn.Module, lr: float, scale: Callable[[str], float] = same_rate) -> "Optimiser":
        """The optimiser of a model's parameters; `scale` gives a parameter's share of the learning rate by its name."""
        optimiser = Optimiser(model, self.parts(members(model), scale))
        optimiser.set_lr(lr)
        return optimiser

    def parts(self, trained: Sequence[Member], scale: Callable[[str], float]) -> list[torch.optim.Optimizer]:
        """The torch optimisers that share the parameters among them."""
        raise TypeError(f"{type(self).__name__} must say which optimisers it uses")

    def groups(self, trained: Sequence[Member], scale: Callable[[str], float]) -> Groups:
        """Parameters of one weight decay and one share of the learning rate together, in order of appearance.

        Those that are cut up among processes come apart from others, as fused kernels take only one sort.
        """
        together: dict[tuple[float, float, bool], list[nn.Parameter]] = {}
        for member in trained:
            decay = self.weight_decay if member.role in DECAYED[self.decay_on] else 0.0
            sort = (decay, scale(member.name), is_sharded(member.parameter))
            together.setdefault(sort, []).append(member.parameter)
        return [{"params": p, "weight_decay": decay, "scale": s} for (decay, s, _), p in together.items()]


class Adam(torch.optim.Adam):
    """torch's Adam, on what this process holds of each parameter: where models are cut up, its state is too."""

    def _init_group(self, group: dict[str, Any], *lists: list[Tensor]) -> bool:  # type: ignore[override]
        """Lists all that a kernel is to change: parameters, gradients, moments, counts of steps."""
        has_complex = super()._init_group(group, *lists)
        for tensors in lists:
            tensors[:] = map(local_part, tensors)
        return has_complex


class AdamW(Adam, torch.optim.AdamW):  # type: ignore[override]
    """Decay apart from the gradient."""


class AdamConfig(OptimiserConfig):
    """What AdamW and the AdamW beside Muon share."""

    betas: tuple[Fraction, Fraction] = (0.9, 0.98)
    """How slowly the running means of the gradient and of its square forget (Vaswani 2017)."""
    epsilon: PositiveFloat = 1e-9
    """Keeps the division safe."""

    def adam(self, groups: Groups, decoupled: bool = True) -> torch.optim.Optimizer:
        """Adam in one fused kernel where torch has it; lr is set afterwards."""
        kind = AdamW if decoupled else Adam
        return kind(groups, lr=0.0, betas=self.betas, eps=self.epsilon, fused=_can_fuse(groups))


def _can_fuse(groups: Groups) -> bool:
    return all(p.device.type in ("cpu", "cuda") and p.is_floating_point() for group in groups for p in group["params"])


class AdamWConfig(AdamConfig):
    """Steps of about the learning rate's size in every coordinate; decay apart from the gradient (Loshchilov 2019)."""

    kind: Literal["adamw"] = "adamw"
    decoupled: bool = True
    """Decay apart from the gradient (AdamW); off: as part of it (Adam with an L2 penalty)."""

    def parts(self, trained: Sequence[Member], scale: Callable[[str], float]) -> list[torch.optim.Optimizer]:
        """One Adam for all."""
        return [self.adam(self.groups(trained, scale), self.decoupled)]


class AdafactorConfig(OptimiserConfig):
    """Adam that keeps one number a row and a column instead of one a weight (Shazeer 2018).

    A step is relative to the size of what it changes, so learning rates are larger (1e-2), and never above 1/√step.
    """

    kind: Literal["adafactor"] = "adafactor"
    weight_decay: NonNegativeFloat = 0.0
    """Pull towards zero, times the learning rate at each step."""
    memory: NonNegativeFloat = 0.8
    """The mean of squares forgets the fraction step^−memory at each step."""
    least: NonNegativeFloat = 1e-3
    """What is smaller than this (root mean square) is changed as if it were this large."""
    clip: Annotated[float, Field(ge=1)] = 1.0
    """Largest root mean square of a step before it is scaled."""

    def parts(self, trained: Sequence[Member], scale: Callable[[str], float]) -> list[torch.optim.Optimizer]:
        """One Adafactor for all."""
        groups, eps = self.groups(trained, scale), (None, self.least)
        return [torch.optim.Adafactor(groups, lr=0.0, beta2_decay=-self.memory, eps=eps, d=self.clip)]


class MuonConfig(AdamConfig):
    """Muon for the matrices inside the model and stacks of them; AdamW for heads, kernels, tables and vectors."""

    kind: Literal["muon"] = "muon"
    momentum: Fraction = 0.95
    """How slowly Muon's running mean of the gradient forgets."""
    nesterov: bool = True
    """Blend the newest gradient in once more."""
    iterations: PositiveInt = 5
    """Newton–Schulz iterations towards an orthogonal step."""
    scaling: Scaling = "adamw"
    """`adamw`: steps as long as AdamW's, one learning rate serves both; `original`: longer, by rows over columns."""
    adamw_scale: PositiveFloat = 1.0
    """Share of the learning rate for what AdamW trains; small (0.02) where `scaling` is `original`."""

    def parts(self, trained: Sequence[Member], scale: Callable[[str], float]) -> list[torch.optim.Optimizer]:
        """Muon and AdamW, each where it has something to do."""
        inner = self.groups([member for member in trained if member.role == "matrix"], scale)
        others = [member for member in trained if member.role != "matrix"]
        outer = self.groups(others, lambda name: scale(name) * self.adamw_scale)
        muon = {"nesterov": self.nesterov, "iterations": self.iterations, "scaling": self.scaling}
        optimisers: list[torch.optim.Optimizer] = [Muon(inner, momentum=self.momentum, **muon)] if inner else []
        return optimisers + ([self.adam(outer)] if outer else [])


class SGDConfig(OptimiserConfig):
    """Along the gradient, with momentum or without."""

    kind: Literal["sgd"] = "sgd"
    weight_decay: NonNegativeFloat = 0.0
    """Pull towards zero, as part of the gradient."""
    momentum: Fraction = 0.9
    """Share of the last step that is kept."""
    nesterov: bool = False
    """Take the gradient as if the kept share had been gone already; needs momentum."""

    @model_validator(mode="after")
    def _nesterov_has_momentum(self) -> "SGDConfig":
        if self.nesterov and not self.momentum:
            raise refuse("nesterov", "there is no momentum to look ahead along; set momentum above 0 or leave this off")
        return self

    def parts(self, trained: Sequence[Member], scale: Callable[[str], float]) -> list[torch.optim.Optimizer]:
        """One SGD for all; not fused, as torch's fused one fails when a parameter's first gradient comes late."""
        groups = self.groups(trained, scale)
        return [torch.optim.SGD(groups, lr=0.0, momentum=self.momentum, nesterov=self.nesterov)]


class Optimiser:
    """One or more torch optimisers that step together, and their state by parameter names."""

    def __init__(self, model: nn.Module, parts: Sequence[torch.optim.Optimizer]) -> None:
        self.parts = list(parts)
        self.lr = float(self.parts[0].param_groups[0]["lr"])
        self._owners = {p: (part, group) for part in parts for group in part.param_groups for p in group["params"]}
        self._names = {name: p for name, p in model.named_parameters() if p in self._owners}

    @property
    def kind(self) -> str:
        """What steps here, such as `Muon + AdamW`."""
        return " + ".join(type(part).__name__ for part in self.parts)

    def set_lr(self, lr: float) -> None:
        """Sets the learning rate, of which each group takes its share."""
        self.lr = lr
        for part in self.parts:
            for group in part.param_groups:
                group["lr"] = lr * group.get("scale", 1.0)

    @property
    def checks_on_device(self) -> bool:
        """Whether kernels skip non-finite steps by themselves, so that the host need not wait: fused Adam on a GPU."""
        return all(isinstance(part, Adam) and part.defaults["fused"] for part in self.parts) and all(
            parameter.device.type == "cuda" for parameter in self._owners
        )

    def learning_rates(self, lr: float) -> list[float]:
        """Of each group of parameters."""
        return [lr * group.get("scale", 1.0) for part in self.parts for group in part.param_groups]

    def read_rates_from(self, rates: Sequence[Tensor]) -> None:
        """From here on, learning rates are those tensors, one for each group; on the device."""
        groups = (group for part in self.parts for group in part.param_groups)
        for group, rate in zip(groups, rates, strict=True):
            group["lr"] = rate
            group["capturable"] = True  # what torch asks for before it captures a step
        for part in self.parts:
            part._warned_capturable_if_run_uncaptured = True  # type: ignore[attr-defined]  # a shape's first steps are

    def step(self, found_inf: Tensor | None = None, grad_scale: Tensor | None = None) -> None:
        """Updates the parameters by their gradients, divided by `grad_scale`; not where `found_inf` is 1."""
        for part in self.parts:
            part.found_inf, part.grad_scale = found_inf, grad_scale  # type: ignore[attr-defined]
            part.step()

    def zero_grad(self) -> None:
        for part in self.parts:
            part.zero_grad(set_to_none=True)

    def tensors(self) -> dict[str, Tensor]:
        """The state as `parameter/quantity`; live tensors, which the next step changes."""
        return {
            f"{name}/{quantity}": value
            for name, parameter in self._names.items()
            for quantity, value in self._owners[parameter][0].state.get(parameter, {}).items()
        }

    def scalars(self) -> dict[str, Any]:
        """The rest of the state, fit for JSON."""
        return {"kind": self.kind, "lr": self.lr, "tensors": len(self.tensors())}

    def restore(self, tensors: Mapping[str, Tensor], scalars: Mapping[str, Any]) -> None:
        """Puts back what `tensors` and `scalars` gave, exactly; copies."""
        if scalars["kind"] != self.kind:
            raise RunError(
                f"train.optimiser: the saved optimiser is {scalars['kind']}, the recipe asks for {self.kind}; use the "
                "run's own recipe"
            )
        if len(tensors) != scalars["tensors"]:
            raise RunError(f"the saved optimiser has {len(tensors)} tensors, expected {scalars['tensors']}")
        for part in self.parts:
            part.state.clear()
        for key, value in tensors.items():
            name, _, quantity = key.rpartition("/")
            self._restore_one(name, quantity, value)
        self.set_lr(float(scalars["lr"]))

    def _restore_one(self, name: str, quantity: str, value: Tensor) -> None:
        if name not in self._names:
            raise RunError(f"the saved optimiser knows a parameter '{name}', which this model does not train")
        parameter = self._names[name]
        part, group = self._owners[parameter]
        if quantity == "step":  # counted on the device by fused kernels only
            part.state[parameter][quantity] = value.to(parameter.device if group.get("fused") else "cpu", copy=True)
        elif value.shape == parameter.shape:
            part.state[parameter][quantity] = torch.empty_like(parameter, dtype=value.dtype, requires_grad=False)
            copy_full(part.state[parameter][quantity], value)
        elif _is_factor(value, parameter):
            part.state[parameter][quantity] = value.to(parameter.device, copy=True)
        else:
            raise RunError(f"saved {quantity} of '{name}': expected {tuple(parameter.shape)}, got {tuple(value.shape)}")


def _is_factor(value: Tensor, parameter: nn.Parameter) -> bool:
    """Whether one dimension of the parameter is summed up, as in Adafactor's rows and columns."""
    pairs = list(zip(value.shape, parameter.shape, strict=False))
    return value.dim() == parameter.dim() and sum(a != b for a, b in pairs) == 1 and all(a in (1, b) for a, b in pairs)
