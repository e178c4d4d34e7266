"""One, two and four processes, copied (DDP) and cut up (FSDP): losses, what each holds, how long a step takes.

    python benchmarks/grow.py --out docs/measurements/grow-cpu.json
    python benchmarks/grow.py --experts --out docs/measurements/grow-experts.json
    python benchmarks/grow.py --device cuda --out docs/measurements/grow-gpu.json
    python benchmarks/paper_model.py

On a CPU the processes talk through gloo, and all train the same small translator; with `--experts`, one with mixtures
whose experts are divided among them. On a GPU there is one process, and
FSDP is measured against none on larger models: `--rounds` runs of each in turn, and the median of their steps. What
each holds and what its forward passes save is put beside what `benchmarks/run_on_paper.py` says on paper.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

SCHEDULE = {"kind": "constant", "lr": 1e-3}
SETTLED = 5
"""Steps that are not timed, while kernels are chosen and memory is taken."""


def main() -> None:
    arguments = parse()
    if arguments.worker:
        work(*arguments.worker)
        return
    began = time.time()
    rows = on_processors(arguments) if arguments.device == "cpu" else on_a_gpu(arguments)
    result = {
        "name": arguments.out.stem,
        "machine": machine(arguments.device),
        "load": os.getloadavg()[0],
        "rows": rows,
    }
    arguments.out.write_text(json.dumps({**result, "minutes": round((time.time() - began) / 60, 1)}, indent=1) + "\n")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--processes", default="1,2,4", help="on a CPU: numbers of processes, by commas")
    parser.add_argument("--experts", action="store_true", help="on a CPU: a model with experts, which are divided")
    parser.add_argument("--models", default="base,decoder", help="on a GPU: models, by commas")
    parser.add_argument("--steps", type=int, default=0, help="20 on a CPU, 60 on a GPU")
    parser.add_argument("--rounds", type=int, default=3, help="on a GPU")
    parser.add_argument("--out", type=Path, default=Path("docs/measurements/grow-cpu.json"))
    parser.add_argument("--worker", nargs=2, metavar=("RECIPE", "OUT"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    arguments.steps = arguments.steps or {"cpu": 20, "cuda": 60}[arguments.device]
    return arguments


def machine(device: str) -> dict:
    import torch

    gpu = torch.cuda.get_device_name() if device == "cuda" else None
    return {"gpu": gpu, "torch": torch.__version__, "cores": os.cpu_count(), "processor": platform.machine()}


# One CPU, several processes


EXPERTS = {"kind": "experts", "experts": 8, "chosen": 2, "hidden": 256}


def small(steps: int, parallel: str, experts: bool = False, among: int = 1) -> dict:
    """A translator of the embedded corpus; no dropout, as each process draws its own."""
    feedforward = {"feedforward": EXPERTS} if experts else {}
    return {
        "task": "translation",
        "data": {"train": {"street": "train", "limit": 2000}, "valid": {"street": "valid", "limit": 50}},
        "tokenizer": {"kind": "bpe", "size": 1000},
        "model": {"kind": "encoder-decoder", "width": 128, "depth": 3, "heads": 4, "dropout": 0.0, **feedforward},
        "train": {"steps": steps, "tokens_per_batch": 1024, "save_every": steps, "log_every": 1, "device": "cpu",
                  "precision": "float32", "schedule": SCHEDULE, "parallel": parallel, "expert_parallel": among},
    }  # fmt: skip


def ways(arguments: argparse.Namespace) -> Iterator[tuple[int, str, int]]:
    """Numbers of processes, how the model is shared out, and among how many its experts are divided."""
    for processes in map(int, arguments.processes.split(",")):
        for parallel in ("none", "fsdp") if processes == 1 else ("ddp", "fsdp"):
            divisors = [n for n in range(2, processes + 1) if processes % n == 0] if arguments.experts else []
            yield from ((processes, parallel, among) for among in divisors or [1])


def on_processors(arguments: argparse.Namespace) -> list[dict]:
    rows = []
    for processes, parallel, among in ways(arguments):
        recipe = small(arguments.steps, parallel, arguments.experts, among)
        found = launched(recipe, processes)
        row = {"parallel": parallel, "processes": processes, "among": among, **summary(found, rows)}
        rows.append({**row, "paper": paper_held(recipe, parallel, processes, among, found[0])})
        print(json.dumps({key: value for key, value in rows[-1].items() if key != "losses"}), flush=True)
    return rows


def launched(recipe: dict, processes: int) -> list[dict]:
    """What each process of a run says of itself."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "recipe.json"
        file.write_text(json.dumps(recipe))
        words = [__file__, "--worker", str(file), folder]
        torchrun = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
        command = [sys.executable, *(torchrun if processes > 1 else []), *words]
        subprocess.run(
            command, check=True, env={**os.environ, "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1")}
        )
        return [json.loads((Path(folder) / f"process-{rank}.json").read_text()) for rank in range(processes)]


def summary(found: list[dict], before: list[dict]) -> dict:
    """Losses beside those of the first run, and bytes of all processes."""
    losses = found[0]["losses"]
    against = before[0]["losses"] if before else losses
    apart = max(abs(one - other) / other for one, other in zip(losses, against, strict=True))
    step = statistics.median(found[0]["seconds"][SETTLED:])
    return {"losses": losses, "apart": apart, "held": [one["held"] for one in found], "step_seconds": round(step, 4)}


def paper_held(recipe: dict, parallel: str, processes: int, among: int, found: dict) -> list[dict]:
    from run_on_paper import held, on_paper

    from regard.run.recipe import resolve_recipe

    model = on_paper(resolve_recipe(recipe).model, found["vocab"])
    return [vars(held(model, parallel, processes, rank, among)) for rank in range(processes)]


# One GPU, one process


def large(name: str, steps: int, parallel: str, text: Path) -> dict:
    """200 million parameters with batches that fill a GPU, or half of Vaswani's base model with small ones.

    Compiled, as streams of text are on a GPU by themselves.
    """
    model, tokens = {
        "base": ({"width": 512, "depth": 6, "heads": 8}, 16384),
        "decoder": ({"width": 1024, "depth": 16, "heads": 16}, 65536),
    }[name]
    return {
        "task": "language_model",
        "data": {"train": {"file": str(text)}, "batching": {"kind": "stream", "context": 1024}},
        "tokenizer": "byte",
        "model": {"kind": "decoder", "dropout": 0.1, **model},
        "train": {"steps": steps, "tokens_per_batch": tokens, "save_every": steps, "log_every": 1, "device": "cuda",
                  "precision": "bfloat16", "compile": "on", "schedule": SCHEDULE, "parallel": parallel},
    }  # fmt: skip


def on_a_gpu(arguments: argparse.Namespace) -> list[dict]:
    rows: dict[tuple[str, str], dict] = {}
    with tempfile.TemporaryDirectory() as folder:
        text = Path(folder) / "text.txt"
        text.write_text(
            "".join(f"line {n}: the quick brown fox jumps over {n % 977} lazy dogs\n" for n in range(60_000))
        )
        for name in arguments.models.split(","):
            for _ in range(arguments.rounds):
                for parallel in ("none", "fsdp"):
                    recipe = large(name, arguments.steps, parallel, text)
                    found = launched(recipe, 1)[0]
                    row = rows.setdefault((name, parallel), {"model": name, "parallel": parallel, "steps": []})
                    row["steps"].append(round(statistics.median(found["seconds"][SETTLED:]), 5))
                    row |= {key: found[key] for key in ("held", "peak_bytes", "flops_per_step", "peak_flops")}
                    row |= {"losses": found["losses"], "step_seconds": statistics.median(row["steps"])}
                    row |= paper_of(recipe, found["vocab"])
                    print(json.dumps({key: value for key, value in row.items() if key != "losses"}), flush=True)
    return list(rows.values())


def paper_of(recipe: dict, vocab: int) -> dict:
    """Bytes on paper of one process that holds all and computes the whole batch."""
    from run_on_paper import Share, activation_bytes, copied_bytes, held, on_paper

    from regard.run.recipe import resolve_recipe

    resolved = resolve_recipe(recipe)
    context = recipe["data"]["batching"]["context"]
    share = Share(recipe["train"]["tokens_per_batch"] // context, context)
    activations = activation_bytes(resolved.model, vocab, share, half=True)
    model = on_paper(resolved.model, vocab)
    copies = copied_bytes(model, recipe["train"]["parallel"], half=True)
    return {"paper": {**vars(held(model, "none", 1)), "copies": copies, "activations": activations}}


# Inside a process


def work(recipe_file: str, out: str) -> None:
    """Trains and writes down what this process saw."""
    import torch

    from regard.run import trainer, training
    from regard.run.recipe import resolve_recipe
    from regard.train.loop import Trainer
    from regard.train.monitor import Watcher
    from regard.train.parallel.state import local_bytes
    from regard.train.precision import machine_peak

    told: dict = {"seconds": [], "losses": []}

    class Timed(Trainer):
        def step(self) -> dict:
            began = time.perf_counter()
            line = super().step()
            told["seconds"].append(time.perf_counter() - began)
            told["losses"].append(line["loss"])
            return line

        def fit(self) -> str:
            ended = super().fit()
            gradients = [p.grad for p in self.model.parameters() if p.grad is not None]
            told["held"] = {
                "weights": local_bytes(self.model.parameters()),
                "moments": local_bytes(self.optimiser.tensors().values()),
                "gradients": local_bytes(gradients),
            }
            told["vocab"] = next(iter(self.task.vocabularies.tokenizers.values())).vocab_size
            told["flops_per_step"] = self.spent.flops / self.spent.steps
            return ended

        def _validate(self) -> None:
            if self.world.device.type == "cuda":  # before a copy for the validation is made
                told["peak_bytes"] = torch.cuda.max_memory_allocated()
                told["peak_flops"] = machine_peak(self.world.device, torch.bfloat16)
            super()._validate()

    class Quiet(Watcher):
        def step(self, line, progress) -> None: ...

        def measured(self, line) -> None: ...

        def say(self, sentence: str) -> None: ...

    trainer.Trainer = Timed  # type: ignore[misc]
    training.train_run(resolve_recipe(json.loads(Path(recipe_file).read_text())), Path(out) / "run", Quiet())
    Path(out, f"process-{os.environ.get('RANK', '0')}.json").write_text(json.dumps(told))


if __name__ == "__main__":
    main()
