"""Writes the tables of docs/long.md and its pictures from docs/measurements/long-*.json; no figure is typed by hand."""

import json
import re
from pathlib import Path

from matplotlib.figure import Figure

from regard.look.pattern_figure import draw_lecture

DOCUMENT, IMAGES = Path("docs/long.md"), Path("docs/images")
BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"
SLOPE = (4096, 16384)
"""The lengths between which growth is computed."""
DASHED = ("torch SDPA", "FlexAttention BigBird", "Hugging Face BigBird", "plain Linformer")


def main() -> None:
    results = [
        json.loads(file.read_text(encoding="utf-8")) for file in sorted(Path("docs/measurements").glob("long-*"))
    ]
    text = "\n".join(section(result) for result in results)
    document = DOCUMENT.read_text(encoding="utf-8")
    found = re.compile(f"{re.escape(BEGIN)}.*{re.escape(END)}", re.DOTALL)
    DOCUMENT.write_text(found.sub(lambda _: f"{BEGIN}\n{text}\n{END}", document), encoding="utf-8")
    IMAGES.mkdir(parents=True, exist_ok=True)
    for result in results:
        plot(result)
    draw_lecture(IMAGES / "long-pattern.png")
    print(text)


def section(result: dict) -> str:
    machine, size = result["machine"], result["size"]
    hardware = machine["gpu"] or f"{machine['threads']} threads of a CPU"
    head = f"### {hardware}, torch {machine['torch']}\n\nWidth {size['width']}, {size['heads']} heads, "
    head += f"blocks of {size['block']}, one sequence. Load of the machine afterwards: {result['load']}.\n"
    tables = [table(result, part, which) for part, which in groups(result)]
    return head + "\n".join(tables) + f"\n![time and memory](images/{result['name']}.png)\n"


def groups(result: dict) -> list[tuple[str, str]]:
    return list(dict.fromkeys((row["part"], row["pass"]) for row in result["rows"]))


def table(result: dict, part: str, which: str) -> str:
    """Milliseconds and mebibytes by length, and by how much both grow when the length doubles."""
    lengths = sorted({row["length"] for row in result["rows"] if row["part"] == part})
    methods = by_method(result, part, which)
    title = f"\n**{part}, {which}**: milliseconds / MiB; growth of both per doubling of the length"
    lines = [
        f"{title} from {SLOPE[0]:,} to {SLOPE[1]:,}.\n",
        "| | " + " | ".join(f"{n:,}" for n in lengths) + " | growth |",
    ]
    lines.append("|---" * (len(lengths) + 2) + "|")
    for method, rows in methods.items():
        cells = [cell(rows.get(length)) for length in lengths]
        lines.append(f"| {method} | " + " | ".join(cells) + f" | {growth(rows)} |")
    return "\n".join(lines) + "\n"


def by_method(result: dict, part: str, which: str) -> dict[str, dict[int, dict]]:
    found: dict[str, dict[int, dict]] = {}
    for row in result["rows"]:
        if (row["part"], row["pass"]) == (part, which):
            found.setdefault(row["method"], {})[row["length"]] = row
    return found


def cell(row: dict | None) -> str:
    if row is None:
        return "–"
    return f"{row['ms']:,.4g} / {row['mib']:,.0f}" if "ms" in row else "failed"


def growth(rows: dict[int, dict]) -> str:
    one, other = rows.get(SLOPE[0], {}), rows.get(SLOPE[1], {})
    if "ms" not in one or "ms" not in other:
        return "–"
    return " / ".join(f"{(other[key] / max(one[key], 1e-9)) ** 0.5:.2f}" for key in ("ms", "mib"))


def plot(result: dict) -> None:
    """Time and memory against length, both axes logarithmic."""
    part = result["rows"][0]["part"]
    figure = Figure(figsize=(11, 4.6), layout="constrained")
    for axes, key, label in zip(figure.subplots(1, 2), ("ms", "mib"), ("milliseconds", "MiB"), strict=True):
        for method, rows in by_method(result, part, "forward+backward").items():
            points = [(length, row[key]) for length, row in sorted(rows.items()) if row.get(key)]
            style = "--" if method in DASHED else "-"
            axes.plot(*zip(*points, strict=True), style, marker="o", markersize=3, label=method) if points else None
        axes.set(xscale="log", yscale="log", xlabel="tokens", ylabel=label)
        axes.grid(alpha=0.3)
    figure.axes[0].legend(fontsize=8)
    figure.suptitle(f"One {part}, forward and backward")
    figure.savefig(IMAGES / f"{result['name']}.png", dpi=120)


if __name__ == "__main__":
    main()
