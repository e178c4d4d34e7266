"""Trains recipes that name only task and data, and variants of what the rules decide: the figures of docs/defaults.md.

    python benchmarks/defaults.py multi30k sst2 upos --data ../data
    python benchmarks/defaults.py multi30k@deep+model.depth=4+train.minutes=10 'sst2@plain:1,2,3+task.adversarial=0'
    python benchmarks/defaults.py --every --minutes 1            # all data sets with a minute each

A job is a data set's name, with `@label` to tell variants of a rule apart, `:seeds` and `+key=value` for the value that
the variant tries in place of the rule's. Choices are made on validation data; `--test` is for the final figures. Each
run becomes one JSON object: the command, what was decided and why, the minutes announced and taken, the scores.
"""

import argparse
import json
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from typing import Any

from results import last_line, machine, parse_job, readable, regard

from regard.config import dump_toml

BARE: dict[str, tuple[str, str, dict[str, object]]] = {
    "multi30k": ("translation", "multi30k", {
        "train": {"source": "train.en.gz", "target": "train.de.gz"},
        "valid": {"source": "val.en.gz", "target": "val.de.gz"},
        "test": {"source": "test_2016_flickr.en.gz", "target": "test_2016_flickr.de.gz"},
    }),
    "software": ("translation", "software-en-de", {
        split: {"source": f"{split}.en.zst", "target": f"{split}.de.zst"} for split in ("train", "valid", "test")
    }),
    "sst2": ("classification", "sst2", {
        "train": {"file": "train.tsv", "text": 0, "label": 1}, "test": {"file": "dev.tsv", "text": 0, "label": 1},
    }),
    "imdb": ("classification", "imdb", {
        split: {"file": "train.tsv.gz", "text": "text", "label": "label", "part": part, "shuffle": True}
        for split, part in (("train", "0%-80%"), ("valid", "80%-90%"), ("test", "90%-100%"))
    }),
    "wikitext2": ("language_model", "wikitext-2", {
        "train": {"file": "train.txt.gz"}, "valid": {"file": "valid.txt.gz"},
    }),
    "shakespeare": ("language_model", "tinyshakespeare", {
        "train": {"file": "input.txt", "part": "0%-90%"}, "valid": {"file": "input.txt", "part": "90%-100%"},
    }),
    "upos": ("tagging", "ud-english-ewt", {
        "train": {"file": "en_ewt-ud-train-half.conllu.gz"}, "test": {"file": "en_ewt-ud-dev.conllu.gz"},
    }),
    "cifar10": ("image_classification", "cifar10-jpg", {
        split: {"images": "train.zip", "part": part, "shuffle": True}
        for split, part in (("train", "0%-75%"), ("valid", "75%-80%"), ("test", "80%-100%"))
    }),
}  # fmt: skip
"""Task, folder and data of each bare recipe."""


def main() -> None:
    arguments = parse()
    names = list(BARE) if arguments.every else arguments.jobs
    for job in [job for text in names for job in parse_job(text)]:
        result = run(job, arguments)
        file = arguments.out / f"{result['name']}.json"
        file.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        print(json.dumps({key: result[key] for key in ("name", "minutes", "scores", "error")}), flush=True)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("jobs", nargs="*")
    parser.add_argument("--every", action="store_true", help="all data sets")
    parser.add_argument("--data", type=Path, default=Path("data"), help="folder with one folder a data set")
    parser.add_argument("--out", type=Path, default=Path("docs/measurements/defaults"))
    parser.add_argument("--runs", type=Path, default=Path("runs/defaults"))
    parser.add_argument("--minutes", type=float, help="train.minutes of every job")
    parser.add_argument("--device", default="auto", choices=["auto", "cpu", "cuda"])
    parser.add_argument("--test", action="store_true", help="test on the test data too, once choices are made")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    arguments.runs.mkdir(parents=True, exist_ok=True)
    return arguments


def run(job: tuple[str, int, list[str], str], arguments: argparse.Namespace) -> dict[str, object]:
    """One bare recipe, trained and tested; with the label of its device and its minutes in its name."""
    data_set, seed, settings, name = job
    task, folder, data = BARE[data_set]
    if arguments.minutes:
        settings, name = [*settings, f"train.minutes={arguments.minutes:g}"], f"{name}-{arguments.minutes:g}min"
    name = f"{name}-{'gpu' if machine()['gpu'] and arguments.device != 'cpu' else 'cpu'}"
    out, recipe = arguments.runs / name, arguments.runs / f"{data_set}.toml"
    recipe.write_text(dump_toml({"task": task, "data": data}), encoding="utf-8")
    asked = [f"seed={seed}", f"data.folder={arguments.data.resolve() / folder}", f"train.device={arguments.device}"]
    command = ["train", str(recipe), *asked, *settings, "--out", str(out)]
    result: dict[str, Any] = {"name": name, "command": readable(command), "error": None, "scores": {}}
    began = time.time()
    try:
        result["decided"] = decided([*asked, *settings], recipe)
        regard(command, out.with_name(f"{name}.log"))
        result["minutes"] = round((time.time() - began) / 60, 2)
        splits = ["valid", "test"] if arguments.test and "test" in data else ["valid"]
        result["scores"] = {split: scores(out, split) for split in splits}
        result["training"] = last_line(out / "metrics.jsonl")
        result["validations"] = validations(out / "metrics.jsonl")
        result["recipe"] = tomllib.loads((out / "recipe.toml").read_text(encoding="utf-8"))
        result["recipe"]["data"]["folder"] = f"data/{folder}"  # wherever the data lies on this machine
    except subprocess.CalledProcessError as error:
        result |= {"error": str(error), "minutes": round((time.time() - began) / 60, 2)}
    return {**result, "machine": machine()}


def decided(settings: list[str], recipe: Path) -> list[str]:
    """What `regard config --check` says before the recipe: each decision with its reason, and the minutes."""
    command = [sys.executable, "-m", "regard", "config", "--check", str(recipe), *settings]
    lines = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout.splitlines()
    return [line.removeprefix("# ") for line in lines if line.startswith("#")]


def scores(folder: Path, split: str) -> dict[str, float]:
    command = [sys.executable, "-m", "regard", "evaluate", str(folder), "--data", split, "--json"]
    return json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)["metrics"]


def validations(metrics: Path) -> list[dict[str, float]]:
    """The learning curve: what each validation measured, and when."""
    lines = [json.loads(line) for line in metrics.read_text().splitlines()]
    left_out = ("split", "tokens_per_second", "flops_per_second", "lr")
    return [{key: value for key, value in line.items() if key not in left_out}
            for line in lines if line.get("split") == "valid"]  # fmt: skip


if __name__ == "__main__":
    main()
