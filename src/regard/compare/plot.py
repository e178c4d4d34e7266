"""The plot of a comparison: each variant's score with the spread of its seeds, and score against training FLOPs."""

from collections.abc import Sequence
from pathlib import Path

from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from regard.compare.table import Row
from regard.files.atomic import atomic_writer, report_disk_errors
from regard.metrics.registry import METRICS

EQUAL = 1.05  # budgets that differ by less than this factor would overlap
SIDE_STEP = 1.02


def draw(rows: Sequence[Row], metric: str) -> Figure:
    """Two panels: the table as points, the first row's score as a line; and score against FLOPs."""
    shown = [row for row in rows if row.scores and not row.incomparable]
    figure = Figure(figsize=(12, max(3.6, 1.2 + 0.34 * len(shown))), layout="constrained")
    by_name, by_flops = figure.subplots(1, 2)
    label = METRICS[metric].label
    _by_name(by_name, shown, label)
    _by_flops(by_flops, shown, label)
    return figure


def _colour(number: int) -> tuple[float, ...]:
    return colormaps["tab20"](number % 20)


def _by_name(axes: Axes, rows: Sequence[Row], label: str) -> None:
    for number, row in enumerate(rows):
        colour = _colour(number)
        axes.plot(row.scores, [number] * len(row.scores), ".", color=colour, alpha=0.5)
        axes.errorbar([row.mean or 0.0], [number], xerr=[row.deviation or 0.0], fmt="o", color=colour, capsize=3)
    if rows and rows[0].mean is not None:
        axes.axvline(rows[0].mean, color="grey", linestyle=":", linewidth=1)
    stars = ["*" if row.verdict is not None and row.verdict.significant else "" for row in rows]
    axes.set_yticks(range(len(rows)), [row.name + star for row, star in zip(rows, stars, strict=True)])
    axes.invert_yaxis()
    axes.set_xlabel(label)
    axes.grid(alpha=0.3)


def _by_flops(axes: Axes, rows: Sequence[Row], label: str) -> None:
    """Colours as in the other panel; equal budgets would overlap, so they are drawn side by side."""
    flops = [row.flops for row in rows]
    equal = bool(rows) and max(flops) < EQUAL * min(flops)
    for number, row in enumerate(rows):
        aside = SIDE_STEP ** (number - (len(rows) - 1) / 2) if equal else 1.0
        runs = [outcome.flops * aside for outcome in row.outcomes if outcome.problem is None]
        axes.plot(runs, row.scores, ".", color=_colour(number), alpha=0.5)
        axes.errorbar(
            [row.flops * aside],
            [row.mean or 0.0],
            yerr=[row.deviation or 0.0],
            fmt="o",
            color=_colour(number),
            capsize=3,
        )
    axes.set_xscale("log")
    axes.set_xlabel("training FLOPs" + (" (equal, drawn side by side)" if equal else ""))
    axes.set_ylabel(label)
    axes.grid(alpha=0.3, which="both")
    if rows:
        axes.set_xlim(min(flops) / 2, max(flops) * 2)


def write_figure(figure: Figure, png: Path) -> None:
    """Writes a figure as PNG, atomically."""
    with report_disk_errors(png.name, png.parent, 0), atomic_writer(png) as stream:
        figure.savefig(stream, format="png", dpi=120)
