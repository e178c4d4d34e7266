"""The end of a run: baselines, curves, the model card, what was reached in a few sentences, and the next commands."""

import shlex
from collections.abc import Iterable, Mapping
from itertools import islice
from math import isfinite, nan
from pathlib import Path
from typing import Any

from regard import __version__, metrics
from regard.config.values import is_table
from regard.data.batches import BucketedConfig
from regard.data.examples import DescribedPicture, Example, LabelledPicture, Tagged
from regard.data.source_reader import read_examples, read_pairs
from regard.data.store import Store
from regard.errors import RegardError, counted
from regard.files.atomic import write_atomic
from regard.files.run_folder import BASELINE_FILE, CARD_FILE, CURVES_FILE, METRICS_FILE, RECIPE_FILE
from regard.files.strict_json import table_from_json, to_json
from regard.metrics.baseline import Baseline
from regard.metrics.registry import METRICS, needs_text
from regard.progress.display import duration
from regard.run.recipe import Recipe
from regard.run.trained import Run
from regard.tasks import MultiLabel, Task
from regard.tasks.evaluation import measuring_batches
from regard.tasks.multi_label import measure_matrices, save_thresholds
from regard.train.curves import curves
from regard.train.log import read_metrics
from regard.train.loop import Trainer
from regard.train.monitor import Watcher
from regard.train.trend import shown_scores, shown_value

MOST_PAIRS = 1000
"""Pairs whose sources are scored as if they were translations."""
LONGEST_SAMPLE = 40
"""Characters of a text in a command."""

Line = Mapping[str, Any]


# Trivial baselines


def write_baselines(
    folder: Path, recipe: Recipe, task: Task, splits: Mapping[str, Store], base: Path, metric: str
) -> None:
    """Scores of trivial answers on the validation data: always the most frequent one, or a copy of the source."""
    baselines = [task.trivial_baseline(splits["train"], splits["valid"])]
    if recipe.task.copy_baseline and needs_text(metric):
        baselines.append(_copy_baseline(recipe, base))
    text = to_json({baseline.answer: dict(baseline.scores) for baseline in baselines}, indent=1)
    write_atomic(folder / BASELINE_FILE, f"{text}\n")


def _copy_baseline(recipe: Recipe, base: Path) -> Baseline:
    pairs = list(islice(read_pairs(recipe.data.split("valid"), base), MOST_PAIRS))
    score = metrics.bleu([pair.source for pair in pairs], [pair.target for pair in pairs])
    return Baseline("copying the source", {"bleu": score.value})


def read_baselines(folder: Path) -> list[Baseline]:
    """The trivial baselines in a run folder; none where there are none."""
    try:
        tree = table_from_json((folder / BASELINE_FILE).read_bytes())
    except (OSError, ValueError):
        return []
    return [Baseline(answer, _values_in(scores)) for answer, scores in tree.items() if is_table(scores)]


def _values_in(scores: Line) -> dict[str, float]:
    """Its metrics, the loss first."""
    names = sorted((name for name in scores if name in METRICS), key=lambda name: name != "loss")
    return {name: scores[name] for name in names}


# Thresholds


def write_thresholds(folder: Path, task: Task, valid: Store, tokens_per_batch: int) -> None:
    """The thresholds of a classifier with several labels, where they are tuned: on the validation data, with the
    weights of the best checkpoint."""
    if not isinstance(task, MultiLabel) or not task.tunes or not len(valid):
        return
    run = Run.open(folder, "cpu")
    batches = measuring_batches(valid, BucketedConfig(), tokens_per_batch)
    _, probabilities, expected = measure_matrices(task, run.model, batches, run.device)
    save_thresholds(task.tuned_thresholds(probabilities, expected), folder)


# Curves and model card


def write_summaries(folder: Path, recipe: Recipe, task: Task, trainer: Trainer, watcher: Watcher) -> None:
    """The curves and the model card; training has finished, so an error here is only reported."""
    title = f"{folder.absolute().name}: {recipe.task.kind.replace('_', ' ')}"

    def write_curves() -> None:
        curves(folder / METRICS_FILE, folder / CURVES_FILE, title, trainer.metric, read_baselines(folder))

    def write_card() -> None:
        write_atomic(folder / CARD_FILE, model_card(folder, recipe, task, trainer))

    for name, write in ((CURVES_FILE, write_curves), (CARD_FILE, write_card)):
        try:
            write()
        except Exception as error:
            watcher.say(f"{folder / name} could not be written ({error}); the trained model is whole")


def model_card(folder: Path, recipe: Recipe, task: Task, trainer: Trainer) -> str:
    """README.md of a run: what the model is, how good it is and how to use it."""
    spent, model = trainer.spent, recipe.model
    valid = [line for line in read_metrics(folder / METRICS_FILE) if line.get("split") == "valid"]
    scores = {name: value for name, value in (valid[-1] if valid else {}).items() if name in METRICS}
    lines = [
        f"# {folder.name}",
        "",
        f"A model for {recipe.task.kind.replace('_', ' ')}, trained with regard {__version__}.",
        "",
        f"- model: {model.kind}, {task.num_params(model):,} parameters, "
        f"{counted(model.depth, 'layer')} of width {model.width}",
        f"- training: {counted(spent.steps, 'step')}, {counted(spent.tokens, 'token')}, {spent.flops:.3g} FLOPs, "
        f"{spent.seconds / 60:.1f} minutes, seed {recipe.seed}",
        f"- best {trainer.metric} on the validation data: {trainer.best:.4f}" if trainer.best is not None else "",
        "",
        "| last validation | |",
        "|---|---|",
        *(f"| {METRICS[name].label} | {value:,.4g} |" for name, value in scores.items()),
        "",
        "```",
        recipe.task.example_command.format(folder=folder),
        f"regard evaluate {folder}",
        "```",
        "",
        f"`{RECIPE_FILE}` has every setting; `{METRICS_FILE}` and `{CURVES_FILE}` show how training went.",
        "",
    ]
    return "\n".join(lines)


# What is said at the end


def conclusion(run: Run) -> list[str]:
    """The best validation of a run, beside the trivial baselines."""
    lines, metric = read_metrics(run.folder / METRICS_FILE), run.recipe.train.best or run.task.best_metric
    best = best_validation(lines, metric)
    if best is None:
        return []
    mean = f", mean of {best['averaged']} checkpoints" if "averaged" in best else ""
    seconds = max((line["seconds"] for line in lines if "seconds" in line), default=0.0)
    sentences = [
        f"best: step {best['step']:,}{mean}, validation {shown_scores(best, metric)} ({duration(seconds)} of training)"
    ]
    baselines = read_baselines(run.folder)
    for baseline in baselines:
        scores = ", ".join(shown_value(name, value) for name, value in baseline.scores.items())
        sentences.append(f"trivial baseline, {baseline.answer}: {scores}")
    if any(baseline.beaten_by(best, metric) is False for baseline in baselines):
        sentences.append(
            "note: the model is not better than the trivial baseline; train longer, try another train.schedule.lr, and "
            "check the files with regard data check"
        )
    return sentences


def best_validation(lines: Iterable[Line], metric: str) -> Line | None:
    """The line of the best validation, of equal scores the one with the lower loss; None where there is none."""
    valid = [line for line in lines if line.get("split") == "valid" and isfinite(line.get(metric, nan))]
    if not valid:
        return None
    sign = -1 if METRICS[metric].higher_is_better else 1
    return min(valid, key=lambda line: (sign * line[metric], line.get("loss", 0.0)))


def resume_sentence(folder: Path) -> str:
    return f"resume with: regard train {shlex.quote(str(folder / RECIPE_FILE))} --resume"


def next_commands(run: Run) -> list[str]:
    """Commands that use a trained run, with a text of the user's own."""
    folder, sample, verb = shlex.quote(str(run.folder)), sample_input(run.recipe), run.task.verb
    commands = [f"regard evaluate {folder}"]
    if verb is None:
        commands.append(f"regard train RECIPE model.from={folder}")
    elif run.recipe.task.content in ("images", "captions"):
        commands.append(f"regard {verb} {folder} {sample or 'image.png'}")
    else:
        commands.append(f"echo {sample or 'TEXT'} | regard {verb} {folder}")
    if sample:
        commands.append(f"regard look {folder} {sample}")
    return [*commands, f"regard serve {folder}"]


def sample_input(recipe: Recipe) -> str:
    """A short input of the validation data, quoted for a shell; empty where it has none."""
    base = Path(recipe.data.folder or "")
    try:
        texts = [_input_of(example) for example in islice(read_examples(recipe.data.split("valid"), base), 20)]
    except (RegardError, OSError):
        return ""
    if recipe.task.content in ("images", "captions"):
        return next((shlex.quote(text) for text in texts if Path(text).is_file()), "")
    filled = sorted((text for text in texts if text.strip()), key=len)
    short = [text for text in filled if len(text) <= LONGEST_SAMPLE][-1:] or filled[:1]
    words = " ".join(short).split()
    while len(words) > 1 and len(" ".join(words)) > LONGEST_SAMPLE:
        words.pop()
    return shlex.quote(" ".join(words)[:LONGEST_SAMPLE]) if words else ""


def _input_of(example: Example) -> str:
    match example:
        case LabelledPicture() | DescribedPicture():
            return example.picture.name
        case Tagged():
            return " ".join(example.words)
    return getattr(example, "source", None) or getattr(example, "text", "")
