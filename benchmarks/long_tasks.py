"""What long inputs gain and cost: classifiers of whole IMDB reviews and of ListOps with full and sparse attention.

    python benchmarks/long_tasks.py train imdb bigbird --data ../data
    python benchmarks/long_tasks.py speed --data ../data
    python benchmarks/long_tasks.py report

`train` takes recipes/imdb-long.toml or recipes/listops.toml with one kind of attention, keeps the checkpoint that is
best on the validation part and tests it on a part that nothing was chosen by; the runs may go side by side. `speed`
wants the machine to itself: training steps over the same batches, the kinds by turns, those of an epoch as they come
and then the longest. Each writes into docs/measurements/long_tasks/; `report` makes the table of docs/long.md of it.
`--set train.minutes=3` puts settings on top of the recipe.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from parts import peak_of_memory, start_of_memory, store
from results import last_line

from regard import api
from regard.data.batches import Batch, Batches
from regard.run import Recipe, read_recipe
from regard.tasks.base import Task
from regard.tasks.prepare import Preparation
from regard.train.loop import Trainer
from regard.train.parallel.processes import World
from regard.train.precision import choose_precision

RECIPES = {"imdb": ("imdb-long", "imdb"), "listops": ("listops", "listops")}
"""Each task's recipe, and the folder of its data."""
KINDS = {
    "full": "full",
    "window": "{kind='window', reach=128}",
    "bigbird": "{kind='bigbird', block=64, reach=1, global_tokens=64, random=2}",
    "linformer": "{kind='linformer', length=4096, projected=128, share='layerwise'}",
}
MEASUREMENTS = Path("docs/measurements/long_tasks")


def main() -> None:
    arguments = parse()
    if arguments.what == "train":
        measure_training(arguments)
    elif arguments.what == "speed":
        measure_speed(arguments)
    else:
        from long_tasks_report import write_table

        print(write_table(MEASUREMENTS))


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="what", required=True)
    train, speed = commands.add_parser("train"), commands.add_parser("speed")
    commands.add_parser("report")
    train.add_argument("task", choices=RECIPES)
    train.add_argument("kind", choices=KINDS)
    train.add_argument("--seed", type=int, default=1)
    train.add_argument("--runs", type=Path, default=Path("runs/long_tasks"))
    speed.add_argument("--steps", type=int, default=20, help="batches of an epoch that are timed")
    speed.add_argument("--longest", type=int, default=5, help="of its longest batches, so many are timed apart")
    for command in (train, speed):
        command.add_argument("--set", nargs="*", default=[], metavar="KEY=VALUE", help="settings on top of the recipe")
        command.add_argument("--data", type=Path, default=Path("data"), help="folder with imdb and listops")
        command.add_argument("--out", type=Path, help="the file to write")
        command.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    return parser.parse_args()


def recipe_of(task: str, kind: str, arguments: argparse.Namespace) -> Recipe:
    """The task's recipe with one kind of attention."""
    name, folder = RECIPES[task]
    own = [f"model.attention={KINDS[kind]}", f"data.folder={(arguments.data / folder).resolve()}"]
    device = f"train.device={arguments.device}"
    return read_recipe(Path(f"recipes/{name}.toml"), [*own, device, *arguments.set])


def measure_training(arguments: argparse.Namespace) -> None:
    """One classifier trained, and its accuracy on the test part."""
    task, kind = arguments.task, arguments.kind
    recipe = recipe_of(task, kind, arguments).but(seed=arguments.seed)
    folder = arguments.runs / f"{task}-{kind}-seed{arguments.seed}"
    start_of_memory(arguments.device)
    began = time.time()
    run = api.train(recipe, out=folder, resume=(folder / "recipe.toml").exists())
    gib, minutes = peak_of_memory(arguments.device), round((time.time() - began) / 60, 2)
    found = {split: api.evaluate(run, split) for split in ("valid", "test")}
    expected = [sum(row) for row in found["test"].details["confusion"]]
    words = [f"recipes/{RECIPES[task][0]}.toml", f"seed={arguments.seed}", f"model.attention={KINDS[kind]}"]
    part = {
        "task": task,
        "kind": kind,
        "seed": arguments.seed,
        "command": " ".join(["regard train", *words, *arguments.set]),
        "accuracy": {split: report.metrics["accuracy"] for split, report in found.items()},
        "majority": max(expected) / sum(expected),
        "examples": {split: report.examples for split, report in found.items()},
        "parameters": run.task.num_params(recipe.model),
        "gib": gib,
        "minutes": minutes,
        "training": last_line(folder / "metrics.jsonl"),
    }
    store(arguments.out or MEASUREMENTS / f"{task}-{kind}-seed{arguments.seed}.json", part)
    print(task, kind, part["accuracy"], f"majority {part['majority']:.4f}, {minutes} min", flush=True)


def measure_speed(arguments: argparse.Namespace) -> None:
    """Tokens a second and memory of training, for each task and kind."""
    rows = [row for task in RECIPES for row in speed_rows(task, arguments)]
    settings = {"steps": arguments.steps, "longest": arguments.longest, "settings": arguments.set}
    words = ["--steps", str(arguments.steps), "--longest", str(arguments.longest)]
    words += ["--set", *arguments.set] if arguments.set else []
    command = " ".join(["python benchmarks/long_tasks.py speed", *words])
    store(arguments.out or MEASUREMENTS / "speed.json", {"command": command, **settings, "rows": rows})


def speed_rows(task: str, arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """All kinds over the same batches, one after the other at each batch."""
    recipes = {kind: recipe_of(task, kind, arguments) for kind in KINDS}
    with tempfile.TemporaryDirectory() as cache:
        source, tool = opened(recipes["full"], Path(cache))
        trainers = {kind: trainer(recipe, tool, arguments.device) for kind, recipe in recipes.items()}
        chosen = {"usual": range(min(arguments.steps, source.num_batches(0)))}
        chosen["longest"] = longest_batches(source, arguments.longest)
        rows = []
        for which, steps in chosen.items():
            batches = [source.batch(0, step) for step in steps]
            rows += [{"task": task, "batches": which, **row} for row in by_turns(trainers, batches, arguments.device)]
    return rows


def opened(recipe: Recipe, cache: Path) -> tuple[Batches, Task]:
    """The training batches of a recipe, and its task."""
    preparation = Preparation(recipe.task, recipe.data, recipe.tokenizer, cache, model=recipe.model)
    task = recipe.task.task(preparation.learn())
    batching = recipe.task.batching(recipe.data)
    tokens = recipe.train.tokens_per_batch
    return batching.build(preparation.open(task, "train"), tokens_per_batch=tokens, seed=recipe.seed), task


def longest_batches(source: Batches, count: int) -> list[int]:
    """The steps of an epoch whose rows are longest."""
    lengths = {step: source.batch(0, step).fields["text"].tokens.shape[1] for step in range(source.num_batches(0))}
    return sorted(lengths, key=lengths.__getitem__, reverse=True)[:count]


class OneBatch(Batches):
    """Whatever batch it was last given, again and again."""

    only: Batch

    def num_batches(self, epoch: int) -> int:
        """An epoch has one."""
        return 1

    def batch(self, epoch: int, step: int, rank: int = 0, world: int = 1) -> Batch:
        """The batch."""
        return self.only


class Nobody:
    """Passes on what a person should know; the rest is neither heard nor written."""

    def say(self, sentence: str) -> None:
        """Something a person should know."""
        print(sentence, flush=True)

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_, **__: None


def trainer(recipe: Recipe, task: Task, device: str) -> Trainer:
    """The trainer of a recipe, whose own step is timed."""
    torch.manual_seed(recipe.seed)
    where = torch.device(device)
    return Trainer(
        recipe.train.but(parallel="none"), task, task.build(recipe.model).to(where).train(), OneBatch(),
        lambda _: {}, Path(tempfile.gettempdir()), seed=recipe.seed, world=World(0, 1, where),
        precision=choose_precision(recipe.train.precision, where), watcher=Nobody(), log=Nobody(),
    )  # fmt: skip


def by_turns(trainers: dict[str, Trainer], batches: Sequence[Batch], device: str) -> list[dict[str, Any]]:
    """Speed and memory of each kind: all batches once to warm up, since each shape is new, then once for time."""
    seconds: dict[str, float] = dict.fromkeys(trainers, 0.0)
    gib: dict[str, float | None] = dict.fromkeys(trainers)
    tokens = 0
    for measuring in (False, True):
        for batch in batches:
            tokens += measuring * int(batch.fields["text"].lengths.sum())
            for kind, one in trainers.items():
                spent, peak = stepped(one, batch, device, 3 if measuring else 1)
                if measuring:
                    seconds[kind] += spent
                    gib[kind] = None if peak is None else max(gib[kind] or 0.0, peak)
    time_of = [batch.fields["text"].tokens.shape[1] for batch in batches]
    return [
        {
            "kind": kind,
            "tokens_per_second": tokens / seconds[kind],
            "gib": gib[kind],
            "tokens": tokens,
            "row": {"median": statistics.median(time_of), "longest": max(time_of)},
            "parameters": sum(weight.numel() for weight in one.model.parameters()),
        }
        for kind, one in trainers.items()
    ]


def stepped(one: Trainer, batch: Batch, device: str, times: int) -> tuple[float, float | None]:
    """The fastest of a few steps over a batch, and what it took beside what was held before."""
    one.batches.only = batch  # type: ignore[attr-defined]
    one.optimiser.zero_grad()
    held, took = start_of_memory(device), []
    for _ in range(times):
        began = time.perf_counter()
        one.step()
        if device == "cuda":
            torch.cuda.synchronize()
        took.append(time.perf_counter() - began)
    peak = peak_of_memory(device)
    return min(took), None if peak is None else round(peak - held, 3)


if __name__ == "__main__":
    main()
