"""Tables of Liu 2018's systems in Markdown, from docs/measurements/documents-*.json; no figure is typed by hand."""

import json
from pathlib import Path

MEASUREMENTS = Path("docs/measurements")
TITLES = {"aeslc": "AESLC, subjects of messages", "scitldr": "SciTLDR, one sentence for an abstract"}
TITLES |= {"qmsum": "QMSum, minutes of meetings"}
COLUMNS = ("system", "L", "inputs cut", "parameters", "perplexity", "ROUGE-1", "ROUGE-2", "ROUGE-L")
COLUMNS += ("training FLOPs", "GiB", "minutes")


def main() -> None:
    print(sections(MEASUREMENTS))


def sections(folder: Path) -> str:
    """A section for each data set that was measured, and one for memory."""
    parts = []
    for name, title in TITLES.items():
        file = folder / f"documents-{name}.json"
        if file.exists():
            parts.append(f"### {title}\n\n{systems_table(json.loads(file.read_text(encoding='utf-8')))}")
    file = folder / "documents-memory.json"
    if file.exists():
        parts.append(f"### Memory of one training step\n\n{memory_table(json.loads(file.read_text(encoding='utf-8')))}")
    return "\n".join(parts)


def systems_table(result: dict) -> str:
    """Perplexity and ROUGE of each system beside what it cost."""
    lines = ["| " + " | ".join(COLUMNS) + " |", "|---" * len(COLUMNS) + "|"]
    for row in result["rows"]:
        scores = row["metrics"]
        cells = [
            row["system"],
            f"{row['input_tokens']:,}",
            f"{scores['cut']:.0%}",
            f"{row['parameters'] / 1e6:.1f} M",
            *(f"{scores[name]:.2f}" for name in ("perplexity", "rouge_1", "rouge_2", "rouge_l")),
            f"{row['flops']:.2e}",
            "–" if row["gib"] is None else f"{row['gib']:.2f}",
            f"{row['seconds'] / 60:.1f}",
        ]
        lines.append("| " + " | ".join(cells) + " |")
    first = result["rows"][0]
    where = result["machine"]["gpu"] or "CPU"
    lines.append(
        f"\n{first['examples']:,} examples ({first['split']}), seed {result['seed']}; "
        f"ROUGE {first['signatures']['rouge_l']}; {where}, torch {result['machine']['torch']}.\n"
    )
    return "\n".join(lines)


def memory_table(result: dict) -> str:
    """GiB and milliseconds of a training step by the input's length."""
    lengths = sorted({row["input_tokens"] for row in result["rows"]})
    kinds = list(dict.fromkeys(row["attention"] for row in result["rows"]))
    lines = ["| attention | " + " | ".join(f"L = {length:,}" for length in lengths) + " |"]
    lines.append("|---" * (len(lengths) + 1) + "|")
    for kind in kinds:
        found = {row["input_tokens"]: row for row in result["rows"] if row["attention"] == kind}
        lines.append(f"| {kind} | " + " | ".join(memory_cell(found.get(length)) for length in lengths) + " |")
    where = result["machine"]["gpu"] or "CPU"
    lines.append(f"\nGiB beside the weights / milliseconds / FLOPs; one document a step, {where}.\n")
    return "\n".join(lines)


def memory_cell(row: dict | None) -> str:
    if row is None:
        return "–"
    if "error" in row:
        return "out of memory"
    gib = "–" if row["gib"] is None else f"{row['gib']:.2f}"
    return f"{gib} / {row['ms']:,.0f} / {row['flops']:.2e}"


if __name__ == "__main__":
    main()
