"""`regard train`: from a recipe to a trained run folder."""

from pathlib import Path
from typing import Annotated

import typer


def train(
    recipe: Annotated[Path, typer.Argument(help="A recipe (TOML).")],
    settings: Annotated[list[str] | None, typer.Argument(metavar="KEY=VALUE", help="Settings on top.")] = None,
    out: Annotated[Path | None, typer.Option(help="Run folder; runs/RECIPE when left out.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the newest whole checkpoint.")] = False,
    skip_bad: Annotated[
        bool,
        typer.Option("--skip-bad", help="Pass over batches whose loss or gradient is not a number, and count them."),
    ] = False,
) -> None:
    """Train what a recipe says. Shows progress and metrics; keeps the best and the last checkpoint."""
    from regard import api

    asked = [*(settings or []), *(["train.skip_bad=true"] if skip_bad else [])]
    api.train(recipe, *asked, out=out or Path("runs") / recipe.stem, resume=resume)
