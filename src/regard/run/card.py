"""The model card: a README in the run folder that says what the model is, how good it is and how to use it."""

from pathlib import Path

from regard import __version__
from regard.errors import counted
from regard.files.atomic import write_atomic
from regard.files.run_folder import CARD_FILE, METRICS_FILE
from regard.metrics.registry import METRICS
from regard.run.recipe import Recipe
from regard.tasks import Task
from regard.train.log import read_metrics
from regard.train.loop import Trainer

USES = {
    "translation": "echo 'Your text' | regard translate {folder}",
    "summarisation": "echo 'Your text' | regard translate {folder}",
    "language_model": "echo 'Once upon' | regard generate {folder}",
    "masked_language_model": "regard train RECIPE model.from={folder}",
    "tagging": "echo 'Your words , one space apart' | regard classify {folder}",
    "classification": "echo 'Your text' | regard classify {folder}",
    "image_classification": "regard classify {folder} image.png",
    "image_description": "regard translate {folder} image.png",
}


def write_card(folder: Path, recipe: Recipe, task: Task, trainer: Trainer) -> None:
    """Writes README.md into the run folder."""
    spent, model = trainer.spent, recipe.model
    valid = [line for line in read_metrics(folder / METRICS_FILE) if line.get("split") == "valid"]
    scores = {name: value for name, value in (valid[-1] if valid else {}).items() if name in METRICS}
    shown = [f"| {METRICS[name].label} | {value:,.4g} |" for name, value in scores.items()]
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
        *shown,
        "",
        "```",
        USES[recipe.task.kind].format(folder=folder),
        f"regard evaluate {folder}",
        "```",
        "",
        "`recipe.toml` has every setting; `metrics.jsonl` and `curves.png` show how training went.",
        "",
    ]
    write_atomic(folder / CARD_FILE, "\n".join(lines))
