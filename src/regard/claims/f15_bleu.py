"""F15: better BLEU at lower training cost than recurrent and convolutional systems."""

import json
from pathlib import Path

from matplotlib.figure import Figure

from regard.claims.claim import Claim, Finding, Numbers, at_least
from regard.claims.figure import ATTENTION, RECURRENT, WINDOWS, bars
from regard.claims.setup import Setup
from regard.data.street import pairs
from regard.decode import GreedyConfig
from regard.files.run_folder import METRICS_FILE
from regard.metrics.texts import bleu
from regard.run.recipe import demo_recipe
from regard.train.log import read_metrics

STORED = Path(__file__).parents[3] / "docs" / "measurements" / "baselines"
"""Baselines trained on Multi30k with equal FLOPs; exists in a checkout of the repository."""
RECURRENT_KINDS, WINDOW_KINDS = ("lstm-seq2seq", "gnmt", "deep-att"), ("bytenet", "convs2s")
SMALL = {
    "Transformer": ("model.kind=encoder-decoder", "model.depth=2"),
    "LSTM with attention": ("model.kind=lstm-seq2seq", "model.depth=1"),
    "ConvS2S": ("model.kind=convs2s", "model.depth=3"),
}


class Bleu(Claim):
    name, title = "f15", "better BLEU for less compute"
    says = "The Transformer reaches better BLEU at lower training cost than recurrent and convolutional systems."
    how = (
        "Test BLEU of single systems that were trained from scratch with the same training FLOPs: the repository's "
        "stored runs on Multi30k (English to German), or, where there are none, small ones trained now on the "
        "embedded corpus."
    )

    def measure(self, setup: Setup) -> Numbers:
        stored = [] if setup.quick else _stored(STORED)
        systems = stored or [_trained(name, setup) for name in SMALL]
        return {"data": "Multi30k" if stored else "the embedded corpus", "systems": systems}

    def check(self, numbers: Numbers) -> list[Finding]:
        """Against the best baseline of each family: a BLEU point is more than seeds differ, for no more FLOPs."""
        ours = next(system for system in numbers["systems"] if system["family"] == "attention")
        findings = []
        for family, label in (("recurrent", "recurrent"), ("windows", "convolutional")):
            baseline = max((one for one in numbers["systems"] if one["family"] == family), key=lambda one: one["bleu"])
            more_flops = ours["flops"] > 1.02 * baseline["flops"]
            verdict = at_least(ours["bleu"] - baseline["bleu"], 1.0, 0.0)
            measured = (
                f"BLEU {ours['bleu']:.1f} and {baseline['bleu']:.1f} ({baseline['name']}) for {ours['flops']:.1e} FLOPs"
            )
            findings.append(Finding(f"better than the best {label} system for the same compute", measured,
                                 "inconclusive" if more_flops and verdict == "holds" else verdict))  # fmt: skip
        return findings

    def headline(self, numbers: Numbers) -> str:
        systems = sorted(numbers["systems"], key=lambda one: -one["bleu"])
        ours = next(system for system in systems if system["family"] == "attention")
        baseline = next(system for system in systems if system["family"] != "attention")
        return (
            f"For {ours['flops']:.0e} FLOPs on {numbers['data']} the Transformer gets BLEU {ours['bleu']:.1f}, "
            f"the best baseline {baseline['bleu']:.1f}"
        )

    def draw(self, figure: Figure, numbers: Numbers) -> None:
        axes = figure.subplots()
        systems = sorted(numbers["systems"], key=lambda one: -one["bleu"])
        colours = {"attention": ATTENTION, "recurrent": RECURRENT, "windows": WINDOWS}
        bars(axes, [one["name"] for one in systems], [one["bleu"] for one in systems],
             [colours[one["family"]] for one in systems], "{:.1f}")  # fmt: skip
        axes.set_xlabel(f"BLEU on {numbers['data']}, same training FLOPs for all")


def _stored(folder: Path) -> list[dict[str, object]]:
    """Single systems trained from scratch, from their stored measurements: of each kind and name one."""
    systems: list[dict[str, object]] = []
    for file in sorted(folder.glob("*.json")):
        tree = json.loads(file.read_text(encoding="utf-8"))
        scored = tree["scores"].get("test", {}).get("metrics", {}).get("bleu")
        model = tree.get("recipe", {}).get("model", {})
        experts = isinstance(model.get("feedforward"), dict) and model["feedforward"].get("kind") == "experts"
        if scored is None or "kind" not in model or experts:
            continue
        name = "Transformer" if model["kind"] == "encoder-decoder" else file.stem
        systems.append(_system(name, scored, tree["training"]["flops"], model["kind"]))
    return systems if {system["family"] for system in systems} == {"attention", "recurrent", "windows"} else []


def _system(name: str, score: float, flops: float, kind: str) -> dict[str, object]:
    family = "recurrent" if kind in RECURRENT_KINDS else "windows" if kind in WINDOW_KINDS else "attention"
    return {"name": name, "bleu": score, "flops": flops, "family": family}


def _trained(name: str, setup: Setup) -> dict[str, object]:
    """A small system, trained with the same FLOPs as the others on the embedded corpus."""
    settings = [*SMALL[name], "model.width=64", "train.device=cpu", f"seed={setup.seed}", "train.steps=4000"]
    budget = [f"train.flops={setup.pick('6e11', '1e8')}", f"data.train.street={setup.pick('train', 'valid')}"]
    run = setup.trained(f"small {name}", demo_recipe([*settings, *budget, "model.dropout=0.0"]))
    sources, references = zip(*pairs("test", setup.pick(500, 4)), strict=True)
    outputs = run.translate(sources, GreedyConfig(max_length=setup.pick(64, 4)), split=False)
    flops = max(line["flops"] for line in read_metrics(run.folder / METRICS_FILE) if "flops" in line)
    return _system(name, bleu([row[0].text for row in outputs], references).value, flops, run.recipe.model.kind)
