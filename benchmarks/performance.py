"""Writes the tables and pictures of docs/performance.md from docs/measurements; no figure is typed by hand.

regard bench works sizes --out docs/measurements/bench-cpu.json
regard bench works sizes --device cuda --out docs/measurements/bench-gpu.json
python benchmarks/where_time_goes.py
python benchmarks/first_translation.py runs/demo
python benchmarks/performance.py
"""

import json
import re
from pathlib import Path

from matplotlib.figure import Figure

from regard.bench.bench import tables

BAR_INCHES, TITLE_BARS = 0.17, 3
"""The height of a bar, and how many bars a panel's title and axis take."""
DOCUMENT, IMAGES, MEASURED = Path("docs/performance.md"), Path("docs/images"), Path("docs/measurements")
BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"
RENAMED = {
    "matrix products": "matmul",
    "moving and adding": "copies and elementwise",
    "bends": "activations",
    "choosing": "token selection",
}
"""Kinds of operations under the names that earlier profiles were stored with."""


def main() -> None:
    files = [file for name in ("cpu", "gpu") if (file := MEASURED / f"bench-{name}.json").exists()]
    parts = [section(file) for file in files]
    profiles = [file for name in ("cpu", "gpu") if (file := MEASURED / f"profile-{name}.json").exists()]
    parts += [profile(json.loads(file.read_text(encoding="utf-8"))) for file in profiles]
    first = MEASURED / "first-translation.json"
    if first.exists():
        parts.append(first_translation(json.loads(first.read_text(encoding="utf-8"))))
    text = "\n".join(parts)
    document = DOCUMENT.read_text(encoding="utf-8")
    found = re.compile(f"{re.escape(BEGIN)}.*{re.escape(END)}", re.DOTALL)
    DOCUMENT.write_text(found.sub(lambda _: f"{BEGIN}\n{text}\n{END}", document), encoding="utf-8")


def section(file: Path) -> str:
    """The tables of one machine, the speed relative to the best of the others, and the plot."""
    found = json.loads(file.read_text(encoding="utf-8"))
    IMAGES.mkdir(parents=True, exist_ok=True)
    plot(found, IMAGES / f"{file.stem}.png")
    ahead = [f"{name} {ratio:.2f}×" for name, ratio in ratios(found).items()]
    said = f"Best speed of regard relative to the best of the others: {', '.join(ahead)}.\n" if ahead else ""
    return f"{tables(found)}\n{said}\n![tokens a second]({IMAGES.name}/{file.stem}.png)\n"


def ratios(results: dict) -> dict[str, float]:
    """For each workload, regard's best speed divided by the best of the others."""
    ratio: dict[str, float] = {}
    for work in results["works"]:
        rows = [row for row in results["rows"] if row["work"] == work["name"] and "tokens_per_second" in row]
        ours = [row["tokens_per_second"] for row in rows if row["peer"].startswith("regard")]
        theirs = [row["tokens_per_second"] for row in rows if not row["peer"].startswith("regard")]
        if ours and theirs:
            ratio[work["name"]] = max(ours) / max(theirs)
    return ratio


def plot(results: dict, file: Path) -> None:
    """Tokens per second of every program at every workload, regard in colour."""
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


def _of(results: dict, work: str) -> list[dict]:
    return [row for row in results["rows"] if row["work"] == work and "tokens_per_second" in row]


def profile(found: dict) -> str:
    """The share of each kind of operation in a step's time, and the speed-up if all but the matmuls were free."""
    by_row = [{RENAMED.get(kind, kind): share for kind, share in row["shares"].items()} for row in found["rows"]]
    kinds = list(dict.fromkeys(kind for shares in by_row for kind in shares))
    kinds.sort(key=lambda kind: -sum(shares.get(kind, 0.0) for shares in by_row))
    heads = ["work", "milliseconds", *kinds, "Python and waiting", "matmul alone"]
    lines = [f"| {' | '.join(heads)} |", "|" + "---|" * len(heads)]
    for row, shares in zip(found["rows"], by_row, strict=True):
        each = [f"{shares.get(kind, 0.0):.0%}" for kind in kinds]
        alone = f"{1 / shares['matmul']:.2f}×" if row["rest"] >= 0 else "–"  # overlapping kernels
        cells = [row["work"], f"{1000 * row['seconds']:,.0f}", *each, f"{max(row['rest'], 0):.0%}", alone]
        lines.append(f"| {' | '.join(cells)} |")
    head = f"### Where regard's time goes: {found['machine']}, torch {found['torch']}\n"
    said = "\nLast column: the speed-up if everything but the matmuls took no time.\n"
    if any(row["rest"] < 0 for row in found["rows"]):
        said += "Sums above 100 %: kernels that overlap are counted from their own start.\n"
    return "\n".join([head, *lines, said])


def first_translation(found: dict) -> str:
    cells = ((row["engine"], row["median"], row["least"], row["most"]) for row in found["rows"])
    rows = [f"| {engine} | {median:.2f} | {least:.2f} to {most:.2f} |" for engine, median, least, most in cells]
    head = "### From a cold start to the first sentence\n\n| engine | seconds | of all tries |\n|---|---|---|"
    return "\n".join([head, *rows]) + f"\n\n{found['tries']} tries each, a demo run, one sentence.\n"


if __name__ == "__main__":
    main()
