"""The result of a scaling ladder as text and as log-log plots."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from regard.compare.ladder import Rung, Scaling
from regard.compare.laws import PowerLaw
from regard.compare.queue import turn
from regard.compare.table import write_figure
from regard.files.atomic import write_atomic
from regard.files.strict_json import to_json

LAWS = {"by_params": ("parameters", "N"), "by_tokens": ("tokens", "D"), "by_compute": ("training FLOPs", "C")}


def write_scaling(scaling: Scaling, folder: Path) -> None:
    """scaling.md, scaling.json and scaling.png."""
    texts = {"scaling.md": markdown(scaling), "scaling.json": to_json(scaling.tree(), indent=1) + "\n"}
    with turn(folder / "locks" / "table"):
        for name, text in texts.items():
            write_atomic(folder / name, text)
        write_figure(draw(scaling), folder / "scaling.png")


def sentences(scaling: Scaling) -> list[str]:
    """The laws and the forecast, one line each."""
    lines = []
    for name, (of, letter) in LAWS.items():
        law = getattr(scaling, name)
        low, high = law.exponent_interval()
        lines.append(
            f"loss against {of}: L = {_floor(law)} + {law.factors[0]:.3g}·{letter}^−{law.exponents[0]:.3f}, "
            f"95 % of resamples between {low:.3f} and {high:.3f} ({len(law.residuals)} runs)"
        )
    joint = scaling.joint
    lines.append(
        f"both together: L = {_floor(joint)} + {joint.factors[0]:.3g}·N^−{joint.exponents[0]:.3f} + "
        f"{joint.factors[1]:.3g}·D^−{joint.exponents[1]:.3f} ({len(joint.residuals)} runs)"
    )
    loss, low, high = scaling.forecast
    run, verdict = scaling.checked, "holds" if scaling.holds else "does not hold"
    lines.append(
        f"forecast for {run.params:,} parameters and {run.tokens:,.0f} tokens: {loss:.4f} (between {low:.4f} and "
        f"{high:.4f}); measured: {run.loss:.4f}; the forecast {verdict}"
    )
    return lines + [f"failed: {problem}" for problem in scaling.problems]


def _floor(law: PowerLaw) -> str:
    """E as a person would write it: what is nothing beside any loss is 0."""
    return f"{law.floor:.3g}" if law.floor > 1e-4 else "0"


def markdown(scaling: Scaling) -> str:
    """The runs as a table, the compute-optimal ones marked, and what follows from them."""
    rows = ["| size | parameters | tokens | training FLOPs | validation loss | minutes |", "|---|--:|--:|--:|--:|--:|"]
    for number, rung in enumerate(scaling.rungs):
        mark = " (optimal)" if number in scaling.optimal else ""
        rows.append(
            f"| {rung.size}{mark} | {rung.params:,} | {rung.tokens:,.0f} | {rung.flops:.3g} | {rung.loss:.4f} "
            f"| {rung.minutes:.1f} |"
        )
    return "\n".join([*rows, "", *(f"- {line}" for line in sentences(scaling)), ""])


def draw(scaling: Scaling) -> Figure:
    """Loss against parameters, tokens and compute; laws as lines, the forecast as a cross and its test as a star."""
    figure = Figure(figsize=(15, 4.6), layout="constrained")
    panels = figure.subplots(1, 3)
    optimal = [scaling.rungs[number] for number in scaling.optimal]
    _panel(panels[0], scaling, "params", "tokens", scaling.by_params)
    _panel(panels[1], scaling, "tokens", "params", scaling.by_tokens)
    _panel(panels[2], scaling, "flops", "params", scaling.by_compute)
    panels[2].plot([rung.flops for rung in optimal], [rung.loss for rung in optimal], "o", mfc="none", mec="black",
                   markersize=11, label="compute-optimal")  # fmt: skip
    for axes, (name, _) in zip(panels, LAWS.values(), strict=True):
        axes.set_xlabel(name)
        axes.set_ylabel("validation loss")
        axes.legend(fontsize="small")
    return figure


def _panel(axes: Axes, scaling: Scaling, along: str, by: str, law: PowerLaw) -> None:
    """One law: a curve of points for each size or amount, the law's line, and the forecast."""
    groups: dict[float, list[Rung]] = {}
    for rung in scaling.rungs:
        groups.setdefault(float(f"{getattr(rung, by):.2g}"), []).append(rung)
    for number, (value, rungs) in enumerate(sorted(groups.items())):
        colour = colormaps["viridis"](number / max(1, len(groups) - 1))
        points = sorted((getattr(rung, along), rung.loss) for rung in rungs)
        label = f"{value:,.0f} {'tokens' if by == 'tokens' else 'parameters'}"
        axes.plot(*zip(*points, strict=True), "o-", color=colour, alpha=0.7, linewidth=0.8, label=label)
    _line(axes, law, [getattr(rung, along) for rung in (*scaling.rungs, scaling.checked)])
    loss, low, high = scaling.forecast
    at = getattr(scaling.checked, along)
    axes.errorbar([at], [loss], yerr=[[max(0.0, loss - low)], [max(0.0, high - loss)]], fmt="x", color="tab:red",
                  capsize=4, label="forecast")  # fmt: skip
    axes.plot([at], [scaling.checked.loss], "*", color="tab:orange", markersize=12, label="measured")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.grid(alpha=0.3, which="both")


def _line(axes: Axes, law: PowerLaw, values: Sequence[float]) -> None:
    x = np.geomspace(min(values), max(values), 100)
    label = f"α = {law.exponents[0]:.2f}, E = {_floor(law)}"
    axes.plot(x, [law(float(at)) for at in x], "k--", linewidth=1.2, label=label)
