"""Names of our parameters in other people's models: the vocabulary in which each architecture lists its own.

An entry names a tensor of the other model and a *view* of it. Being a view, it serves both ways: reading it gives our
parameter (or its gradient), copying into it fills the other model. Where shapes differ, the order of elements does not.
The entries of a block are listed once, relative to the block, and repeated for every layer.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial

from torch import Tensor


@dataclass(frozen=True)
class TensorView:
    """A tensor of the other model, and the part of it that is meant."""

    name: str
    view: Callable[[Tensor], Tensor] = lambda tensor: tensor


ParameterNames = dict[str, TensorView]
"""Parameter of regard → its tensor in the other model."""


def linear(ours: str, theirs: str, *, bias: bool = True) -> ParameterNames:
    weight = {f"{ours}.weight": TensorView(f"{theirs}.weight")}
    return weight | {f"{ours}.bias": TensorView(f"{theirs}.bias")} if bias else weight


def conv1d(ours: str, theirs: str) -> ParameterNames:
    """GPT-2's Conv1D: a matrix stored with the inputs first, and its bias."""
    return {f"{ours}.weight": TensorView(f"{theirs}.weight", Tensor.t), f"{ours}.bias": TensorView(f"{theirs}.bias")}


def norm(ours: str, theirs: str, *, shift: bool = True) -> ParameterNames:
    gain = {f"{ours}.gain": TensorView(f"{theirs}.weight")}
    return gain | {f"{ours}.shift": TensorView(f"{theirs}.bias")} if shift else gain


def attention(names: str, *, bias: bool = True) -> ParameterNames:
    """Four projections, each with a tensor of its own; `names` are theirs for query, key, value and output."""
    pairs = zip(("query", "key", "value", "output"), names.split(), strict=True)
    return union(linear(ours, theirs, bias=bias) for ours, theirs in pairs)


def fused_qkv(weight: str, bias: str, third: Callable[[int, Tensor], Tensor]) -> ParameterNames:
    """Query, key and value projections in one tensor; `third` selects the first, second or third of them."""
    views = {name: partial(third, index) for index, name in enumerate(("query", "key", "value"))}
    return union(
        {f"{name}.weight": TensorView(weight, view), f"{name}.bias": TensorView(bias, view)}
        for name, view in views.items()
    )


def prefixed(ours: str, theirs: str, names: ParameterNames) -> ParameterNames:
    """The entries of a part, named from the whole; an empty prefix where the part is the whole."""
    our_prefix, their_prefix = f"{ours}." if ours else "", f"{theirs}." if theirs else ""
    return {our_prefix + name: replace(view, name=their_prefix + view.name) for name, view in names.items()}


def layers(depth: int, ours: str, theirs: str, block: ParameterNames) -> ParameterNames:
    """The entries of a block, for every layer."""
    return union(prefixed(f"{ours}.{layer}", f"{theirs}.{layer}", block) for layer in range(depth))


def union(parts: Iterable[ParameterNames]) -> ParameterNames:
    return {name: view for part in parts for name, view in part.items()}
