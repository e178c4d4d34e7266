"""`regard train`: from a recipe to a trained run folder."""

from pathlib import Path
from typing import Annotated

import typer

from regard.cli.complete import complete_recipe, complete_setting
from regard.cli.output import tell


def train(
    recipe: Annotated[
        Path,
        typer.Argument(
            help="A recipe: a TOML file, or the name of one that comes with regard (regard recipes).",
            autocompletion=complete_recipe,
        ),
    ],
    settings: Annotated[
        list[str] | None, typer.Argument(metavar="KEY=VALUE", help="Settings on top.", autocompletion=complete_setting)
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Run folder; when left out, runs/RECIPE, or with --resume the one that RECIPE lies in."),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the newest whole checkpoint.")] = False,
    data_changed: Annotated[
        bool, typer.Option("--data-changed", help="With --resume: accept that data, tokenizer or seed changed since.")
    ] = False,
    skip_bad: Annotated[
        bool,
        typer.Option("--skip-bad", help="Pass over batches whose loss or gradient is not a number, and count them."),
    ] = False,
) -> None:
    """Train what a recipe says. Shows progress and metrics; keeps the best and the last checkpoint."""
    from regard import api
    from regard.errors import ConfigError, Interrupted
    from regard.run.conclusion import next_commands
    from regard.train.parallel.processes import is_main_process

    if data_changed and not resume:
        raise ConfigError("--data-changed", "says what a run that resumes accepts; give --resume too, or leave it out")
    asked = [*(settings or []), *(["train.skip_bad=true"] if skip_bad else [])]
    own = recipe.absolute().parent if resume and _is_of_a_run(recipe) else None
    folder = out or own or Path("runs") / recipe.stem
    try:
        run = api.train(recipe, *asked, out=folder, resume=resume, data_changed=data_changed)
    except KeyboardInterrupt:
        raise Interrupted(_interrupted(folder)) from None
    if is_main_process():
        tell("go on with:" + "".join(f"\n  {command}" for command in next_commands(run)))


def _interrupted(folder: Path) -> str:
    """What is left of a run that was interrupted at once, or before its first step."""
    from regard.files.run_folder import CHECKPOINTS_FOLDER, list_checkpoints
    from regard.run.conclusion import resume_sentence

    if not list_checkpoints(folder / CHECKPOINTS_FOLDER):
        return "interrupted before the first checkpoint: nothing was trained"
    return f"interrupted; steps since the last checkpoint are lost; {resume_sentence(folder)}"


def _is_of_a_run(recipe: Path) -> bool:
    """Whether a recipe lies in the folder of the run that was made from it."""
    from regard.files.run_folder import CHECKPOINTS_FOLDER, METRICS_FILE, RECIPE_FILE

    traces = (CHECKPOINTS_FOLDER, METRICS_FILE)
    return recipe.name == RECIPE_FILE and any((recipe.parent / name).exists() for name in traces)
