"""The curves of a run as a picture: loss, learning rate, gradient norm and speed over steps.

The losses of training and validation are in one unit, cross-entropy without smoothing; where training minimises
something else, that has a panel of its own.
"""

from collections.abc import Sequence
from math import isfinite, nan
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from regard.train.durable import replacing, reported
from regard.train.log import read_metrics

if TYPE_CHECKING:  # runs that are only used draw nothing, and need not wait for it
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PANELS = {
    "loss": "loss",
    "objective": "objective",
    "lr": "learning rate",
    "gradient_norm": "gradient norm",
    "tokens_per_second": "tokens per second",
}
COLOURS = {"train": "tab:blue", "valid": "tab:orange"}
SMOOTHED = 100  # points: a longer curve, if it is noisy, is drawn faintly, with its running mean on top

Lines = Sequence[dict[str, Any]]


def curves(metrics_file: Path, png: Path) -> None:
    """Draws the metrics of a run, all of it, into a PNG file that takes the place of an older one."""
    lines = read_metrics(metrics_file)
    figure = draw(lines)
    with reported(png.name, png.parent, 0), replacing(png) as stream:
        figure.savefig(stream, format="png", dpi=120)


def draw(lines: Lines) -> "Figure":
    """A figure with a panel for each kind of number that the lines hold."""
    from matplotlib.figure import Figure

    recorded = [name for name in PANELS if any(name in line for line in lines)] or ["loss"]
    rows = (len(recorded) + 1) // 2
    columns = min(len(recorded), 2)
    figure = Figure(figsize=(6 * columns, 3.6 * rows), layout="constrained")
    panels = list(figure.subplots(rows, columns, squeeze=False).flat)
    for name, axes in zip(recorded, panels, strict=False):
        _panel(axes, name, lines)
    for spare in panels[len(recorded) :]:
        spare.set_axis_off()
    return figure


def _panel(axes: "Axes", name: str, lines: Lines) -> None:
    splits = COLOURS if name == "loss" else ("train",)
    for split in splits:
        points = [(line["step"], line[name]) for line in lines if line.get("split") == split and name in line]
        if points:
            _curve(axes, split, points, smooth=name != "lr" and len(points) > SMOOTHED)
    resumes = sorted({line["step"] for line in lines if line.get("event") == "resume"})
    for i, step in enumerate(resumes):
        axes.axvline(step, color="grey", linestyle=":", linewidth=1, label="resumed" if i == 0 else None)
    axes.set_xlabel("step")
    axes.set_ylabel(PANELS[name])
    axes.grid(alpha=0.3)
    if name == "loss" and axes.get_legend_handles_labels()[1]:
        axes.legend()


def _curve(axes: "Axes", split: str, points: Sequence[tuple[int, float]], *, smooth: bool) -> None:
    """A gap stands where a number is none; a single point gets a dot, as there is no line through it."""
    steps = [step for step, _ in points]
    values = [value if isfinite(value) else nan for _, value in points]
    colour = COLOURS[split]
    if not smooth:
        marker = "o" if split == "valid" or len(points) == 1 else None
        axes.plot(steps, values, color=colour, marker=marker, markersize=3, label=split)
        return
    window = len(points) // 50
    axes.plot(steps, values, color=colour, alpha=0.3, linewidth=0.8)
    middle = steps[window // 2 :][: len(points) - window + 1]
    axes.plot(middle, np.convolve(values, np.full(window, 1 / window), "valid"), color=colour, label=split)
