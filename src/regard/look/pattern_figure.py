"""Attention patterns as a figure: the lecture's four panels, and those of a trained model on a text."""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import torch
from matplotlib.figure import Figure
from torch import Tensor

from regard.errors import ConfigError
from regard.look.groups import by_group
from regard.look.model_input import input_builder
from regard.look.payload import GroupName, TraceConfig
from regard.look.replay import replay
from regard.look.trace import model_input, search_for
from regard.models import ModelConfig
from regard.nn.attention.kinds import BigBirdConfig, four_panels
from regard.tasks.trained import Trained

LECTURE = BigBirdConfig(block=2, reach=1, global_tokens=2, random=1)
"""Settings of the lecture's figure, for sequences of this many tokens:"""
LECTURE_LENGTH = 32


class Pattern(NamedTuple):
    """Which pairs may attend in any head of the first layer of a group."""

    group: GroupName
    queries: list[str]
    keys: list[str]
    allowed: list[list[bool]]


def patterns(trained: Trained, text: str, target: str | None = None) -> list[Pattern]:
    inputs = model_input(input_builder(trained, text), text, target, search_for(trained, TraceConfig()))
    source, target_tokens = ([] if side is None else side.tokens for side in (inputs.source, inputs.target))
    return [
        Pattern(
            group,
            source if group == "encoder" else target_tokens,
            target_tokens if group == "decoder" else source,
            layers[0].allowed.any(0).tolist(),
        )
        for group, layers in by_group(replay(trained.model, inputs.arguments)[1], inputs).items()
    ]


def draw_lecture(png: Path) -> list[str]:
    """Random, window and global attention, and BigBird, which is the three together; the panels' names."""
    return _draw(four_panels(LECTURE_LENGTH, LECTURE), png)


def draw_patterns(trained: Trained, text: str, target: str | None, png: Path) -> list[str]:
    """The pattern of each group of a model; BigBird's three parts come first. Returns the panels' names."""
    panels: dict[str, Tensor] = {}
    for group, queries, _, allowed in patterns(trained, text, target):
        config = _attention_config(trained.recipe.model, group)
        if isinstance(config, BigBirdConfig):
            parts = four_panels(len(queries), config, causal=group == "decoder")
            panels |= {f"{group}: {part}": panel for part, panel in parts.items() if part != "bigbird"}
        panels[f"{group}: {getattr(config, 'kind', 'full')}"] = torch.tensor(allowed)
    if not panels:
        kind = trained.recipe.model.kind
        raise ConfigError("model.kind", f"'{kind}' has no attention, so it has no pattern to show")
    return _draw(panels, png)


def _attention_config(model: ModelConfig, group: GroupName) -> object:
    """The attention settings of a group; None for cross-attention and for models that are no Transformers."""
    if group == "decoder" and (config := getattr(model, "decoder_attention", None)) is not None:
        return config
    return getattr(model, "attention", None) if group != "cross" else None


def _draw(panels: Mapping[str, Tensor], png: Path) -> list[str]:
    """All panels in rows of four: blue where a query (row) may attend to a key (column)."""
    columns, rows = min(4, len(panels)), -(-len(panels) // 4)
    figure = Figure(figsize=(2.8 * columns, 3.1 * rows), layout="constrained")
    all_axes = list(figure.subplots(rows, columns, squeeze=False).flat)
    for axes, (name, panel) in zip(all_axes, panels.items(), strict=False):
        axes.imshow(panel.numpy(), cmap="Blues", vmin=0, vmax=1.4, interpolation="nearest")
        axes.set(title=name, xticks=[], yticks=[], xlabel="keys", ylabel="queries")
    for spare in all_axes[len(panels) :]:
        spare.set_axis_off()
    figure.savefig(png, format="png", dpi=120)
    return list(panels)
