"""`regard recipes`: the recipes, sweeps and example data that come with the program."""

import shutil
from pathlib import Path
from typing import Annotated

import typer

from regard.cli.complete import complete_shipped


def recipes(
    name: Annotated[
        str | None,
        typer.Argument(
            help="Print this recipe or sweep: regard recipes pairs > mine.toml", autocompletion=complete_shipped
        ),
    ] = None,
    copy: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Copy all recipes and example data there, as recipes/ and examples/."),
    ] = None,
) -> None:
    """List the recipes that come with regard, print one, or copy all. Each name works in place of a file."""
    from regard.config.shipped import recipe_file, shipped

    if copy is not None:
        _copy(copy)
    elif name is not None:
        known = shipped()
        print(known[name].to_copy() if name in known else recipe_file(name).read_text(encoding="utf-8"), end="")
    else:
        _list()


def _list() -> None:
    from regard.config.shipped import shipped

    every = list(shipped().values())
    widths = [max(len(getattr(one, part)) for one in every) for part in ("name", "task")] if every else [0, 0]
    group = ""
    for one in every:
        if one.group != group:
            print(f"{'' if not group else chr(10)}{one.group}")
            group = one.group
        print(f"  {one.name:{widths[0]}}  {one.task:{widths[1]}}  {one.description}")
    print(
        "\nregard train NAME trains one, regard compare NAME runs a sweep, regard recipes NAME > mine.toml copies one."
    )
    print('Recipes with data.folder = "data/…" need data that you fetch; their comments say which.')


def _copy(folder: Path) -> None:
    """Copies what is not there yet; files that exist stay as they are."""
    from regard.config.shipped import FOLDERS, root
    from regard.errors import counted

    made = kept = 0
    for name in FOLDERS:
        for file in sorted((root() / name).rglob("*")):
            target = folder / file.relative_to(root())
            if file.is_dir() or "__pycache__" in file.parts:
                continue
            if target.exists():
                kept += 1
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, target)
            made += 1
    there = f"; {kept} {'was' if kept == 1 else 'were'} there already and stay as they are" if kept else ""
    print(f"{counted(made, 'file')} copied into {folder / 'examples'} and {folder / 'recipes'}{there}")
