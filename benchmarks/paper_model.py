"""Writes the tables of docs/grow.md: measurements and estimates. No figure is typed by hand.

python benchmarks/paper_model.py
"""

import json
import math
import re
from dataclasses import dataclass, replace
from pathlib import Path

from run_on_paper import Cluster, Estimate, Share, estimate

from regard.models import DecoderConfig, EncoderDecoderConfig, preset
from regard.train.parallel.model import Parallel

ROOT = Path(__file__).parents[1]
DOCUMENT, MEASUREMENTS = ROOT / "docs" / "grow.md", ROOT / "docs" / "measurements"


def main() -> None:
    DOCUMENT.write_text(filled(DOCUMENT.read_text(encoding="utf-8")), encoding="utf-8")


def filled(document: str) -> str:
    """The document with its tables made anew."""
    texts = {"measured": measured(), "paper": paper()}
    for name, text in texts.items():
        found = re.compile(f"<!-- {name}: begin -->.*<!-- {name}: end -->", re.DOTALL)
        document, count = found.subn(lambda _, n=name, t=text: f"<!-- {n}: begin -->\n{t}\n<!-- {n}: end -->", document)
        assert count == 1, f"docs/grow.md has no place for what is {name}"
    return document


def stored(name: str) -> dict | None:
    file = MEASUREMENTS / f"{name}.json"
    return json.loads(file.read_text(encoding="utf-8")) if file.exists() else None


# What was measured


def measured() -> str:
    makers = {"grow-cpu": processors, "grow-experts": experts, "grow-gpu": gpu}
    return "\n".join(make(found) for name, make in makers.items() if (found := stored(name)))


def processors(result: dict) -> str:
    machine = result["machine"]
    lines = [
        f"**gloo on one host of {machine['cores']} cores**, torch {machine['torch']}, one thread for each process, "
        f"load of the host {result['load']:.1f}: {len(result['rows'][0]['losses'])} steps of the same translator. "
        "KiB held: weights and optimiser moments.\n",
        "| | processes | largest difference of a loss | KiB held by each | estimate | seconds per step |",
        "|---|---|---|---|---|---|",
    ]
    for row in result["rows"]:
        held, told = (sorted({round(kept(one) / 1024) for one in row[key]}) for key in ("held", "paper"))
        assert row["held"] == row["paper"], "what was held is not what the paper says"
        lines.append(
            f"| {row['parallel']} | {row['processes']} | {row['apart']:.1e} | {spread(held)} | {spread(told)} "
            f"| {row['step_seconds']:.3f} |"
        )
    return "\n".join(lines) + "\n"


def experts(result: dict) -> str:
    """A model with mixtures, whose experts are divided among some processes."""
    lines = [
        f"**The same with eight experts in each feed-forward part**, load of the host {result['load']:.1f}: "
        f"{len(result['rows'][0]['losses'])} steps.\n",
        "| | processes | experts divided among | largest difference of a loss | KiB held by each | estimate |",
        "|---|---|---|---|---|---|",
    ]
    for row in result["rows"]:
        held, told = (sorted({round(kept(one) / 1024) for one in row[key]}) for key in ("held", "paper"))
        assert row["held"] == row["paper"], "what was held is not what the paper says"
        lines.append(
            f"| {row['parallel']} | {row['processes']} | {row['among']} | {row['apart']:.1e} | {spread(held)} "
            f"| {spread(told)} |"
        )
    return "\n".join(lines) + "\n"


def kept(held: dict) -> int:
    return held["weights"] + held["moments"]


def spread(values: list[int]) -> str:
    return f"{values[0]:,}" if values[0] == values[-1] else f"{values[0]:,}–{values[-1]:,}"


def gpu(result: dict) -> str:
    """One-process FSDP against none; the memory beside the paper's; the share of the peak that is reached."""
    machine = result["machine"]
    lines = [
        f"**{machine['gpu']}**, torch {machine['torch']}, one process, bfloat16, compiled, "
        "which keeps fewer activations than the estimate counts.\n",
        "| model | | ms per step | relative to none | peak GB | estimate | share of the peak |",
        "|---|---|---|---|---|---|---|",
    ]
    plain = {row["model"]: row["step_seconds"] for row in result["rows"] if row["parallel"] == "none"}
    peak = max(row["peak_flops"] for row in result["rows"])  # measured in each process, and at times disturbed
    for row in result["rows"]:
        paper, more = sum(row["paper"].values()), row["step_seconds"] / plain[row["model"]] - 1
        lines.append(
            f"| {row['model']} | {row['parallel']} | {1e3 * row['step_seconds']:.1f} | {more:+.1%} "
            f"| {row['peak_bytes'] / 1e9:.2f} | {paper / 1e9:.2f} | {reached(row, peak):.0%} |"
        )
    return "\n".join(lines) + "\n"


def reached(row: dict, peak: float) -> float:
    return row["flops_per_step"] / row["step_seconds"] / peak


# Estimates


@dataclass(frozen=True)
class Plan:
    """A run to put on paper; `together` is what a GPU computes in one go at most."""

    title: str
    config: DecoderConfig | EncoderDecoderConfig
    vocab: int
    tokens: int
    """Tokens of a step, both sides and all GPUs."""
    steps: int
    together: Share
    like: str
    """The model of the measurement on a GPU that tells how much of its peak is reached."""
    settings: tuple[tuple[Parallel, bool], ...] = (("ddp", True), ("fsdp", True))
    """How it is shared out, and whether activations are kept."""


def plans() -> list[Plan]:
    base, big = (EncoderDecoderConfig.from_tree(preset(f"transformer-{size}").model) for size in ("base", "big"))
    billion = DecoderConfig(width=2048, depth=18, heads=16, dropout=0.0)
    pair, text = Share(rows=128, target=32, source=32), Share(rows=8, target=2048)
    wmt = "25,000 tokens of each language a step"
    return [
        Plan(f"WMT14, base: {wmt}, 100,000 steps", base, 37_000, 50_000, 100_000, pair, "base"),
        Plan(f"WMT14, big: {wmt}, 300,000 steps", big, 37_000, 50_000, 300_000, pair, "base"),
        Plan(
            "A decoder of a billion parameters: 524,288 tokens a step in rows of 2,048, 40,000 steps",
            billion, 32_000, 524_288, 40_000, text, "decoder", (("ddp", True), ("fsdp", True), ("fsdp", False)),
        ),
    ]  # fmt: skip


def cluster(gpus: int, like: str) -> Cluster:
    """GPUs that reach what one of them reached with such a model, where that was measured."""
    usual, rows = Cluster(gpus), (stored("grow-gpu") or {"rows": []})["rows"]
    found = [row for row in rows if (row["model"], row["parallel"]) == (like, "none")]
    return (
        replace(usual, reached=round(reached(found[0], max(row["peak_flops"] for row in rows)), 2)) if found else usual
    )


def paper() -> str:
    one = Cluster(8)
    known = "the share measured above for such a model, else " if stored("grow-gpu") else ""
    share = f"{known}{one.reached:.0%} (a guess)"
    head = (
        f"Assumed: machines of {one.per_machine} GPUs with {one.memory / 1e9:.0f} GB and {one.peak / 1e12:.0f} TFLOP/s "
        f"in bfloat16, of which training reaches {share}; {one.near / 1e9:.0f} GB/s from each GPU to others of its "
        f"machine, {one.far / 1e9:.0f} GB/s to other machines. Hours: where all communication overlaps with "
        "computation, and where none does.\n"
    )
    return head + "\n".join(table(plan) for plan in plans()) + "\n"


def table(plan: Plan) -> str:
    head = [
        "",
        "GPUs",
        "micro-batches",
        "GB held",
        "copies",
        "activations",
        "total",
        "ms compute",
        "ms communication",
        "hours",
    ]
    lines = [
        f"\n**{plan.title}** ({plan.config.num_params(plan.vocab) / 1e6:,.0f} million parameters)\n",
        f"| {' | '.join(head)} |",
        "|---" * len(head) + "|",
    ]
    return "\n".join([*lines, *(row(plan, *how, gpus) for how in plan.settings for gpus in (8, 16, 32, 64))])


def row(plan: Plan, parallel: Parallel, keep: bool, gpus: int) -> str:
    """A line; a GPU computes its share of a step in as few parts as the plan allows."""
    each = plan.tokens / gpus
    parts = math.ceil(each / plan.together.tokens)
    rows = max(1, round(each / parts / (plan.together.source + plan.together.target)))
    share = replace(plan.together, rows=rows)
    found = estimate(plan.config, plan.vocab, share, cluster(gpus, plan.like), parallel, accumulate=parts, kept=keep)
    cells = [parallel if keep else f"{parallel}, recomputed", gpus, parts]
    cells += [f"{size / 1e9:.2f}" for size in (found.held, found.copies, found.activations, found.memory)]
    cells += [f"{1e3 * found.compute:.1f}", f"{1e3 * found.talk:.1f}"]
    cells.append("–".join(f"{plan.steps * seconds / 3600:.2f}" for seconds in between(found)))
    return f"| {' | '.join(map(str, cells))} |"


def between(found: Estimate) -> tuple[float, float]:
    """Seconds per step where communication overlaps with computation as far as it can, and where it does not at all."""
    return max(found.compute, found.talk), found.compute + found.talk


if __name__ == "__main__":
    main()
