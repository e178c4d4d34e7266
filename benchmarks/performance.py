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

from regard.bench.report import plot, ratios, tables

DOCUMENT, IMAGES, MEASURED = Path("docs/performance.md"), Path("docs/images"), Path("docs/measurements")
BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"


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
    """The tables of one machine, how far ahead we are, and the picture."""
    found = json.loads(file.read_text(encoding="utf-8"))
    IMAGES.mkdir(parents=True, exist_ok=True)
    plot(found, IMAGES / f"{file.stem}.png")
    ahead = [f"{name} {ratio:.2f}×" for name, ratio in ratios(found).items()]
    said = f"The best of regard beside the best of the others: {', '.join(ahead)}.\n" if ahead else ""
    return f"{tables(found)}\n{said}\n![tokens a second]({IMAGES.name}/{file.stem}.png)\n"


def profile(found: dict) -> str:
    """What a step's time is spent on, and how much faster it would be if all but the products were free."""
    kinds = list(dict.fromkeys(kind for row in found["rows"] for kind in row["shares"]))
    kinds.sort(key=lambda kind: -sum(row["shares"].get(kind, 0.0) for row in found["rows"]))
    heads = ["work", "milliseconds", *kinds, "Python and waiting", "products alone"]
    lines = [f"| {' | '.join(heads)} |", "|" + "---|" * len(heads)]
    for row in found["rows"]:
        shares = [f"{row['shares'].get(kind, 0.0):.0%}" for kind in kinds]
        alone = f"{1 / row['shares']['matrix products']:.2f}×" if row["rest"] >= 0 else "–"  # overlapping kernels
        cells = [row["work"], f"{1000 * row['seconds']:,.0f}", *shares, f"{max(row['rest'], 0):.0%}", alone]
        lines.append(f"| {' | '.join(cells)} |")
    head = f"### Where regard's time goes: {found['machine']}, torch {found['torch']}\n"
    said = "\nThe last column: how much faster it would be if everything but its matrix products were free.\n"
    if any(row["rest"] < 0 for row in found["rows"]):
        said += "More than a whole: kernels that begin before those ahead of them have ended count from there.\n"
    return "\n".join([head, *lines, said])


def first_translation(found: dict) -> str:
    cells = ((row["engine"], row["median"], row["least"], row["most"]) for row in found["rows"])
    rows = [f"| {engine} | {median:.2f} | {least:.2f} to {most:.2f} |" for engine, median, least, most in cells]
    head = "### From a cold start to the first sentence\n\n| engine | seconds | of all tries |\n|---|---|---|"
    return "\n".join([head, *rows]) + f"\n\n{found['tries']} tries each, a demo run, one sentence.\n"


if __name__ == "__main__":
    main()
