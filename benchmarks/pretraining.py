"""Does pre-training help? An encoder learns WikiText-2, and classifiers of SST-2 begin with it or at random.

    python benchmarks/pretraining.py --data ../shared/data --out docs/measurements/pretraining.json

Pre-trains once (recipes/pretrain/wikitext2-mlm.toml), then trains with each seed: the classifier that starts from it
(sst2-finetune.toml), the same classifier from scratch, with a vocabulary of its own from SST-2, and the best classifier
that this repository trains from scratch (recipes/sst2.toml). All are tested on SST-2's dev sentences; settings were
chosen on a tenth of the training data. `--causal` adds a start from a language model (wikitext2-causal.toml).
`+key=value` sets something in all runs, for a quick try: +train.steps=20.
"""

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from results import last_line, machine

from regard.config import dump_toml, read_toml
from regard.metrics import accuracy_test

PRETRAIN = Path("recipes/pretrain")
BASELINE = "from scratch, the same model"


def main() -> None:
    arguments = parse()
    arguments.runs.mkdir(parents=True, exist_ok=True)
    starts = {"masked": "wikitext2-mlm"} | ({"causal": "wikitext2-causal"} if arguments.causal else {})
    pretrained = {name: pretrain(recipe, arguments) for name, recipe in starts.items()}
    jobs = {f"started from the {name} language model": fine_tuning(run) for name, run in pretrained.items()}
    jobs[BASELINE] = from_scratch(pretrained["masked"], arguments)
    jobs["from scratch, recipes/sst2.toml"] = [Path("recipes/sst2.toml")]
    rows = {name: [classify(name, job, seed, arguments) for seed in arguments.seeds] for name, job in jobs.items()}
    table = {name: summary(found, rows[BASELINE]) for name, found in rows.items()}
    result = {
        "command": "python benchmarks/pretraining.py" + (" --causal" if arguments.causal else ""),
        "pretraining": {name: told(run) for name, run in pretrained.items()},
        "classifiers": {name: {**table[name], "runs": [without(run, "right") for run in rows[name]]} for name in rows},
        "machine": machine(),
    }
    arguments.out.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    for name, row in table.items():
        print(f"{name:42} {row['mean']:.4f} ± {row['deviation']:.4f}  gain {row['gain']:+.4f}  p {row['p_value']:.4f}")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("settings", nargs="*", help="+key=value for all runs")
    parser.add_argument("--data", type=Path, default=Path("data"), help="folder with wikitext-2 and sst2")
    parser.add_argument("--out", type=Path, default=Path("docs/measurements/pretraining.json"))
    parser.add_argument("--runs", type=Path, default=Path("runs/pretraining"))
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--causal", action="store_true", help="also pre-train a language model and start from it")
    arguments = parser.parse_args()
    arguments.settings = [setting.removeprefix("+") for setting in arguments.settings]
    return arguments


def pretrain(recipe: str, arguments: argparse.Namespace) -> Path:
    """The folder of the pre-trained run; one that is there already is used again."""
    out = arguments.runs / recipe
    if not (out / "README.md").is_file():  # the last thing that a run writes
        data = f"data.folder={arguments.data / 'wikitext-2'}"
        resume = ["--resume"] if (out / "recipe.toml").is_file() else []
        regard("train", PRETRAIN / f"{recipe}.toml", data, *arguments.settings, "--out", out, *resume)
    return out


def fine_tuning(run: Path) -> list[Any]:
    return [PRETRAIN / "sst2-finetune.toml", f"model.from={run}"]


def from_scratch(pretrained: Path, arguments: argparse.Namespace) -> list[Any]:
    """The fine-tuning recipe with the pre-trained model's settings, but neither its weights nor its vocabulary."""
    tree, before = read_toml(PRETRAIN / "sst2-finetune.toml"), read_toml(pretrained / "recipe.toml")
    del tree["start"]
    model = {name: value for name, value in before["model"].items() if name != "head"}
    own = {name: value for name, value in tree["model"].items() if name != "from"}
    tree |= {"model": {**model, **own}, "tokenizer": before["tokenizer"]}
    file = arguments.runs / "sst2-scratch.toml"
    file.write_text(dump_toml(tree), encoding="utf-8")
    return [file]


def classify(name: str, job: list[Any], seed: int, arguments: argparse.Namespace) -> dict[str, Any]:
    """Trains one classifier and tests it on the dev sentences."""
    out = arguments.runs / f"{name.replace(' ', '-').replace(',', '').replace('/', '-')}-seed{seed}"
    began = time.time()
    if not (out / "README.md").is_file():
        resume = ["--resume"] if (out / "recipe.toml").is_file() else []
        data = f"data.folder={arguments.data / 'sst2'}"
        regard("train", *job, f"seed={seed}", data, *arguments.settings, "--out", out, *resume)
    from regard import api

    report = api.evaluate(out, "test")
    print(name, seed, report.metrics, flush=True)
    return {
        "seed": seed,
        "metrics": report.metrics,
        "examples": report.examples,
        "minutes": round((time.time() - began) / 60, 2),
        "training": last_line(out / "metrics.jsonl"),
        "right": report.evidence["right"],
    }


def summary(found: list[dict[str, Any]], beside: list[dict[str, Any]]) -> dict[str, float]:
    """Mean accuracy and its deviation over seeds, the gain over the same model from scratch, and McNemar's p of it."""
    scores, others = ([run["metrics"]["accuracy"] for run in runs] for runs in (found, beside))
    right, before = ([answer for run in runs for answer in run["right"]] for runs in (found, beside))
    return {
        "mean": mean(scores),
        "deviation": stdev(scores) if len(scores) > 1 else 0.0,
        "gain": mean(scores) - mean(others),
        "p_value": accuracy_test(before, right).p_value,
    }


def told(run: Path) -> dict[str, Any]:
    """What a pre-trained run reached and spent."""
    from regard import api

    report = api.evaluate(run, "valid")
    recipe = read_toml(run / "recipe.toml")
    recipe["data"].pop("folder", None)  # where the data lay decides nothing
    return {
        "metrics": report.metrics,
        "signatures": report.signatures,
        "training": last_line(run / "metrics.jsonl"),
        "recipe": recipe,
    }


def without(run: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in run.items() if key != name}


def regard(*words: Any) -> None:
    subprocess.run([sys.executable, "-m", "regard", *map(str, words)], check=True)


if __name__ == "__main__":
    main()
