"""The style of figures: large type, few colours, one message, readable from the last row."""

import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

ATTENTION, RECURRENT, WINDOWS, OTHER = "#0072B2", "#D55E00", "#009E73", "#7F7F7F"
"""One colour for each family of models, in all figures; distinguishable with red-green blindness."""
MORE = ("#CC79A7", "#E69F00", "#56B4E9", "#000000")
VERDICT_COLOURS = {"holds": "#00734F", "does not hold": "#B03A00", "inconclusive": "#555555"}
SIZE = (12.8, 7.2)
TITLE_WIDTH = 62


@contextmanager
def slide(headline: str, label: str, verdict: str) -> Iterator[Figure]:
    """A figure in 16:9 with the result as its title and the verdict in the corner."""
    style = mpl.rc_context({
        "font.size": 19, "axes.titlesize": 20, "axes.labelsize": 20, "xtick.labelsize": 17, "ytick.labelsize": 17,
        "legend.fontsize": 17, "legend.frameon": False, "lines.linewidth": 3.5, "lines.markersize": 10,
        "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True, "grid.alpha": 0.25,
    })  # fmt: skip
    with style:
        figure = Figure(figsize=SIZE, layout="constrained")
        figure.suptitle(textwrap.fill(headline, TITLE_WIDTH), fontsize=25, fontweight="bold", x=0.012, ha="left")
        yield figure
        figure.supxlabel(f"{label}: {verdict}", x=0.99, ha="right", fontsize=16, color=VERDICT_COLOURS[verdict])


def bars(
    axes: Axes, names: Sequence[str], values: Sequence[float], colours: Sequence[str], text: str = "{:.2f}"
) -> None:
    """Horizontal bars with their values, the first at the top."""
    rows = range(len(names))
    axes.barh(rows, values, color=colours, height=0.62)
    axes.set_yticks(rows, names)
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")
    for row, value in zip(rows, values, strict=True):
        axes.annotate(text.format(value), (value, row), (8, 0), textcoords="offset points", va="center", fontsize=17)
    axes.margins(x=0.16)


def label_line(axes: Axes, x: Sequence[float], y: Sequence[float], text: str, colour: str, shift: float = 0.0) -> None:
    """Labels a line after its last point, in its colour, instead of a legend."""
    axes.annotate(
        text, (x[-1], y[-1]), (12, shift), textcoords="offset points", va="center", color=colour, fontweight="bold",
        annotation_clip=False,
    )  # fmt: skip
