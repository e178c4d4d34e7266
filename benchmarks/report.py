"""Writes docs/results.md from docs/measurements/*.json: only the targets are typed by hand."""

import json
from pathlib import Path

import beyond_report

MEASUREMENTS = Path("docs/measurements")
TARGETS = {
    "demo": ("test", "exact_match", "≥ 0.95 and pronoun ≥ 0.97, in ≤ 4 minutes on 2 CPU cores"),
    "multi30k-en-de": ("test", "bleu", "≥ 40.5 (test2016, cased, 13a, beam 5)"),
    "shakespeare-char": ("valid", "loss", "≤ 1.4697"),
    "shakespeare-char-cpu": ("valid", "loss", "≤ 1.88 in 3 minutes on 2 CPU cores"),
    "sst2": ("test", "accuracy", "≥ 0.80, mean of 3 seeds"),
    "imdb": ("test", "accuracy", "≥ 0.85"),
    "wikitext2": ("valid", "perplexity", "≤ 95"),
}
BASELINES = MEASUREMENTS / "baselines"
VARIANTS = MEASUREMENTS / "variants"
SYSTEMS = {
    "lstm": "LSTM, one sentence vector (Sutskever 2014)",
    "lstm-attention": "LSTM with attention",
    "gnmt": "GNMT-like",
    "gnmt-moe": "GNMT-like with mixtures of experts",
    "deep-att": "Deep-Att-like",
    "bytenet": "ByteNet",
    "convs2s": "ConvS2S",
    "moe": "Transformer with mixtures of experts",
    "transformer": "Transformer",
    "words-kept": "LSTM with attention, words, unknown ones kept",
    "words-replaced": "… unknown words replaced (PosUnk)",
    "rl": "LSTM with attention, then expected reward (RL; FLOPs of this part alone)",
    "ensemble-two": "Ensemble: Transformer, LSTM with attention",
    "ensemble-three": "Ensemble: Transformer, LSTM with attention, ConvS2S",
}
BASELINES_HEAD = """
## Baselines at equal training FLOPs

Multi30k en→de, test2016, cased sacreBLEU (13a), beam 5. Every system has seven to eleven million parameters (the
Transformer with experts seventeen, of which it uses eight a token), the same data, batches and schedule, and 6·10¹⁴
training FLOPs; one seed. The learning rates were set once, not tuned. All ran at the same time on one GPU, so the
minutes are not comparable.

| system | BLEU, valid | BLEU, test | training FLOPs | steps | minutes | hardware |
|---|---|---|---|---|---|---|"""
LANGUAGE_HEAD = """### WikiText-2, word by word, 23.4 million parameters each

Run at the same time as others on one GPU, so the minutes are not comparable. The recurrent models are trained on rows
of 64 tokens and evaluated on rows of 1,024; the Transformer has 512 for both. Transformer, LSTM and windows are trained
with Muon, RNN and GRU with AdamW. The plain RNN reached its time limit after two thirds of its steps.

| model | perplexity, valid | training FLOPs | steps | minutes | hardware |
|---|---|---|---|---|---|"""
REVIEWS_HEAD = """### SST-2, average pooling, from scratch

All are trained on 98 % of the training sentences and tested with their last weights; those called chosen are trained on
90 % and tested with the checkpoint that is best on the other tenth.

| model | accuracy on dev, seeds 1, 2, 3 | mean |
|---|---|---|"""
COMPARED = {
    "lectures": (
        "The lectures' table, run here",
        "regard compare recipes/sweeps/lectures.toml data.folder=data/multi30k",
        "Multi30k en→de, every system with the same training FLOPs, tested on test2016; one seed (`--seeds 1`). "
        "[F15](claims.md) compares it with the lectures' claim of better BLEU for less compute.",
    ),
    "modifications": (
        "Do modifications transfer?",
        "regard compare recipes/sweeps/modifications.toml data.folder=data/multi30k",
        "One change at a time to the Transformer of recipes/multi30k-en-de.toml. With so few FLOPs, some 590 steps, "
        "the table shows which variant learns fastest, not which is best after long training; a variant with cheaper "
        "steps gets more of them.",
    ),
    "street": (
        "The Transformer and three baselines on the embedded corpus",
        "regard compare recipes/sweeps/street.toml",
        "Run on two CPU cores; killed half-way and started again, it resumes with the missing runs.",
    ),
}
HEAD = """# What the shipped recipes reach

Written by `python benchmarks/report.py` from the files under `docs/measurements/`, each of which holds the command, the
scores with their signatures, the seed, the hardware and the versions. All choices were made on validation data. A row
whose score misses its target stays in the table. The GPU runs had the residual stream in float32; today's default
there is bfloat16, and `train.residual_dtype=float32` repeats these runs.

| recipe | seed | split | score | all scores | target | steps | minutes | hardware |
|---|---|---|---|---|---|---|---|---|
"""


def main() -> None:
    rows = []
    for file in sorted(MEASUREMENTS.glob("*-seed*.json")):
        result = json.loads(file.read_text(encoding="utf-8"))
        recipe = result["name"].split("-seed")[0].split("+")[0].split("@")[0]
        if recipe in TARGETS and not result["error"]:
            rows.append(row(recipe, result))
    commands = [f"- `{json.loads(file.read_text())['command']}`" for file in sorted(MEASUREMENTS.glob("*-seed*.json"))]
    text = HEAD + "\n".join(rows) + "\n\nCommands:\n\n" + "\n".join(commands) + "\n" + baselines() + comparisons()
    text += beyond_report.sections()
    Path("docs/results.md").write_text(text, encoding="utf-8")
    print(text)


def baselines() -> str:
    """The lectures' table, BLEU beside training FLOPs, and the baselines' language models and classifiers."""
    found = {file.stem: json.loads(file.read_text(encoding="utf-8")) for file in sorted(BASELINES.glob("*.json"))}
    lines = [BASELINES_HEAD]
    for name, label in SYSTEMS.items():
        if name in found:
            started = found[name].get("start")
            begun = f", started at {started['valid']:.2f} and {started['test']:.2f}" if started else ""
            lines.append(baseline_row(label + begun, found[name]))
    lines += ["", LANGUAGE_HEAD]
    lines.append(language_row("transformer (without R-Drop)", variant("wikitext2@plain-seed1")))
    for name in ("wikitext2-rnn", "wikitext2-gru", "wikitext2-lstm", "wikitext2-window"):
        lines.append(language_row(name.removeprefix("wikitext2-"), found[name]))
    lines.append(language_row("lstm with AdamW", variant("wikitext2-lstm@adamw-seed1")))
    reviews = [name for name in found if name.startswith("sst2-")]
    if reviews:
        ours = {
            file.stem.replace("sst2-", "sst2-transformer-"): json.loads(file.read_text(encoding="utf-8"))
            for file in sorted(MEASUREMENTS.glob("sst2-seed*.json"))
        }
        chosen = {file.stem: variant(file.stem) for file in sorted(VARIANTS.glob("sst2-*@chosen-seed*.json"))}
        lines += ["", REVIEWS_HEAD, *review_rows({**found, **ours, **chosen}, [*reviews, *ours, *chosen])]
    lines += ["", "Commands:", "", *(f"- `{command(result)}`" for result in found.values()), ""]
    return "\n".join(lines)


def command(result: dict) -> str:
    """The stored command; measurements before the folder's renaming have its old name."""
    return result["command"].replace("recipes/rivals/", "recipes/baselines/")


def variant(name: str) -> dict:
    """A measurement that is no recipe's figure."""
    return json.loads((VARIANTS / f"{name}.json").read_text(encoding="utf-8"))


def comparisons() -> str:
    """The tables that `regard compare` wrote, with their pictures."""
    parts = []
    for name, (title, command, sentence) in COMPARED.items():
        folder = MEASUREMENTS / "compared" / name
        if not (folder / "table.md").is_file():
            continue
        machine = json.loads((folder / "table.json").read_text(encoding="utf-8"))["machine"]
        table = (folder / "table.md").read_text(encoding="utf-8")
        picture = f"![{title}](measurements/compared/{name}/plot.png)"
        parts.append(f"\n## {title}\n\n{sentence} {machine}; `{command}`.\n\n{table}\n{picture}\n")
    return "".join(parts) + ladder()


def ladder() -> str:
    """The power laws that `regard compare --scaling` fitted, and the forecast that a later run checked."""
    file = MEASUREMENTS / "compared" / "scaling" / "scaling.md"
    if not file.is_file():
        return ""
    picture = "![loss against size, data and compute](measurements/compared/scaling/scaling.png)"
    command = "`regard compare --scaling recipes/sweeps/scaling.toml`, two CPU cores"
    return f"\n## A scaling ladder\n\n{command}.\n\n{file.read_text(encoding='utf-8')}\n{picture}\n"


def baseline_row(label: str, result: dict) -> str:
    scores, training = result["scores"], result.get("training")
    spent = (
        f"{training['flops']:.2e} | {training['step']:,} | {training['seconds'] / 60:.1f}" if training else "– | – | –"
    )
    machine = result["machine"]
    return (
        f"| {label} | {scores['valid']['metrics']['bleu']:.2f} | **{scores['test']['metrics']['bleu']:.2f}** | {spent} "
        f"| {machine['gpu']}, torch {machine['torch']} |"
    )


def language_row(label: str, result: dict) -> str:
    training, found = result["training"], result["scores"]["valid"]["metrics"]
    return (
        f"| {label} | {found['perplexity']:.1f} | {training['flops']:.2e} | {training['step']:,} "
        f"| {training['seconds'] / 60:.1f} | {result['machine']['gpu']} |"
    )


def review_rows(found: dict[str, dict], names: list[str]) -> list[str]:
    kinds = sorted({name.split("-seed")[0] for name in names})
    rows = []
    for kind in kinds:
        runs = [found[name] for name in names if name.startswith(f"{kind}-seed")]
        tests = [run["scores"]["test"]["metrics"]["accuracy"] for run in runs]
        seeds = ", ".join(f"{value:.4f}" for value in tests)
        label = kind.removeprefix("sst2-").replace("@", ", ")
        rows.append(f"| {label} | {seeds} | **{sum(tests) / len(tests):.4f}** |")
    return rows


def row(recipe: str, result: dict) -> str:
    split, metric, target = TARGETS[recipe]
    scores = result["scores"].get(split) or next(iter(result["scores"].values()))
    found = scores["metrics"]
    others = ", ".join(f"{name} {value:.4g}" for name, value in found.items() if name != metric)
    machine, training = result["machine"], result["training"]
    hardware = machine["gpu"] or f"{machine['cores']} CPU cores"
    seed = result["name"].split("-seed")[-1]
    return (
        f"| {recipe} | {seed} | {split} | **{metric} {found[metric]:.4f}** | {others} | {target} "
        f"| {training['step']:,} | {training['seconds'] / 60:.1f} | {hardware}, torch {machine['torch']} |"
    )


if __name__ == "__main__":
    main()
