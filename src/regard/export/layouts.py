"""The layouts of Hugging Face that a model can be written in: chosen from the model's own settings.

A layout says what it can express (`needs`), its `config.json` (`settings`), where its weights lie (`mapping`), and how
to read a `config.json` back (`read`). What a layout has no setting for, but weights can say as well, is folded into
the weights first: waves become a table of positions, √width is multiplied into the embedding.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from regard.errors import ConfigError
from regard.export.mappings import Mapping
from regard.export.needs import Needs, misfits, refusal
from regard.nn.position import LearnedConfig
from regard.nn.position.absolute import waves

TO_ACTIVATION = {
    "relu": "relu",
    "gelu": "gelu",
    "gelu-tanh": "gelu_new",
    "silu": "silu",
    "tanh": "tanh",
    "none": "linear",
}
FROM_ACTIVATION = {theirs: ours for ours, theirs in TO_ACTIVATION.items()} | {
    "swish": "silu",
    "gelu_pytorch_tanh": "gelu-tanh",
}


@dataclass(frozen=True)
class Sizes:
    """What a layout must know beside the model's settings."""

    vocab: int
    """Tokens of the vocabulary that is read; of a model that writes another, of the source's."""
    target_vocab: int
    labels: Sequence[str] = ()
    length: int = 512
    """Most tokens of a sequence."""


@dataclass(frozen=True)
class Layout:
    """One architecture of Hugging Face."""

    name: str
    architecture: str
    """Its class in transformers."""
    auto: str
    """The Auto class that loads it."""
    model_type: str
    shape: str
    """The shape of models that it can hold."""
    needs: Callable[[Any], Needs]
    settings: Callable[[Any, Sizes], dict[str, Any]]
    mapping: Callable[[Any], Mapping]
    read: Callable[[dict[str, Any]], dict[str, Any]]
    """Our model's settings from its config.json."""
    tables: dict[str, str] = field(default_factory=dict)
    """Its tables of positions that are constants by default → where ours stand when they are learned."""
    learns_positions: bool = False
    """Whether positions are a table and nothing else."""
    scales: bool = False
    """Whether it has a setting for embeddings times √width."""
    renames: tuple[tuple[str, str], ...] = ()
    """Names in files → names in the mapping, as regular expressions."""
    tied: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Tensors that files may hold under another name."""


def choose(layouts: Sequence[Layout], config: Any, hint: str) -> Layout:  # noqa: ANN401
    """The layout that can express a model; where none can, the refusal of the nearest."""
    fitting = [layout for layout in layouts if layout.shape == config.shape and config.kind == config.shape]
    if not fitting:
        known = ", ".join(sorted({layout.shape for layout in layouts}))
        raise ConfigError("model.kind", f"Hugging Face folders hold one of {known}, got '{config.kind}'; {hint}")
    found = [(misfits(config, layout.needs(config)), layout) for layout in fitting]
    # a layout with another kind of head does another task, however near it is
    problems, layout = min(found, key=lambda one: (any(p.path == "model.head.kind" for p in one[0]), len(one[0])))
    if problems:
        raise refusal(f"the {layout.name} layout", problems, hint)
    return layout


def fold(layout: Layout, config: Any, weights: dict[str, Tensor], length: int) -> tuple[Any, dict[str, Tensor]]:  # noqa: ANN401
    """Settings and weights of the same function, as the layout can say it."""
    weights = dict(weights)
    embedding = getattr(config, "embedding", None)
    if embedding is not None and embedding.scale and not layout.scales:
        table = weights["embedding.table.weight"]
        if embedding.shares_output:
            weights["head.linear.weight"] = table
        weights["embedding.table.weight"] = table * config.width**0.5
        config = config.but(embedding=embedding.but(scale=False, share="none"))
    if layout.learns_positions and config.position.kind == "sinusoidal":
        weights["stack.positions.0.table.weight"] = wave_table(config, length)
        config = config.but(position=LearnedConfig(length=length))
    return config, weights


def wave_table(config: Any, length: int) -> Tensor:  # noqa: ANN401
    """The vectors of the first places of a model with sinusoidal positions."""
    return waves(torch.arange(length)[None], config.width, config.position.base, config.position.interleaved)[0]


def activation(theirs: str, setting: str = "hidden_act") -> str:
    """Our name of an activation; refused where we have none."""
    if theirs not in FROM_ACTIVATION:
        raise ConfigError(setting, f"expected one of {', '.join(FROM_ACTIVATION)}, got '{theirs}'")
    return FROM_ACTIVATION[theirs]


def expect_settings(given: dict[str, Any], expected: dict[str, Any]) -> None:
    """Refuses a config.json whose settings ask for something that we do not compute."""
    for name, value in expected.items():
        if given.get(name, value) != value:
            raise ConfigError(name, f"expected {value!r} in config.json, got {given[name]!r}")
