"""`regard data check`: what is wrong with my files, with line numbers."""

import json
import os
from pathlib import Path
from typing import Annotated

import typer

from regard.cli.complete import complete_data
from regard.cli.output import Verbs

data = Verbs(help="Look at data before training on it.", no_args_is_help=True)


@data.callback()
def _group() -> None:
    """Look at data before training on it."""


@data.command()
def check(
    arguments: Annotated[
        list[str],
        typer.Argument(
            metavar="FILES",
            help="Data files; or a recipe (.toml, or a shipped one's name) whose splits are checked, with KEY=VALUE.",
            autocompletion=complete_data,
        ),
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable.")] = False,
) -> None:
    """Check files for what spoils training: uneven pairs, broken text, leaks, unknown labels; each with its line."""
    from regard.config.shipped import shipped
    from regard.data.check import check_files, check_sources
    from regard.data.settings import SPLITS
    from regard.errors import ConfigError, DataError, counted

    is_recipe = arguments[0].endswith(".toml") or (arguments[0] in shipped() and not Path(arguments[0]).is_file())
    settings = [word for word in arguments[1:] if "=" in word] if is_recipe else []
    files = [Path(word) for word in arguments if word not in settings]
    if settings and len(files) > 1:
        raise ConfigError(
            "", f"{settings[0]} is a setting of a recipe, and files are checked without one; leave it out"
        )
    if len(files) == 1 and is_recipe:
        from regard.run import read_recipe

        recipe = read_recipe(files[0], settings).data
        names = ["train", "valid"] if recipe.holds_out else [name for name in SPLITS if getattr(recipe, name)]
        names += ["test"] if recipe.holds_out and recipe.test else []
        base = Path(os.path.relpath(recipe.folder or ""))  # shorter to read in every finding
        checked = check_sources({name: recipe.split(name) for name in names}, base)
    else:
        for file in files:
            if file.is_dir():
                raise DataError(file, "expected a file, got a folder")
        checked = check_files(files)
    if as_json:
        print(json.dumps(checked.tree(), ensure_ascii=False, indent=2))
    else:
        for name, statistics in checked.statistics.items():
            print(f"{name}: {counted(statistics.examples, statistics.unit)}")
            for side, sizes in statistics.sides.items():
                longest = f"{counted(sizes.longest, 'character')} ({sizes.longest_at})"
                print(f"  {side}: {counted(sizes.words, 'word')}, longest {longest}")
        for finding in checked.findings:
            print(f"{finding.severity}: {finding.where}: {finding.what}")
        print(*checked.summaries or ["nothing wrong was found"], sep="\n")
    if checked.has_errors:
        raise typer.Exit(2)
