"""Images, pre-training and syntax for docs/results.md, from the files under docs/measurements, and documents too."""

import json
from itertools import combinations
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import documents_report
from parts import hardware, read, unpack_answers

from regard.metrics import accuracy_test
from regard.models import VisionConfig

MEASUREMENTS = Path("docs/measurements")
IMAGES = {"images-fashion-mnist": ("Fashion-MNIST", "≥ 0.930"), "images-cifar10": ("a tenth of CIFAR-10", "–")}
CLASSES = 10
SYSTEMS = {
    "adapted": "started from the masked language model, then trained on SST-2's sentences without their labels",
    "masked": "started from the masked language model",
    "causal": "started from the causal language model",
    "scratch": "the same model from scratch",
    "recipe": "recipes/sst2.toml from scratch",
}
POSITIONS = ("sinusoidal", "rotary", "tree")
IMAGES_HEAD = """## Images

Vision Transformers from scratch. The checkpoint, and the settings where several were tried, were chosen on images held
out from the training data, never on the test images.

| data | parameters | accuracy, test | valid | target | epochs | steps | minutes | seed, hardware |
|---|---|---|---|---|---|---|---|---|"""
PRETRAINING_HEAD = """## Pre-training

Classifiers of SST-2, tested on its dev sentences. The gain is over the same model from scratch. p is McNemar's, over
the predictions of the seeds that both have; p over seeds is that of an exact permutation test of the mean accuracies
over all runs of both. The result of recipes/sst2.toml from scratch is above: its smaller model is made for so few
sentences, this one is the encoder of wikitext2-mlm.toml.
"""
SYNTAX_HEAD = """## Syntax

UD English EWT: trained on nine tenths of the shared half of its training data, tested on dev. p is McNemar's against
sinusoidal positions, over the words of all seeds.
"""


def sections(measurements: Path = MEASUREMENTS) -> str:
    """All sections; a sentence where something is not measured yet."""
    parts = [documents_report.sections(measurements / "documents"), images(measurements)]
    parts += [pretraining(read(measurements / "pretraining")), syntax(read(measurements / "syntax"))]
    return "\n" + "\n".join(parts)


def images(measurements: Path) -> str:
    """A row for each trained image classifier; their commands stand among those of the other recipes."""
    rows = []
    for name in IMAGES:
        for file in sorted(measurements.glob(f"{name}*-seed*.json")):
            result = json.loads(file.read_text(encoding="utf-8"))
            if not result["error"]:
                rows.append(image_row(name, result))
    if not rows:
        command = "python benchmarks/results.py images/fashion-mnist images/cifar10 --test"
        return IMAGES_HEAD.partition("\n\n|")[0] + f"\n\nNot measured yet: `{command}`.\n"
    return "\n".join([IMAGES_HEAD, *rows, ""])


def image_row(name: str, result: dict[str, Any]) -> str:
    title, target = IMAGES[name]
    scores, training = result["scores"], result["training"]
    seed = result["name"].split("-seed")[-1]
    parameters = VisionConfig.from_tree(result["recipe"]["model"]).num_params(CLASSES)
    test, valid = (f"{scores[split]['metrics']['accuracy']:.4f}" for split in ("test", "valid"))
    return (
        f"| {title} | {parameters:,} | **{test}** | {valid} | {target} | {training['epoch']:.0f} "
        f"| {training['step']:,} | {training['seconds'] / 60:.1f} | {seed}, {hardware(result)} |"
    )


def pretraining(parts: dict[str, dict[str, Any]]) -> str:
    """Classifiers that begin with a pre-trained model beside those that do not."""
    runs = {system: [part for part in parts.values() if part.get("system") == system] for system in SYSTEMS}
    if not any(runs.values()):
        return f"{PRETRAINING_HEAD}\nNot measured yet: `python benchmarks/pretraining.py pretrain`, then `classify`.\n"
    lines = [
        PRETRAINING_HEAD,
        "| classifier | accuracy by seed | mean | deviation | gain | p | p over seeds |",
        "|---|---|---|---|---|---|---|",
    ]
    lines += [classifier_row(SYSTEMS[system], found, runs["scratch"]) for system, found in runs.items() if found]
    lines += ["", *map(pretrained_sentence, (part for part in parts.values() if "start" in part))]
    some = next(found for found in runs.values() if found)[0]
    lines += [f"{some['examples']:,} sentences; {hardware(some)}.", "", "Commands:", ""]
    return "\n".join([*lines, *(f"- `{part['command']}`" for part in parts.values()), ""])


def classifier_row(title: str, runs: list[dict[str, Any]], scratch: list[dict[str, Any]]) -> str:
    scores, beside = ([run["accuracy"]["test"] for run in found] for found in (runs, scratch))
    spread = f"{stdev(scores):.4f}" if len(scores) > 1 else "–"
    cells = [title, ", ".join(f"{score:.4f}" for score in scores), f"**{mean(scores):.4f}**", spread]
    if not scratch or runs == scratch:
        return "| " + " | ".join([*cells, "–", "–", "–"]) + " |"
    gain = f"{mean(scores) - mean(beside):+.4f}"
    return "| " + " | ".join([*cells, gain, p_value(scratch, runs), f"{p_over_seeds(beside, scores):.3f}"]) + " |"


def p_over_seeds(before: list[float], after: list[float]) -> float:
    """The exact test by permutation: the share of all splits of the runs whose means differ at least as much."""
    runs, apart = [*before, *after], abs(mean(after) - mean(before))
    splits = list(combinations(range(len(runs)), len(after)))
    as_far = 0
    for chosen in splits:
        rest = [runs[place] for place in range(len(runs)) if place not in chosen]
        as_far += abs(mean(runs[place] for place in chosen) - mean(rest)) >= apart - 1e-12
    return as_far / len(splits)


def pretrained_sentence(part: dict[str, Any]) -> str:
    training, text = part["training"], "SST-2" if part["start"] == "adapted" else "WikiText-2"
    return (
        f"The {part['start']} language model: perplexity {part['metrics']['perplexity']:.1f} on {text}'s validation "
        f"text after {training['step']:,} steps, {training['seconds'] / 60:.1f} minutes."
    )


def p_value(before: list[dict[str, Any]], after: list[dict[str, Any]]) -> str:
    """McNemar's p over the predictions of the seeds that both have, where all of them were stored."""
    seeds = {run["seed"] for run in before} & {run["seed"] for run in after}
    if not all("right" in run for run in (*before, *after) if run["seed"] in seeds):
        return "–"
    answers = [
        [answer for run in runs if run["seed"] in seeds for answer in unpack_answers(run["right"])]
        for runs in (before, after)
    ]
    if not seeds:
        return "–"
    found = accuracy_test(*answers).p_value
    return "< 0.0001" if found < 0.0001 else f"{found:.4f}"


def syntax(parts: dict[str, dict[str, Any]]) -> str:
    """Tagging by kind of positions, and the parser's attachment scores."""
    tagged = {kind: [part for part in parts.values() if is_tagger(part, kind)] for kind in POSITIONS}
    parsed = [part for part in parts.values() if part["recipe"] == "parse"]
    if not parts:
        return f"{SYNTAX_HEAD}\nNot measured yet: `python benchmarks/syntax.py upos`, then `parse`.\n"
    lines = [SYNTAX_HEAD, "| positions | UPOS accuracy by seed | mean | p |", "|---|---|---|---|"]
    lines += [tagger_row(kind, runs, tagged["sinusoidal"]) for kind, runs in tagged.items() if runs]
    lines += ["", *(parser_sentence(part) for part in parsed)]
    if not parsed:
        lines.append("The parser is not measured yet: `python benchmarks/syntax.py parse`.")
    lines += [f"{hardware(next(iter(parts.values())))}.", "", "Commands:", ""]
    return "\n".join([*lines, *(f"- `{part['command']}`" for part in parts.values()), ""])


def is_tagger(part: dict[str, Any], kind: str) -> bool:
    return part["recipe"] == "upos" and part["position"] == kind


def tagger_row(kind: str, runs: list[dict[str, Any]], first: list[dict[str, Any]]) -> str:
    scores = [run["test"]["accuracy"] for run in runs]
    sure = "–" if runs is first else p_value(first, runs)
    return f"| {kind} | {', '.join(f'{score:.4f}' for score in scores)} | **{mean(scores):.4f}** | {sure} |"


def parser_sentence(part: dict[str, Any]) -> str:
    scores = ", ".join(f"{name} {value:.4f}" for name, value in part["test"].items())
    return (
        f"The parser that generates brackets (recipes/syntax/parse.toml, seed {part['seed']}): {scores} "
        f"over {part['examples']:,} sentences, {part['parameters'] / 1e6:.1f} M parameters, "
        f"{part['training']['step']:,} steps."
    )


if __name__ == "__main__":
    print(sections())
