"""Syntax on UD English EWT: parts of speech with three kinds of positions, and a parser that writes brackets.

    python benchmarks/syntax.py upos sinusoidal rotary tree --seeds 1 2 3 --data ../data
    python benchmarks/syntax.py parse --seeds 1 --data ../data

`upos` trains recipes/syntax/upos.toml with the positions that are named, `parse` recipes/syntax/parse.toml, each with
every seed; all are tested on dev, which nothing was chosen by. Processes may go side by side: each run becomes a file
of docs/measurements/syntax/. `--set train.epochs=1` puts settings on top. Runs that are there already are only tested.
"""

import argparse
import json
import time
from pathlib import Path

from parts import pack_answers, store
from results import last_line

from regard import api

POSITIONS = ("sinusoidal", "rotary", "tree")


def main() -> None:
    arguments = parse()
    for seed in arguments.seeds:
        if arguments.what == "parse":
            measured("parse", f"parse-seed{seed}", [f"seed={seed}"], arguments)
        else:
            for position in arguments.positions or POSITIONS:
                settings = [f"model.position={position}", f"seed={seed}"]
                measured("upos", f"upos-{position}-seed{seed}", settings, arguments)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["upos", "parse"])
    parser.add_argument("positions", nargs="*", help=f"of {', '.join(POSITIONS)}; all when left out")
    parser.add_argument("--set", nargs="*", default=[], metavar="KEY=VALUE", help="settings on top of the recipe")
    parser.add_argument("--data", type=Path, default=Path("data"), help="folder with ud-english-ewt")
    parser.add_argument("--runs", type=Path, default=Path("runs/syntax"))
    parser.add_argument("--out", type=Path, default=Path("docs/measurements/syntax"))
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    arguments = parser.parse_args()
    if unknown := set(arguments.positions) - set(POSITIONS):
        parser.error(f"expected {', '.join(POSITIONS)}, got {min(unknown)}")
    return arguments


def measured(recipe: str, name: str, settings: list[str], arguments: argparse.Namespace) -> None:
    """One run, and what it reached on the test data."""
    file, folder, began = Path(f"recipes/syntax/{recipe}.toml"), arguments.runs / name, time.time()
    data = f"data.folder={(arguments.data / 'ud-english-ewt').resolve()}"
    if not (folder / "README.md").is_file():  # the last thing that a run writes
        resume = (folder / "recipe.toml").is_file()
        api.train(file, data, *settings, *arguments.set, out=folder, resume=resume)
    minutes, run = round((time.time() - began) / 60, 2), api.load(folder)
    report = api.evaluate(run, "test")
    right = report.evidence.get("right")
    part = {
        "recipe": recipe,
        "position": run.recipe.model.position.kind,  # type: ignore[union-attr]
        "seed": run.recipe.seed,
        "command": " ".join(["regard train", str(file), *settings, *arguments.set]),
        "test": report.metrics,
        "signatures": report.signatures,
        "examples": report.examples,
        "parameters": run.task.num_params(run.recipe.model),
        "minutes": minutes,
        "training": last_line(folder / "metrics.jsonl"),
        **({} if right is None else {"right": pack_answers(right)}),
    }
    store(arguments.out / f"{name}.json", part)
    shown = {key: round(value, 4) for key, value in report.metrics.items()}
    print(name, json.dumps(shown), f"{minutes} min", flush=True)


if __name__ == "__main__":
    main()
