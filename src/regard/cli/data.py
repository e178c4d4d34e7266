"""`regard data check`: what is wrong with my files, with line numbers."""

import json
from pathlib import Path
from typing import Annotated

import typer

data = typer.Typer(help="Look at data before training on it.", no_args_is_help=True)


@data.callback()
def _group() -> None:
    """Look at data before training on it."""


@data.command()
def check(
    files: Annotated[list[Path], typer.Argument(help="Data files, or a recipe (.toml) whose splits are checked.")],
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable.")] = False,
) -> None:
    """Check files for what spoils training: uneven pairs, broken text, leaks, unknown labels; each with its line."""
    from regard.data.check import check_files, check_sources
    from regard.errors import counted

    if len(files) == 1 and files[0].suffix == ".toml":
        from regard.run import read_recipe

        recipe = read_recipe(files[0]).data
        splits = {name: getattr(recipe, name) for name in ("train", "valid", "test")}
        checked = check_sources({name: split for name, split in splits.items() if split}, files[0].parent)
    else:
        checked = check_files(files)
    if as_json:
        print(json.dumps(checked.tree(), ensure_ascii=False, indent=2))
    else:
        for name, statistics in checked.statistics.items():
            print(f"{name}: {counted(statistics.examples, 'example')}")
            for side, found in statistics.sides.items():
                longest = f"{counted(found.longest, 'character')} ({found.longest_at})"
                print(f"  {side}: {counted(found.words, 'word')}, longest {longest}")
        for finding in checked.findings:
            print(f"{finding.severity}: {finding.where}: {finding.what}")
        print(*checked.summaries or ["nothing wrong was found"], sep="\n")
    if checked.has_errors:
        raise typer.Exit(2)
