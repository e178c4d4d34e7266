"""Syntax on UD English EWT: parts of speech with three kinds of positions, and a parser that writes brackets.

    python benchmarks/syntax.py --data data/ud-english-ewt --out docs/measurements/syntax.json

Trains recipes/syntax/upos.toml with sinusoidal, rotary and tree positions, each with several seeds, and
recipes/syntax/parse.toml once; all are tested on dev, which nothing was chosen by. Settings at the end of the command
(`train.epochs=1`) go on top of every recipe. Runs that are there already are only tested.
"""

import argparse
import json
import statistics
import time
from pathlib import Path
from typing import Any

from results import last_line, machine

from regard import api, metrics
from regard.run import Run, read_recipe

POSITIONS = ("sinusoidal", "rotary", "tree")


def main() -> None:
    arguments = parse()
    found: dict[str, Any] = {"machine": machine()}
    if arguments.only in (None, "upos"):
        found["upos"] = positions(arguments)
    if arguments.only in (None, "parse"):
        found["parse"] = parser_row(arguments)
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("settings", nargs="*", help="key=value on top of every recipe")
    parser.add_argument("--data", type=Path, default=Path("data/ud-english-ewt"))
    parser.add_argument("--runs", type=Path, default=Path("runs/syntax"))
    parser.add_argument("--out", type=Path, default=Path("docs/measurements/syntax.json"))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", choices=("upos", "parse"))
    return parser.parse_args()


def positions(arguments: argparse.Namespace) -> dict[str, Any]:
    """A row for each kind of positions, and how sure it is that it differs from the first."""
    rows: dict[str, Any] = {}
    right: dict[str, list[bool]] = {}
    for position in POSITIONS:
        right[position], seeds = [], []
        for seed in range(1, arguments.seeds + 1):
            name, settings = f"upos-{position}-seed{seed}", [f"model.position={position}", f"seed={seed}"]
            row, report = trained("upos", name, settings, arguments)
            seeds.append({"seed": seed, **row})
            right[position] += report.evidence["right"]
        accuracies = [row["test"]["accuracy"] for row in seeds]
        spread = statistics.pstdev(accuracies)
        rows[position] = {"accuracy": statistics.mean(accuracies), "spread": spread, "runs": seeds}
        if position != POSITIONS[0]:
            tested = metrics.accuracy_test(right[POSITIONS[0]], right[position])
            rows[position] |= {"p_value": tested.p_value, "signature": tested.signature}
    return rows


def parser_row(arguments: argparse.Namespace) -> dict[str, Any]:
    return trained("parse", "parse-seed1", [], arguments)[0]


def trained(
    recipe: str, name: str, settings: list[str], arguments: argparse.Namespace
) -> tuple[dict[str, Any], api.Report]:
    """What one run reached on the test data, and the report of that test."""
    folder, began = arguments.runs / name, time.time()
    if not (folder / "checkpoints" / "best").exists():
        chosen = [f"data.folder={arguments.data.resolve()}", *settings, *arguments.settings]
        api.train(read_recipe(Path(f"recipes/syntax/{recipe}.toml"), chosen), out=folder)
    minutes, run = round((time.time() - began) / 60, 2), Run.open(folder)
    report = api.evaluate(run, "test")
    row = {
        "command": " ".join(["regard train", f"recipes/syntax/{recipe}.toml", *settings, *arguments.settings]),
        "test": report.metrics,
        "examples": report.examples,
        "parameters": run.task.num_params(run.recipe.model),
        "minutes": minutes,
        "training": last_line(folder / "metrics.jsonl"),
    }
    shown = {key: round(value, 4) for key, value in report.metrics.items()}
    print(name, json.dumps(shown), f"{minutes} min", flush=True)
    return row, report


if __name__ == "__main__":
    main()
