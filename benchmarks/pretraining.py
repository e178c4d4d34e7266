"""Does pre-training help? An encoder learns WikiText-2, and classifiers of SST-2 begin with it or at random.

    python benchmarks/pretraining.py pretrain masked adapted --data ../data
    python benchmarks/pretraining.py classify adapted masked scratch recipe --seeds 1 2 3 --data ../data

`pretrain` trains recipes/pretrain/wikitext2-mlm.toml (`masked`), goes on with it on SST-2's own sentences
(sst2-adapt.toml, `adapted`) or trains wikitext2-causal.toml (`causal`). `classify` trains classifiers with each seed:
one that starts from a pre-trained model (sst2-finetune.toml), the same model from `scratch`, with a vocabulary of its
own from SST-2, or the best that this repository trains from scratch, `recipe` (sst2.toml). They are tested on SST-2's
dev sentences; settings were chosen on a tenth of the training data. Processes may go side by side once what they start
from is there; each run becomes a file of docs/measurements/pretraining/.
`--set key=value` goes on top of all recipes, for a quick try: --set train.steps=20.
"""

import argparse
import time
from pathlib import Path
from typing import Any

from parts import pack_answers, store
from results import last_line

from regard import api
from regard.config import dump_toml, read_toml

PRETRAIN = Path("recipes/pretrain")
STARTS = {"masked": "wikitext2-mlm", "adapted": "sst2-adapt", "causal": "wikitext2-causal"}
SYSTEMS = (*STARTS, "scratch", "recipe")


def main() -> None:
    arguments = parse()
    if arguments.what == "pretrain":
        for name in arguments.names or ["masked"]:
            pretrain(name, arguments)
    else:
        for name in arguments.names or SYSTEMS:
            for seed in arguments.seeds:
                classify(name, seed, arguments)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["pretrain", "classify"])
    parser.add_argument("names", nargs="*", help=f"pretrain: {', '.join(STARTS)}; classify: {', '.join(SYSTEMS)}")
    parser.add_argument("--set", nargs="*", default=[], metavar="KEY=VALUE", help="settings on top of all recipes")
    parser.add_argument("--data", type=Path, default=Path("data"), help="folder with wikitext-2 and sst2")
    parser.add_argument("--out", type=Path, default=Path("docs/measurements/pretraining"))
    parser.add_argument("--runs", type=Path, default=Path("runs/pretraining"))
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    arguments = parser.parse_args()
    known = STARTS if arguments.what == "pretrain" else SYSTEMS
    if unknown := set(arguments.names) - set(known):
        parser.error(f"{arguments.what}: expected {', '.join(known)}, got {min(unknown)}")
    return arguments


def pretrain(name: str, arguments: argparse.Namespace) -> None:
    """A language model of WikiText-2 or, after it, of SST-2, and what it reached and spent."""
    file, out = PRETRAIN / f"{STARTS[name]}.toml", arguments.runs / STARTS[name]
    settings = [f"data.folder={(arguments.data / ('sst2' if name == 'adapted' else 'wikitext-2')).resolve()}"]
    settings += [f"model.from={arguments.runs / STARTS['masked']}"] if name == "adapted" else []
    minutes = trained(file, settings, out, arguments)
    report = api.evaluate(out, "valid")
    part = {
        "start": name,
        "command": " ".join(["regard train", str(file), *arguments.set]),
        "metrics": report.metrics,
        "signatures": report.signatures,
        "minutes": minutes,
        "training": last_line(out / "metrics.jsonl"),
    }
    store(arguments.out / f"pretrain-{name}.json", part)
    print(name, report.metrics, f"{minutes} min", flush=True)


def classify(name: str, seed: int, arguments: argparse.Namespace) -> None:
    """One classifier, tested on the dev sentences."""
    out = arguments.runs / f"{name}-seed{seed}"
    file, settings = job(name, out, arguments)
    data = f"data.folder={(arguments.data / 'sst2').resolve()}"
    minutes = trained(file, [*settings, f"seed={seed}", data], out, arguments)
    run = api.load(out)
    reports = {split: api.evaluate(run, split) for split in ("valid", "test")}
    part = {
        "system": name,
        "seed": seed,
        "command": " ".join(
            [
                f"python benchmarks/pretraining.py classify {name} --seeds {seed}",
                *(["--set"] if arguments.set else []),
                *arguments.set,
            ]
        ),
        "accuracy": {split: report.metrics["accuracy"] for split, report in reports.items()},
        "examples": reports["test"].examples,
        "parameters": run.task.num_params(run.recipe.model),
        "minutes": minutes,
        "training": last_line(out / "metrics.jsonl"),
        "right": pack_answers(reports["test"].evidence["right"]),
    }
    store(arguments.out / f"{name}-seed{seed}.json", part)
    print(name, seed, part["accuracy"], f"{minutes} min", flush=True)


def job(name: str, out: Path, arguments: argparse.Namespace) -> tuple[Path, list[str]]:
    """The recipe of a classifier, and what is set on top of it."""
    if name in STARTS:
        return PRETRAIN / "sst2-finetune.toml", [f"model.from={arguments.runs / STARTS[name]}"]
    if name == "recipe":
        return Path("recipes/sst2.toml"), []
    file = out.with_suffix(".toml")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(dump_toml(from_scratch()), encoding="utf-8")
    return file, []


def from_scratch() -> dict[str, Any]:
    """The fine-tuning recipe with the pre-trained model's settings, but neither its weights nor its vocabulary."""
    tree, before = read_toml(PRETRAIN / "sst2-finetune.toml"), read_toml(PRETRAIN / "wikitext2-mlm.toml")
    model = {name: value for name, value in before["model"].items() if name != "head"}
    own = {name: value for name, value in tree["model"].items() if name != "from"}
    rest = {name: value for name, value in tree.items() if name != "start"}
    return {**rest, "model": {**model, **own}, "tokenizer": before["tokenizer"]}


def trained(file: Path, settings: list[str], out: Path, arguments: argparse.Namespace) -> float:
    """Trains a run, unless it is there already; the minutes that this took."""
    began = time.time()
    if not (out / "README.md").is_file():  # the last thing that a run writes
        api.train(file, *settings, *arguments.set, out=out, resume=(out / "recipe.toml").is_file())
    return round((time.time() - began) / 60, 2)


if __name__ == "__main__":
    main()
