"""The layouts of Hugging Face that a model can be written in: chosen from the model's own settings.

A layout says what it can express (`needs`), its `config.json` (`settings`), where its weights lie (`mapping`), and how
to read a `config.json` back (`read`). What a layout has no setting for, but weights can say as well, is folded into
the weights first: waves become a table of positions, √width is multiplied into the embedding.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from regard.errors import ConfigError
from regard.export.huggingface.keys import Keys
from regard.export.huggingface.parameter_names import Mapping as Places
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
class Ignored:
    """Tensors of files that the model is not made of."""

    pattern: str
    """A regular expression of their names."""
    reason: str
    """What they are."""
    check: Callable[[Tensor, Mapping[str, Any]], bool] | None = None
    """Whether a tensor is what it must be for that, where it is cheap to say."""


UNTIED = "output layer of its own"
"""Key of the settings that an import adds: whether the output layer has another matrix than the embedding."""


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
    mapping: Callable[[Any], Places]
    read: Callable[[dict[str, Any]], dict[str, Any]]
    """Our model's settings from its config.json."""
    keys: Keys
    """What becomes of each key of its config.json."""
    tables: dict[str, str] = field(default_factory=dict)
    """Its tables of positions that are constants by default → where ours stand when they are learned."""
    learns_positions: bool = False
    """Whether positions are a table and nothing else."""
    scales: bool = False
    """Whether it has a setting for embeddings times √width."""
    renames: tuple[tuple[str, str], ...] = ()
    """Names in files → names in the mapping, as regular expressions."""
    ties: Callable[[Mapping[str, Any]], dict[str, str]] = lambda settings: {}
    """By its settings: tensors that are another under a second name → that other."""
    output: tuple[str, ...] = ()
    """The tied tensors of the output layer, which may also have values of their own."""
    idle: tuple[str, ...] = ()
    """Tensors that nothing is computed with where the output layer has values of its own."""
    ignored: tuple[Ignored, ...] = ()
    """Tensors of files that do not matter."""
    prefix: str = ""
    """What names begin with within the whole model, and not where only its stack was saved."""
    heads: tuple[str, ...] = ()
    """What names of the output layer begin with."""


def renamed(name: str, layout: Layout) -> str:
    """The name that the layout's mapping has for a tensor."""
    for pattern, replacement in layout.renames:
        name = re.sub(pattern, replacement, name)
    return name


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
