"""The end of a run in a few sentences: what was reached, beside a trivial baseline, and the commands to go on."""

import shlex
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from math import isfinite, nan
from pathlib import Path
from typing import Any

from regard import metrics
from regard.data.examples import DescribedPicture, Example, LabelledPicture, Tagged
from regard.data.readers.source_reader import read_examples, read_pairs
from regard.errors import RegardError
from regard.files.atomic import write_atomic
from regard.files.run_folder import BASELINE_FILE, METRICS_FILE, RECIPE_FILE
from regard.files.strict_json import from_json, to_json
from regard.metrics.baseline import Baseline
from regard.metrics.registry import METRICS
from regard.progress.text import duration
from regard.run.recipe import Recipe
from regard.run.trained import Run
from regard.train.log import read_metrics
from regard.train.trend import shown_scores, shown_value

MOST_PAIRS = 1000
"""Pairs whose sources are scored as if they were translations."""
LONGEST_SAMPLE = 40
"""Characters of a text in a command."""

Line = Mapping[str, Any]


def copy_baseline(recipe: Recipe, base: Path) -> Baseline:
    """The BLEU of sources that are left as they are, on the validation data."""
    pairs = list(islice(read_pairs(recipe.data.split("valid"), base), MOST_PAIRS))
    score = metrics.bleu([pair.source for pair in pairs], [pair.target for pair in pairs])
    return Baseline("copying the source", {"bleu": score.value})


def resume_sentence(folder: Path) -> str:
    """How a run that was stopped goes on."""
    return f"resume with: regard train {shlex.quote(str(folder / RECIPE_FILE))} --resume"


def conclusion(run: Run) -> list[str]:
    """What a run reached, and what a trivial answer would have."""
    lines, metric = read_metrics(run.folder / METRICS_FILE), run.recipe.train.best or run.task.best_metric
    best = best_validation(lines, metric)
    if best is None:
        return []
    mean = f", mean of {best['averaged']} checkpoints" if "averaged" in best else ""
    took = max((line["seconds"] for line in lines if "seconds" in line), default=0.0)
    sentences = [
        f"best: step {best['step']:,}{mean}, validation {shown_scores(best, metric)} ({duration(took)} of training)"
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


def write_baselines(folder: Path, baselines: Sequence[Baseline]) -> None:
    """Keeps what trivial answers score on the validation data of a run."""
    text = to_json({baseline.answer: dict(baseline.scores) for baseline in baselines}, indent=1)
    write_atomic(folder / BASELINE_FILE, f"{text}\n")


def read_baselines(folder: Path) -> list[Baseline]:
    """The trivial baselines that a run keeps; none where it keeps none."""
    try:
        tree = from_json((folder / BASELINE_FILE).read_bytes())
        return [Baseline(answer, {name: scores[name] for name in _known(scores)}) for answer, scores in tree.items()]
    except (OSError, ValueError, AttributeError, TypeError):
        return []


def next_commands(run: Run) -> list[str]:
    """Commands that go on with a trained run, with a text of the user's own."""
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


def _known(line: Line) -> Sequence[str]:
    """The scores of a line, the loss first."""
    return sorted((name for name in line if name in METRICS), key=lambda name: name != "loss")
