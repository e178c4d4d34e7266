"""Trains recipes, tests them, and stores what came out: the figures of docs/results.md.

    python benchmarks/results.py multi30k-en-de shakespeare-char sst2:1,2,3 --data ../data --out docs/measurements

A job is a recipe's name, with `@label` to tell variants apart, `:seeds` if it is to run several times and `+key=value`
for settings on top: `wikitext2@narrow:1,2+model.width=256`. Jobs run side by side, `--at-once` at a time; each trains
into a folder of its own, is tested on its validation and (with --test) its test data, and becomes one JSON object with
the command, the resolved recipe, the scores, the hardware and the versions.
"""

import argparse
import json
import os
import platform
import re
import subprocess
import sys
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

FOLDERS = {"shakespeare-char": "tinyshakespeare", "shakespeare-char-cpu": "tinyshakespeare", "wikitext2": "wikitext-2"}
FOLDERS |= {"multi30k-en-de": "multi30k", "images/fashion-mnist": "fashion-mnist", "images/cifar10": "cifar10-jpg"}


def data_folder(recipe: str) -> str:
    """The folder of a recipe's data set: `baselines/sst2-window` has that of sst2, other baselines that of Multi30k."""
    if recipe.startswith("baselines/"):
        name = recipe.removeprefix("baselines/").partition("-")[0]
        recipe = name if name in ("sst2", "wikitext2") else "multi30k-en-de"
    return FOLDERS.get(recipe, recipe)


def main() -> None:
    arguments = parse()
    jobs = [job for text in arguments.jobs for job in parse_job(text)]
    with ThreadPoolExecutor(arguments.at_once) as pool:
        for done in as_completed([pool.submit(run, job, arguments) for job in jobs]):
            result = done.result()
            file = arguments.out / f"{result['name']}.json"
            file.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
            print(json.dumps({key: result[key] for key in ("name", "minutes", "scores", "error")}), flush=True)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("jobs", nargs="+")
    parser.add_argument("--data", type=Path, default=Path("data"), help="folder with one folder a data set")
    parser.add_argument("--out", type=Path, default=Path("docs/measurements"))
    parser.add_argument("--runs", type=Path, default=Path("runs/results"))
    parser.add_argument("--at-once", type=int, default=1)
    parser.add_argument("--test", action="store_true", help="test on the test data too, once choices are made")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    return arguments


def parse_job(text: str) -> list[tuple[str, int, list[str], str]]:
    """`sst2@flat:1,2+model.depth=1` as (recipe, seed, settings, name), one for each seed."""
    head, *settings = text.split("+")
    name, _, seeds = head.partition(":")
    recipe = name.partition("@")[0]
    flat = name.replace("/", "-")
    return [(recipe, int(seed), settings, f"{flat}-seed{seed}") for seed in (seeds or "1").split(",")]


def run(job: tuple[str, int, list[str], str], arguments: argparse.Namespace) -> dict[str, object]:
    recipe, seed, settings, name = job
    folder = arguments.runs / name
    data = [] if recipe == "demo" else [f"data.folder={arguments.data / data_folder(recipe)}"]
    train = ["train", f"recipes/{recipe}.toml", f"seed={seed}", *data, *settings, "--out", str(folder)]
    began = time.time()
    result: dict[str, object] = {"name": name, "command": readable(train), "error": None, "scores": {}}
    try:
        regard(train, folder.with_name(f"{name}.log"))
        result["minutes"] = round((time.time() - began) / 60, 2)
        result["scores"] = {split: tested(folder, split) for split in splits_of(recipe, arguments.test)}
        result["training"] = last_line(folder / "metrics.jsonl")
        result["recipe"] = tomllib.loads((folder / "recipe.toml").read_text(encoding="utf-8"))
        result["recipe"]["data"].pop("folder", None)  # where the data lay decides nothing
    except subprocess.CalledProcessError as error:
        result |= {"error": str(error), "minutes": round((time.time() - began) / 60, 2)}
    return {**result, "machine": machine()}


def readable(words: list[str]) -> str:
    """The command as one would type it: `data/` and `runs/` stand for wherever these folders are."""
    text = re.sub(r"data\.folder=\S*?([\w-]+)(?= )", r"data.folder=data/\1", " ".join(words))
    return "regard " + re.sub(r"--out \S*/", "--out runs/", text)


def regard(words: list[str], log: Path) -> None:
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("w") as stream:
        subprocess.run([sys.executable, "-m", "regard", *words], stdout=stream, stderr=stream, check=True)


def splits_of(recipe: str, test: bool) -> list[str]:
    """The validation data, and the test data if it is asked for and there is any."""
    data = tomllib.loads(Path(f"recipes/{recipe}.toml").read_text(encoding="utf-8"))["data"]
    return ["valid", "test"] if test and "test" in data else ["valid"]


def tested(folder: Path, split: str) -> dict[str, object]:
    command = [sys.executable, "-m", "regard", "evaluate", str(folder), "--data", split, "--json"]
    found = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
    return {"metrics": found["metrics"], "signatures": found["signatures"], "examples": found["examples"]}


def last_line(metrics: Path) -> dict[str, object]:
    lines = [json.loads(line) for line in metrics.read_text().splitlines()]
    trained = [line for line in lines if line.get("split") == "train"]
    kept = ("step", "epoch", "tokens", "flops", "seconds", "loss")
    return {key: trained[-1][key] for key in kept}


def machine() -> dict[str, object]:
    import torch

    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else None
    return {"gpu": gpu, "cpu": platform.processor() or platform.machine(), "cores": os.cpu_count(),
            "python": platform.python_version(), "torch": torch.__version__}  # fmt: skip


if __name__ == "__main__":
    main()
