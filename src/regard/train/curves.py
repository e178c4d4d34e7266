"""The curves of a run as a picture: losses with the best validation marked, scores, learning rate, speed.

The losses of training and validation are in one unit, cross-entropy without smoothing; where training minimises
something else, that has a panel of its own. Dashed lines are what a trivial answer scores.
"""

from collections.abc import Mapping, Sequence
from math import isfinite, nan
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from regard.files.atomic import atomic_writer, report_disk_errors
from regard.metrics.baseline import Baseline
from regard.metrics.registry import METRICS
from regard.progress.display import duration
from regard.train.log import read_metrics
from regard.train.trend import shown_value

if TYPE_CHECKING:  # runs that are only used draw nothing, and need not wait for it
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SMALL = {"lr": "learning rate", "objective": "objective", "gradient_norm": "gradient norm"}
"""Panels in the lower row, with their labels; the objective where it is not the loss."""
TRAIN, VALID, BASE, GREY = "#0072B2", "#D55E00", "#009E73", "0.45"
"""Okabe and Ito's colours, which colour-blind people can tell apart."""
SMOOTHED = 20
"""Points: a longer curve is drawn faintly, with its running mean on top."""
MOST_SCORES = 1
"""Panels for scores beside the loss."""
HEADROOM = 1.15
"""How far above the validation's highest loss, or the curve's later part, the panel of the loss reaches."""

Line = dict[str, Any]
Lines = Sequence[Line]


def curves(
    metrics_file: Path, png: Path, title: str = "", metric: str = "loss", baselines: Sequence[Baseline] = ()
) -> None:
    """Draws the metrics of a run, all of it, into a PNG file that takes the place of an older one."""
    figure = draw(read_metrics(metrics_file), title, metric, baselines)
    with report_disk_errors(png.name, png.parent, 0), atomic_writer(png) as stream:
        figure.savefig(stream, format="png", dpi=120)


def draw(lines: Lines, title: str = "", metric: str = "loss", baselines: Sequence[Baseline] = ()) -> "Figure":
    """A figure: large panels for the loss and for scores, a row of small ones below."""
    from matplotlib.figure import Figure

    valid = _of(lines, "valid")
    scores = _scores(valid, metric)
    small = [name for name in SMALL if any(name in line for line in lines)]
    columns = 1 + len(scores)
    figure = Figure(figsize=(4.5 + 3.7 * columns, 6.4 if small else 4.4), layout="constrained")
    grid = figure.add_gridspec(2 if small else 1, 1, height_ratios=[2.6, 1] if small else [1])
    upper = grid[0].subgridspec(1, columns, width_ratios=[1.6, *[1] * len(scores)])
    loss = figure.add_subplot(upper[0])
    _loss_panel(loss, lines, valid, metric, baselines)
    for column, name in enumerate(scores, start=1):
        _score_panel(figure.add_subplot(upper[column]), name, valid, baselines)
    if small:
        lower = grid[1].subgridspec(1, len(small))
        for column, name in enumerate(small):
            _small_panel(figure.add_subplot(lower[column]), name, _of(lines, "train"))
    for axes in figure.axes:
        _style_axes(axes, lines, named=axes is loss)
    _add_time_axis(loss, lines)
    if title:
        figure.suptitle(title, fontsize=13, fontweight="bold")
    return figure


def _scores(valid: Lines, metric: str) -> list[str]:
    """The scores with a panel of their own: the one that chooses the best checkpoint first."""
    names = dict.fromkeys(name for line in valid for name in line if name in METRICS and METRICS[name].is_quality)
    ordered = sorted((name for name in names if name not in ("loss", "perplexity")), key=lambda name: name != metric)
    return ordered[:MOST_SCORES]


def _loss_panel(axes: "Axes", lines: Lines, valid: Lines, metric: str, baselines: Sequence[Baseline]) -> None:
    train = _of(lines, "train")
    _training_curve(axes, *_points(train, "loss"), label="training")
    _validations(axes, "loss", valid, metric)
    _baselines(axes, "loss", baselines)
    axes.set_ylabel("loss (nats)")
    _limit(axes, train, valid)
    if axes.get_legend_handles_labels()[1]:
        axes.legend(fontsize=9, framealpha=0.9)


def _score_panel(axes: "Axes", name: str, valid: Lines, baselines: Sequence[Baseline]) -> None:
    scale = 100 if METRICS[name].percent else 1
    _validations(axes, name, valid, name, scale)
    _baselines(axes, name, baselines, scale)
    axes.set_ylabel(METRICS[name].heading)
    axes.legend(fontsize=9, framealpha=0.9)


def _small_panel(axes: "Axes", name: str, train: Lines) -> None:
    steps, values = _points(train, name)
    if name == "lr":
        axes.plot(steps, values, color=TRAIN, marker="o" if len(steps) == 1 else None, markersize=4)
    else:
        _training_curve(axes, steps, values)
    axes.set_ylabel(SMALL[name])
    axes.ticklabel_format(axis="y", style="sci", scilimits=(-2, 4))


def _training_curve(axes: "Axes", steps: Sequence[int], values: Sequence[float], label: str | None = None) -> None:
    """Faint as it is, with its running mean on top where it is long; a single point gets a dot."""
    if len(steps) <= SMOOTHED:
        axes.plot(steps, values, color=TRAIN, marker="o" if len(steps) == 1 else None, markersize=4, label=label)
        return
    axes.plot(steps, values, color=TRAIN, alpha=0.25, linewidth=0.8)
    axes.plot(steps, running_mean(values, max(5, len(values) // 40)), color=TRAIN, linewidth=1.8, label=label)


def running_mean(values: Sequence[float], window: int) -> list[float]:
    """The mean of the values around each, non-finite ones left out."""
    finite = np.isfinite(values)
    box = np.ones(window)
    sums = np.convolve(np.where(finite, values, 0.0), box, "same")
    counts = np.convolve(finite, box, "same")
    return np.where(counts > 0, sums / np.maximum(counts, 1), nan).tolist()


def _validations(axes: "Axes", name: str, valid: Lines, metric: str, scale: float = 1) -> None:
    """Validations as dots on a line, the best with a ring; the mean of checkpoints as a diamond."""
    single = [line for line in valid if "averaged" not in line]
    steps, values = _points(single, name, scale)
    if not steps:
        return
    axes.plot(steps, values, color=VALID, marker="o", markersize=3.5, linewidth=1.5, label="validation")
    for line in valid:
        if "averaged" in line and name in line:
            label = f"mean of {line['averaged']} checkpoints"
            axes.plot([line["step"]], [scale * line[name]], color=VALID, marker="D", linestyle="", label=label)
    chosen = metric if any(isfinite(line.get(metric, nan)) for line in single) else name
    measured = [line for line in single if isfinite(line.get(chosen, nan)) and isfinite(line.get(name, nan))]
    if measured:
        sign = -1 if METRICS[chosen].higher_is_better else 1
        best = min(measured, key=lambda line: sign * line[chosen])
        axes.plot(
            [best["step"]], [scale * best[name]], color=VALID, marker="o", markersize=11, markerfacecolor="none",
            markeredgewidth=1.8, linestyle="",
            label=f"{'best' if chosen == name else 'kept'}: {shown_value(name, best[name])} at step {best['step']:,}",
        )  # fmt: skip


def _baselines(axes: "Axes", name: str, baselines: Sequence[Baseline], scale: float = 1) -> None:
    for baseline in baselines:
        if name in baseline.scores:
            value = baseline.scores[name]
            label = f"trivial: {shown_value(name, value)} ({baseline.answer})"
            axes.axhline(scale * value, color=BASE, linestyle="--", linewidth=1.3, label=label)


def _limit(axes: "Axes", train: Lines, valid: Lines) -> None:
    """Cuts the steep beginning off where it would press all that follows flat."""
    _, losses = _points(train, "loss")
    _, measured = _points(valid, "loss")
    later = [loss for loss in (*losses[len(losses) // 10 :], *measured) if isfinite(loss)]
    early = [loss for loss in losses if isfinite(loss)]
    if len(losses) > SMOOTHED and later and max(early) > 2 * max(later):
        low = min(later)
        axes.set_ylim(low - 0.05 * (max(later) - low), low + HEADROOM * (max(later) - low) + 1e-9)


def _style_axes(axes: "Axes", lines: Lines, named: bool) -> None:
    """What all panels share: all steps of the run below, a light grid, marks where the run resumed."""
    for step in sorted({line["step"] for line in lines if line.get("event") == "resume" and line["step"]}):
        axes.axvline(step, color=GREY, linestyle=":", linewidth=1)
        if named:
            axes.annotate("resumed", (step, 1), xycoords=("data", "axes fraction"), xytext=(2, -2), color=GREY,
                          textcoords="offset points", fontsize=8, rotation=90, va="top")  # fmt: skip
    last = max((line["step"] for line in lines), default=0)
    if last:
        axes.set_xlim(-0.02 * last, 1.02 * last)
    axes.set_xlabel("step")
    axes.grid(alpha=0.25)
    axes.spines[["right", "top"]].set_visible(False)
    axes.xaxis.set_major_locator(_whole_steps())
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")


def _whole_steps() -> Any:  # noqa: ANN401
    from matplotlib.ticker import MaxNLocator

    return MaxNLocator(6, integer=True)


def _add_time_axis(axes: "Axes", lines: Lines) -> None:
    """Epochs and times above the panel, at a few of its steps."""
    timed = [line for line in lines if line.get("split") and "seconds" in line]
    if not timed or timed[-1]["step"] == timed[0]["step"]:
        return
    steps = sorted({line["step"]: line for line in timed}.items())
    low, high = steps[0][0], steps[-1][0]
    targets = np.linspace(low, high, 4)[1:]
    near: list[tuple[int, Mapping[str, Any]]] = [min(steps, key=lambda item: abs(item[0] - at)) for at in targets]
    above = axes.secondary_xaxis("top")
    above.set_xticks([step for step, _ in near], [_moment(line) for _, line in near], fontsize=8, color=GREY)
    above.tick_params(length=2, color=GREY)


def _moment(line: Mapping[str, Any]) -> str:
    epoch = f"epoch {line['epoch']:.1f}, " if "epoch" in line else ""
    return f"{epoch}{duration(line['seconds'])}"


def _points(lines: Lines, name: str, scale: float = 1) -> tuple[list[int], list[float]]:
    """Steps and values; a gap where a value is not finite."""
    present = [line for line in lines if name in line]
    return [line["step"] for line in present], [scale * line[name] if isfinite(line[name]) else nan for line in present]


def _of(lines: Lines, split: str) -> list[Line]:
    return [line for line in lines if line.get("split") == split]
