"""The table of classifiers over long inputs in docs/long.md, from docs/measurements/long_tasks/*.json."""

from pathlib import Path
from statistics import mean
from typing import Any

from parts import hardware, read, replace_between

DOCUMENT = Path("docs/long.md")
BEGIN, END = "<!-- tasks: begin -->", "<!-- tasks: end -->"
TITLES = {"imdb": "IMDB, whole reviews up to 4,096 tokens", "listops": "ListOps, up to 2,815 tokens, ten classes"}
KINDS = ("full", "window", "bigbird", "linformer")
COLUMNS = ("attention", "accuracy, test", "valid", "parameters", "GiB", "tokens/s", "tokens/s, longest")
NOTHING = "Not measured yet: `python benchmarks/long_tasks.py train TASK KIND`, then `speed` and `report`."


def write_table(measurements: Path, document: Path = DOCUMENT) -> str:
    """Writes the tables into the document and returns their text."""
    text = tables(measurements)
    replace_between(document, BEGIN, END, text)
    return text


def tables(measurements: Path) -> str:
    """A table and its commands for each task; a sentence where nothing was measured."""
    parts = read(measurements)
    speed = parts.pop("speed", None)
    if not parts and speed is None:
        return NOTHING
    found = [task_table(task, parts, speed) for task in TITLES]
    return "\n".join([*found, *commands(parts, speed)])


def task_table(task: str, parts: dict[str, dict], speed: dict | None) -> str:
    """Accuracy, speed and memory of each kind of attention."""
    trained = {
        kind: [part for part in parts.values() if (part["task"], part["kind"]) == (task, kind)] for kind in KINDS
    }
    rows = {(row["kind"], row["batches"]): row for row in (speed or {"rows": []})["rows"] if row["task"] == task}
    lines = [f"**{TITLES[task]}**\n", "| " + " | ".join(COLUMNS) + " |", "|---" * len(COLUMNS) + "|"]
    for kind in KINDS:
        cells = [*scores(trained[kind]), *(pace(rows.get((kind, which))) for which in ("usual", "longest"))]
        lines.append(f"| {kind} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n\n" + remarks(trained, rows) + "\n"


def scores(parts: list[dict[str, Any]]) -> list[str]:
    if not parts:
        return ["–", "–", "–", "–"]
    accuracies = [f"{mean(part['accuracy'][split] for part in parts):.1%}" for split in ("test", "valid")]
    memory = "–" if parts[0]["gib"] is None else f"{parts[0]['gib']:.2f}"
    return [f"**{accuracies[0]}**", accuracies[1], f"{parts[0]['parameters'] / 1e6:.2f} M", memory]


def pace(row: dict[str, Any] | None) -> str:
    return "–" if row is None else f"{row['tokens_per_second']:,.0f}"


def remarks(trained: dict[str, list[dict]], rows: dict[tuple[str, str], dict]) -> str:
    """The conditions of the measurements."""
    sentences, every = [], [part for parts in trained.values() for part in parts]
    if every:
        first, seeds = every[0], sorted({part["seed"] for part in every})
        steps = sorted({part["training"]["step"] for part in every})
        made = f"{steps[0]:,}" if len(steps) == 1 else f"{steps[0]:,} to {steps[-1]:,}"
        sentences.append(
            f"{first['examples']['test']:,} test examples, {first['majority']:.1%} of them of the most frequent class; "
            f"seed {', '.join(map(str, seeds))}; {made} steps; "
            f"{hardware(first)}, at the same time as other runs. GiB: peak memory of training."
        )
    missing = [kind for kind, parts in trained.items() if not parts]
    if missing:
        sentences.append(f"Not trained yet: {', '.join(missing)}.")
    if rows:
        usual, longest = (rows[next(iter(rows))[0], which]["row"] for which in ("usual", "longest"))
        sentences.append(
            f"Row length of the timed batches: {usual['median']:,.0f} tokens (median), of the longest ones "
            f"{longest['median']:,.0f}."
        )
    else:
        sentences.append("Speed is not measured yet.")
    return " ".join(sentences)


def commands(parts: dict[str, dict], speed: dict | None) -> list[str]:
    found = [*parts.values(), *([speed] if speed else [])]
    timed = [f"Speed: {hardware(speed)}.\n"] if speed else []
    return [*timed, "Commands:\n", *(f"- `{part['command']}`" for part in found)]
