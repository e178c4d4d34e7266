"""Rows of the baselines' table that need trained runs: ensembles, and unknown words replaced or kept.

    python benchmarks/baselines.py runs/results --out docs/measurements/baselines

Takes the runs of `benchmarks/results.py` (multi30k-en-de, baselines/lstm-attention, baselines/words, …) and writes one
JSON object a row, as that script does.
"""

import argparse
import json
from pathlib import Path
from typing import Any

from results import machine

from regard import api


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path)
    parser.add_argument("--out", type=Path, default=Path("docs/measurements/baselines"))
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    for name, row in rows(arguments.runs).items():
        text = json.dumps({"name": name, **row, "machine": machine()}, indent=1, ensure_ascii=False)
        (arguments.out / f"{name}.json").write_text(text + "\n", encoding="utf-8")
        print(name, {split: score["metrics"]["bleu"] for split, score in row["scores"].items()}, flush=True)


def rows(runs: Path) -> dict[str, dict[str, Any]]:
    transformer, lstm, convs2s = (
        runs / name for name in ("multi30k-en-de-seed1", "baselines-lstm-attention-seed1", "baselines-convs2s-seed1")
    )
    words = runs / "baselines-words-seed1"
    return {
        "ensemble-two": scored(transformer, "--ensemble", lstm),
        "ensemble-three": scored(transformer, "--ensemble", lstm, "--ensemble", convs2s),
        "words-kept": scored(words, "--unknown", "keep"),
        "words-replaced": scored(words, "--unknown", "replace"),
    }


def scored(folder: Path, *options: str | Path) -> dict[str, Any]:
    """What `regard evaluate` says with these options, on validation and test data."""
    words = [option.name if isinstance(option, Path) else option for option in options]
    command = (
        f"regard evaluate runs/{folder.name} --data test {' '.join(f'runs/{w}' if '-seed' in w else w for w in words)}"
    )
    run, others = api.load(folder), [api.load(option) for option in options if isinstance(option, Path)]
    if "--unknown" in options:
        run = run.but(unknown=options[options.index("--unknown") + 1])
    scores = {}
    for split in ("valid", "test"):
        report = api.evaluate(run, split, others=others)
        scores[split] = {"metrics": report.metrics, "signatures": report.signatures, "examples": report.examples}
    return {"command": command, "error": None, "scores": scores}


if __name__ == "__main__":
    main()
