"""Who may attend to whom, as a picture: the lecture's four panels, and what a trained model does with a text."""

from collections.abc import Mapping
from pathlib import Path

import torch
from matplotlib.figure import Figure
from torch import Tensor, nn

from regard.decode.search import AnySearch
from regard.errors import ConfigError
from regard.look.trace import patterns
from regard.nn.attention.kinds import BigBirdConfig, four_panels
from regard.tasks import Task

LECTURE = BigBirdConfig(block=2, reach=1, global_tokens=2, random=1)
"""Settings of the lecture's picture, for sequences of this many tokens:"""
LECTURE_LENGTH = 32


def draw_lecture(png: Path) -> list[str]:
    """Random, window and global attention, and BigBird, which is the three together; the panels' names."""
    return _draw(four_panels(LECTURE_LENGTH, LECTURE), png)


def draw_patterns(
    model: nn.Module,
    task: Task,
    text: str,
    target: str | None,
    documents: bool,
    png: Path,
    search: AnySearch | None = None,
) -> list[str]:
    """What each attention of a model lets be seen in a text; where that is BigBird, its three parts first."""
    panels: dict[str, Tensor] = {}
    for name, rows, _, allowed in patterns(model, task, text, target, documents, search):
        config = _attention_of(model, name)
        if isinstance(config, BigBirdConfig):
            parts = four_panels(len(rows), config, causal=name == "decoder")
            panels |= {f"{name}: {part}": panel for part, panel in parts.items() if part != "bigbird"}
        kind = "full" if name == "cross" else getattr(config, "kind", "full")
        panels[f"{name}: {kind}"] = torch.tensor(allowed)
    if not panels:
        raise ConfigError("model.kind", f"'{_kind_of(model)}' has no attention, so it has no pattern to show")
    return _draw(panels, png)


def _kind_of(model: nn.Module) -> str:
    return getattr(getattr(model, "config", None), "kind", type(model).__name__)


def _attention_of(model: nn.Module, group: str) -> object:
    """The attention settings of one group; none where the model is no Transformer or the group listens to another."""
    config = getattr(model, "config", None)
    if group == "decoder" and getattr(config, "decoder_attention", None) is not None:
        return config.decoder_attention  # type: ignore[union-attr]
    return getattr(config, "attention", None) if group != "cross" else None


def _draw(panels: Mapping[str, Tensor], png: Path) -> list[str]:
    """All panels in rows of four: blue where a query (row) may look at a key (column)."""
    columns, rows = min(4, len(panels)), -(-len(panels) // 4)
    figure = Figure(figsize=(2.8 * columns, 3.1 * rows), layout="constrained")
    places = list(figure.subplots(rows, columns, squeeze=False).flat)
    for axes, (name, panel) in zip(places, panels.items(), strict=False):
        axes.imshow(panel.numpy(), cmap="Blues", vmin=0, vmax=1.4, interpolation="nearest")
        axes.set(title=name, xticks=[], yticks=[], xlabel="keys", ylabel="queries")
    for spare in places[len(panels) :]:
        spare.set_axis_off()
    figure.savefig(png, format="png", dpi=120)
    return list(panels)
