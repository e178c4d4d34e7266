"""The systems of Liu 2018 on documents: trained, tested, and what they need for long ones.

    python benchmarks/documents.py train aeslc scitldr qmsum --data ../data
    python benchmarks/documents.py train aeslc --systems T-DMCA --data ../data     # one of them, beside other processes
    python benchmarks/documents.py memory --lengths 500,4000,11000
    python benchmarks/documents_report.py

`train` takes the variants of `recipes/documents/NAME-systems.toml` one after another and keeps perplexity, ROUGE,
FLOPs, seconds and the most memory that training took in `docs/measurements/documents/`, a file for each. `memory` makes
single training steps of the QMSum recipe's model over one document, with full attention, with full attention that keeps
its weights (as all did in 2018), and with local and memory-compressed layers, into `memory.json` beside them.
"""

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from parts import peak_of_memory, start_of_memory, store
from torch import nn

from regard import api
from regard.compare.sweep import Variant, read_sweep
from regard.data.collate import Ragged, pad
from regard.models import DecoderConfig
from regard.nn.attention.module import Attention
from regard.nn.fast.sdpa import disable_cudnn_attention
from regard.run.recipe import read_recipe
from regard.tasks.summarisation import joined_inputs, losses_at_targets
from regard.text.special_tokens import BOS, EOS
from regard.train.log import read_metrics
from regard.train.precision import choose_precision

RECIPES = Path("recipes/documents")
FOLDERS = {"aeslc": "aeslc", "scitldr": "scitldr-a", "qmsum": "qmsum"}
FIVE = "seq2seq-attention,T-ED,T-D,T-DMCA,T-DMCA-MoE"


def main() -> None:
    arguments = parse()
    if arguments.what == "memory":
        command = f"python benchmarks/documents.py memory --lengths {arguments.lengths}"
        store(arguments.out / "memory.json", {"name": "memory", "command": command, "rows": memory_rows(arguments)})
        return
    for name in arguments.names or FOLDERS:
        measure_systems(name, arguments)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["train", "memory"])
    parser.add_argument("names", nargs="*", help=f"data sets of {', '.join(FOLDERS)}; all when left out")
    parser.add_argument("--systems", default=FIVE, help="names of variants, by commas; 'all' for all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--set", nargs="*", default=[], metavar="KEY=VALUE", help="settings on top of every system")
    parser.add_argument("--data", type=Path, default=Path("data"), help="folder with one folder a data set")
    parser.add_argument("--runs", type=Path, default=Path("runs/documents"))
    parser.add_argument("--out", type=Path, default=Path("docs/measurements/documents"))
    parser.add_argument("--lengths", default="500,4000,11000", help="tokens of the input, for memory")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    arguments = parser.parse_args()
    if unknown := set(arguments.names) - set(FOLDERS):
        parser.error(f"unknown data set {min(unknown)}")
    return arguments


def measure_systems(name: str, arguments: argparse.Namespace) -> None:
    """The systems on one data set; each is kept once it is done."""
    folder = f"data.folder={(arguments.data / FOLDERS[name]).resolve()}"
    sweep = read_sweep([RECIPES / f"{name}-systems.toml"], [folder, f"seed={arguments.seed}", *arguments.set])
    known = [variant.name for variant in sweep.variants]
    wanted = known if arguments.systems == "all" else arguments.systems.split(",")
    if unknown := set(wanted) - set(known):
        raise SystemExit(f"{name}: no system is called {min(unknown)}")
    for variant in sweep.variants:
        if variant.name in wanted:
            run = arguments.runs / f"{name}-{variant.folder}-seed{arguments.seed}"
            row = measured(variant, run, arguments)
            words = ["python benchmarks/documents.py train", name, "--systems", variant.name]
            command = " ".join([*words, *(["--set", *arguments.set] if arguments.set else [])])
            part = {"name": name, "seed": arguments.seed, "command": command, **row}
            store(arguments.out / f"{name}-{variant.folder}.json", part)
            print(json.dumps(part), flush=True)


def measured(variant: Variant, folder: Path, arguments: argparse.Namespace) -> dict:
    """One system, trained (or opened, where it is trained already) and tested."""
    recipe = variant.recipe.but(train=variant.recipe.train.but(device=arguments.device))
    peak = folder / "peak.json"
    if not peak.exists():
        start_of_memory(arguments.device)
        api.train(recipe, out=folder, resume=(folder / "recipe.toml").exists())
        peak.write_text(json.dumps(peak_of_memory(arguments.device)), encoding="utf-8")
    run = api.load(folder, arguments.device)
    split = "test" if recipe.data.test is not None else "valid"
    report = api.evaluate(run, split)
    spent = [line for line in read_metrics(folder / "metrics.jsonl") if line.get("split") == "train"][-1]
    return {
        "system": variant.name,
        "input_tokens": recipe.task.input_tokens,  # type: ignore[union-attr]
        "parameters": run.task.num_params(recipe.model),
        "split": split,
        "examples": report.examples,
        "metrics": report.metrics,
        "signatures": report.signatures,
        **{key: spent[key] for key in ("step", "tokens", "flops", "seconds")},
        "gib": json.loads(peak.read_text(encoding="utf-8")),
    }


def memory_rows(arguments: argparse.Namespace) -> list[dict]:
    """Single training steps of each kind of attention over documents of each length."""
    recipe = read_recipe(RECIPES / "qmsum.toml", arguments.set)
    compressed = recipe.model
    assert isinstance(compressed, DecoderConfig)
    full = compressed.but(attention="full")
    kinds = {
        "full": (full, False),
        "full, weights kept": (full, True),
        "local and compressed": (compressed, False),
    }
    rows = []
    for length in map(int, arguments.lengths.split(",")):
        for name, (config, keeps) in kinds.items():
            row = {"attention": name, "input_tokens": length}
            try:
                rows.append({**row, **training_step(config, length, keeps, recipe.tokenizer.size, arguments.device)})
            except torch.OutOfMemoryError as error:
                rows.append({**row, "error": str(error).splitlines()[0][:200]})
            print(json.dumps(rows[-1]), flush=True)
    return rows


def training_step(config: DecoderConfig, length: int, keeps: bool, vocab: int, device: str, output: int = 200) -> dict:
    """Milliseconds, the most memory beside the weights, and the FLOPs of one document's forward and backward pass."""
    torch.manual_seed(1)
    disable_cudnn_attention()
    model = config.build(vocab).to(device).train()
    if keeps:
        keep_weights(model)
    ids = np.random.default_rng(1).integers(7, vocab, length + output).tolist()
    source, target = (pad(Ragged.of([row])) for row in ([*ids[: length - 1], EOS], [BOS, *ids[length:], EOS]))
    inputs = joined_inputs(source, target, config, vocab, torch.device(device), lambda *_: 0.0)
    precision = choose_precision("bfloat16" if device == "cuda" else "float32", device)

    def step() -> None:
        with precision.autocast():
            loss = losses_at_targets(model, model.hidden(*inputs.arguments), inputs.targets).objective / inputs.count
        loss.backward()
        model.zero_grad(set_to_none=True)

    step()
    base = start_of_memory(device)
    seconds = min(timed(step, device) for _ in range(3))
    peak = peak_of_memory(device)
    gib = None if peak is None else round(peak - base, 3)
    return {"ms": round(1e3 * seconds, 2), "gib": gib, "flops": inputs.flops, "precision": precision.name}


def keep_weights(model: nn.Module) -> None:
    """Has every attention compute by the reference, which holds a weight for each pair."""
    for part in model.modules():
        if isinstance(part, Attention):
            part.recorder = lambda _: None


def timed(call: Callable[[], None], device: str) -> float:
    began = time.perf_counter()
    call()
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
