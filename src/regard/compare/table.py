"""The table of a comparison: for the terminal, as Markdown, as LaTeX and as a plot."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, stdev

from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from rich.table import Table

from regard.compare.queue import Outcome
from regard.compare.significance import LEVEL, Verdict
from regard.files.atomic import atomic_writer, report_disk_errors
from regard.metrics.registry import METRICS

MOST_DIGITS = 6
"""The most decimals of a score."""
EQUAL = 1.05  # budgets that differ by less than this factor would overlap
SIDE_STEP = 1.02


@dataclass(frozen=True)
class Row:
    """One variant: its outcomes by seed, and how they compare with those of the first row."""

    name: str
    outcomes: Sequence[Outcome]
    metric: str
    verdict: Verdict | None
    learning_rate: float
    why_incomparable: str | None = None
    """Why its scores have no common unit with those of the other rows; they then stand in brackets."""
    more_notes: Sequence[str] = ()

    @property
    def successful(self) -> list[Outcome]:
        return [outcome for outcome in self.outcomes if outcome.problem is None]

    @property
    def scores(self) -> list[float]:
        return [outcome.metrics[self.metric] for outcome in self.successful]

    @property
    def params(self) -> int:
        return round(self._mean_cost([outcome.params for outcome in self.successful]))

    @property
    def flops(self) -> float:
        return self._mean_cost([outcome.flops for outcome in self.successful])

    @property
    def minutes(self) -> float:
        return self._mean_cost([outcome.seconds / 60 for outcome in self.successful])

    def _mean_cost(self, costs: Sequence[float]) -> float:
        return mean(costs or [0.0])

    @property
    def incomparable(self) -> bool:
        return self.why_incomparable is not None

    @property
    def notes(self) -> list[str]:
        problems = [outcome.problem for outcome in self.outcomes if outcome.problem is not None]
        failed = [f"failed with {len(problems)} of {len(self.outcomes)} seeds: {problems[0]}"] if problems else []
        apart = [f"not comparable: {self.why_incomparable}"] if self.why_incomparable else []
        return [*failed, *apart, *self.more_notes]

    @property
    def mean(self) -> float | None:
        """The mean score of the seeds."""
        return mean(self.scores) if self.scores else None

    @property
    def deviation(self) -> float | None:
        """The deviation of the seeds' scores (n − 1); None where there is one alone."""
        return stdev(self.scores) if len(self.scores) > 1 else None

    @property
    def starred(self) -> bool:
        """Whether the difference from the first row is significant."""
        return self.verdict is not None and self.verdict.significant

    def score(self, metric: str, digits: int) -> str:
        """Mean ± deviation with so many decimals, and a star where the difference from the first row is significant."""
        if self.mean is None:
            return "–"
        spread = "" if self.deviation is None else f" ± {shown(self.deviation, metric, digits)}"
        text = f"{shown(self.mean, metric, digits)}{spread}{'*' if self.starred else ''}"
        return f"({text})" if self.incomparable else text


def shown(value: float, metric: str, digits: int) -> str:
    return f"{value * (100 if METRICS[metric].percent else 1):.{digits}f}"


def digits_of(rows: Sequence[Row], metric: str) -> int:
    """Decimals of a table: the metric's usual number, or more where a significant difference would not show."""
    usual = METRICS[metric].digits
    starred = [row.mean for row in rows if row.starred and row.mean is not None]
    first = rows[0].mean if rows else None
    if first is None:
        return usual
    enough = (
        digits
        for digits in range(usual, MOST_DIGITS)
        if all(shown(mean, metric, digits) != shown(first, metric, digits) for mean in starred)
    )
    return next(enough, MOST_DIGITS)


def heads(metric: str) -> list[str]:
    return ["system", METRICS[metric].heading, "p", "parameters", "training FLOPs", "minutes"]


def cells(row: Row, metric: str, digits: int) -> list[str]:
    """A row as text; nothing is shown for what is not known."""
    p = "" if row.verdict is None else "< 0.001" if row.verdict.p_value < 0.001 else f"{row.verdict.p_value:.3f}"
    cost = [f"{row.params:,}", f"{row.flops:.3g}", f"{row.minutes:.1f}"] if row.scores else ["–", "–", "–"]
    return [row.name, row.score(metric, digits), p, *cost]


def notes_of(rows: Sequence[Row]) -> list[str]:
    """What stands below the table: which rows failed and why, which spent too much."""
    return [f"{row.name}: {note}" for row in rows for note in row.notes]


def terminal(rows: Sequence[Row], metric: str) -> Table:
    table = Table()
    for number, head in enumerate(heads(metric)):
        table.add_column(head, justify="right" if number else "left", overflow="fold")
    digits = digits_of(rows, metric)
    for row in rows:
        table.add_row(*cells(row, metric, digits), style=None if row.scores else "red")
    return table


def markdown(rows: Sequence[Row], metric: str, caption: str) -> str:
    digits = digits_of(rows, metric)
    lines = [heads(metric), ["---", *["--:"] * 5]]
    lines += [[cell.replace("|", "\\|") for cell in cells(row, metric, digits)] for row in rows]
    below = "".join(f"- {note}\n" for note in notes_of(rows))
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + f"\n\n{caption}\n" + (below and f"\n{below}")


def latex(rows: Sequence[Row], metric: str, caption: str) -> str:
    """The table as LaTeX, with booktabs; caption and notes as comments."""
    digits = digits_of(rows, metric)
    table = (heads(metric), *(cells(row, metric, digits) for row in rows))
    lines = [" & ".join(map(escape, line)) + r" \\" for line in table]
    return "\n".join([
        r"% \usepackage{booktabs}", r"\begin{tabular}{lrrrrr}", r"\toprule", lines[0], r"\midrule", *lines[1:],
        r"\bottomrule", r"\end{tabular}", *(f"% {line}" for line in (caption, *notes_of(rows))), "",
    ])  # fmt: skip


def escape(text: str) -> str:
    """Text that LaTeX takes as it is."""
    special = {"\\": r"\textbackslash{}", "±": r"$\pm$", "–": "--", "<": "$<$", ">": "$>$", "~": r"\textasciitilde{}"}
    special |= {"^": r"\textasciicircum{}", "…": r"\dots{}", "*": "$^*$", **{mark: f"\\{mark}" for mark in "&%$#_{}"}}
    return "".join(special.get(mark, mark) for mark in text)


def caption_of(rows: Sequence[Row], split: str, seeds: int, budget: str) -> str:
    """What one must know to read the table."""
    spread = f"mean ± deviation of {seeds} seeds" if seeds > 1 else "one seed"
    sentence = f"{split} data, {spread}; {budget}."
    if all(row.verdict is None for row in rows):
        return sentence
    star = f"* differs from {rows[0].name}: p < {LEVEL} in a paired test over the outputs of all seeds"
    return f"{sentence} {star}" + (", and every seed agrees." if seeds > 1 else ".")


def draw(rows: Sequence[Row], metric: str) -> Figure:
    """Two panels: the table as points, the first row's score as a line; and score against FLOPs."""
    drawn = [row for row in rows if row.scores and not row.incomparable]
    figure = Figure(figsize=(12, max(3.6, 1.2 + 0.34 * len(drawn))), layout="constrained")
    by_name, by_flops = figure.subplots(1, 2)
    label = METRICS[metric].label
    _by_name(by_name, drawn, label)
    _by_flops(by_flops, drawn, label)
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
    axes.set_yticks(range(len(rows)), [row.name + "*" * row.starred for row in rows])
    axes.invert_yaxis()
    axes.set_xlabel(label)
    axes.grid(alpha=0.3)


def _by_flops(axes: Axes, rows: Sequence[Row], label: str) -> None:
    """Colours as in the other panel; equal budgets would overlap, so they are drawn side by side."""
    flops = [row.flops for row in rows]
    equal = bool(rows) and max(flops) < EQUAL * min(flops)
    for number, row in enumerate(rows):
        aside = SIDE_STEP ** (number - (len(rows) - 1) / 2) if equal else 1.0
        runs = [outcome.flops * aside for outcome in row.successful]
        axes.plot(runs, row.scores, ".", color=_colour(number), alpha=0.5)
        at, score, deviation = row.flops * aside, row.mean or 0.0, row.deviation or 0.0
        axes.errorbar([at], [score], yerr=[deviation], fmt="o", color=_colour(number), capsize=3)
    axes.set_xscale("log")
    axes.set_xlabel("training FLOPs" + (" (equal, drawn side by side)" if equal else ""))
    axes.set_ylabel(label)
    axes.grid(alpha=0.3, which="both")
    if rows:
        axes.set_xlim(min(flops) / 2, max(flops) * 2)


def write_figure(figure: Figure, png: Path) -> None:
    with report_disk_errors(png.name, png.parent, 0), atomic_writer(png) as stream:
        figure.savefig(stream, format="png", dpi=120)
