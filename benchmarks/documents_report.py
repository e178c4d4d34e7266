"""Tables of Liu 2018's systems in Markdown, from docs/measurements/documents/*.json; no figure is typed by hand."""

from pathlib import Path

from parts import hardware, read

MEASUREMENTS = Path("docs/measurements/documents")
TITLES = {"aeslc": "AESLC, subjects of messages", "scitldr": "SciTLDR, one sentence for an abstract"}
TITLES |= {"qmsum": "QMSum, minutes of meetings"}
SYSTEMS = ("seq2seq-attention", "T-ED", "T-ED-MoE", "T-D", "T-D-MoE", "T-DMCA", "T-DMCA-MoE")
COLUMNS = ("system", "L", "inputs cut", "parameters", "perplexity", "ROUGE-1", "ROUGE-2", "ROUGE-L")
COLUMNS += ("training FLOPs", "steps", "GiB", "minutes")
HEAD = """## Documents (Liu 2018)

Five systems on three sets of documents: perplexity of the reference and ROUGE of the text generated with a beam of
four, on data that was used for no choice. L is the number of input tokens that are read.
"""
NOTHING = "Not measured yet: `python benchmarks/documents.py train`, then `memory`.\n"


def main() -> None:
    print(sections(MEASUREMENTS))


def sections(folder: Path) -> str:
    """A table for each data set that was measured, and one for memory."""
    parts = read(folder)
    memory = parts.pop("memory", None)
    if not parts and memory is None:
        return f"{HEAD}\n{NOTHING}"
    tables = []
    for name, title in TITLES.items():
        rows = sorted((part for part in parts.values() if part["name"] == name), key=place)
        tables.append(f"### {title}\n\n{systems_table(rows) if rows else NOTHING}")
    tables.append(f"### Memory of one training step\n\n{memory_table(memory) if memory else NOTHING}")
    commands = [f"- `{part['command']}`" for part in [*parts.values(), *([memory] if memory else [])]]
    return "\n".join([HEAD, *tables, "Commands:\n", *commands, ""])


def place(part: dict) -> int:
    return SYSTEMS.index(part["system"])


def systems_table(rows: list[dict]) -> str:
    """Perplexity and ROUGE of each system beside what it cost."""
    lines = ["| " + " | ".join(COLUMNS) + " |", "|---" * len(COLUMNS) + "|"]
    for row in rows:
        scores = row["metrics"]
        cells = [
            row["system"],
            f"{row['input_tokens']:,}",
            f"{scores['cut']:.0%}",
            f"{row['parameters'] / 1e6:.1f} M",
            *(f"{scores[name]:.2f}" for name in ("perplexity", "rouge_1", "rouge_2", "rouge_l")),
            f"{row['flops']:.2e}",
            f"{row['step']:,}",
            "–" if row["gib"] is None else f"{row['gib']:.2f}",
            f"{row['seconds'] / 60:.1f}",
        ]
        lines.append("| " + " | ".join(cells) + " |")
    first = rows[0]
    lines.append(
        f"\n{first['examples']:,} examples ({first['split']}), seed {first['seed']}; "
        f"ROUGE {first['signatures']['rouge_l']}; {hardware(first)}.\n"
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
    lines.append(f"\nGiB beside the weights / milliseconds / FLOPs; one document per step; {hardware(result)}.\n")
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
