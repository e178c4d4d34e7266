"""The report of a benchmark: a table per workload, and a plot of all."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

Tree = Mapping[str, Any]
BAR_INCHES, TITLE_BARS = 0.17, 3
"""The height of a bar, and how many bars a panel's title and axis take."""


def tables(results: Tree) -> str:
    """All results as Markdown, the fastest program of each workload first."""
    works = {work["name"]: work for work in results["works"]}
    parts = [heading(results)]
    for name, work in works.items():
        rows = [row for row in results["rows"] if row["work"] == name]
        parts.append(f"**{work['title']}**\n\n{table(rows)}")
    return "\n\n".join(parts) + "\n"


def heading(results: Tree) -> str:
    """The machine and its peak rates."""
    machine, limits = results["machine"], results["ceilings"]
    peaks = [f"{name} matmul {_rate(limits[name], 'FLOP/s')}" for name in ("float32", "bfloat16")]
    peaks.append(f"copy {_rate(limits['bandwidth'], 'B/s')}")
    quick = " Measured with `--quick`: these numbers mean nothing." if results["quick"] else ""
    load = "" if results["load"] is None else f" Load of the machine afterwards: {results['load']:.1f}."
    return f"### {machine['name']}, {machine['cores']} cores\n\nCeilings: {'; '.join(peaks)}.{load}{quick}"


def table(rows: Sequence[Tree]) -> str:
    """One workload: tokens per second with the spread of the rounds, share of the peak, memory."""
    lines = ["| | format | threads | tokens/s | spread | GFLOP/s | of ceiling | memory MiB |", "|---" * 8 + "|"]
    for row in sorted(rows, key=lambda row: -row.get("tokens_per_second", 0.0)):
        name = f"**{row['peer']}**" if row["peer"].startswith("regard") else row["peer"]
        front = f"| {name} | {row.get('precision', '')} | {row.get('threads', '')} |"
        if "error" in row:
            lines.append(f"{front} {row['error']} | | | | |")
            continue
        share = "" if row["of_ceiling"] is None else f"{row['of_ceiling']:.0%}"
        memory = "" if row["memory_mib"] is None else f"{row['memory_mib']:,.0f}"
        rate = f"{row['flops_per_second'] / 1e9:,.1f}"
        speed = f"{row['tokens_per_second']:,.0f}"
        lines.append(f"{front} {speed} | ± {spread(row):.0%} | {rate} | {share} | {memory} |")
    return "\n".join(lines)


def spread(row: Tree) -> float:
    """Half the distance between the fastest and the slowest round, beside the median."""
    seconds = row["seconds"]
    return (seconds["most"] - seconds["least"]) / 2 / seconds["median"]


def ratios(results: Tree) -> dict[str, float]:
    """For each workload, regard's best speed divided by the best of the others."""
    ratio: dict[str, float] = {}
    for work in results["works"]:
        rows = [row for row in results["rows"] if row["work"] == work["name"] and "tokens_per_second" in row]
        ours = [row["tokens_per_second"] for row in rows if row["peer"].startswith("regard")]
        theirs = [row["tokens_per_second"] for row in rows if not row["peer"].startswith("regard")]
        if ours and theirs:
            ratio[work["name"]] = max(ours) / max(theirs)
    return ratio


def plot(results: Tree, file: Path) -> None:
    """Tokens per second of every program at every workload, regard in colour."""
    from matplotlib.figure import Figure

    by_work = {work["title"]: _of(results, work["name"]) for work in results["works"] if _of(results, work["name"])}
    heights = [len(rows) + TITLE_BARS for rows in by_work.values()]
    figure = Figure(figsize=(8, 0.5 + BAR_INCHES * sum(heights)), layout="constrained")
    panels = figure.subplots(len(by_work), 1, squeeze=False, height_ratios=heights).flat
    for axes, (title, rows) in zip(panels, by_work.items(), strict=True):
        rows.sort(key=lambda row: row["tokens_per_second"])
        names = [f"{row['peer']}, {row['precision']}, {row['threads']}" for row in rows]
        colours = ["tab:blue" if row["peer"].startswith("regard") else "lightgrey" for row in rows]
        axes.barh(names, [row["tokens_per_second"] for row in rows], color=colours)
        axes.set_title(title, fontsize=9, loc="left")
        axes.tick_params(labelsize=7)
    figure.savefig(file, dpi=120)


def _of(results: Tree, work: str) -> list[Tree]:
    return [row for row in results["rows"] if row["work"] == work and "tokens_per_second" in row]


def _rate(value: float | str, unit: str) -> str:
    if isinstance(value, str):
        return value
    size, prefix = (1e12, "T") if value >= 1e12 else (1e9, "G")
    return f"{value / size:,.1f} {prefix}{unit}"
