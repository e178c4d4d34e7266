"""`regard compare`: fair tables, and scaling laws."""

import json
from pathlib import Path
from typing import Annotated

import typer

from regard.cli.complete import complete_recipe_or_setting


def compare(
    given: Annotated[
        list[str],
        typer.Argument(
            metavar="RECIPE…|SWEEP [KEY=VALUE]…",
            help="Recipes or one sweep, as files or by the names that `regard recipes` lists; settings on top.",
            autocompletion=complete_recipe_or_setting,
        ),
    ],
    seeds: Annotated[int | None, typer.Option(min=1, help="How often each is trained; the sweep's, or 3.")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder; runs/compare-NAME when left out.")] = None,
    budget: Annotated[
        str, typer.Option(help="What is equal: flops, params, tokens, steps or minutes; =AMOUNT if not the first's.")
    ] = "",
    tune: Annotated[bool, typer.Option("--tune", help="Choose each learning rate on a share of the budget.")] = False,
    scaling: Annotated[bool, typer.Option("--scaling", help="Climb a ladder of sizes and fit power laws.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable.")] = False,
) -> None:
    """Compare variants fairly. Equal budgets, seeds, significance, scores beside FLOPs; started again, it goes on."""
    from rich.console import Console

    from regard import api
    from regard.compare import table

    files = [word for word in given if "=" not in word]
    settings = [word for word in given if "=" in word]
    folder = out or Path("runs") / f"compare-{'-'.join(Path(file).stem for file in files)}"
    if scaling:
        _climb(files, settings, folder, seeds, bool(budget or tune), as_json)
        return
    found = api.compare(files, *settings, out=folder, seeds=seeds, budget=budget or None, tune=tune or None)
    if as_json:
        print(json.dumps(found.tree(), ensure_ascii=False, indent=1))
        return
    console = Console(highlight=False)
    console.print(table.terminal(found.rows, found.metric))
    for line in (found.caption, *table.notes_of(found.rows)):
        console.print(line, markup=False)
    print(f"table.md, table.tex, table.json and plot.png are in {folder}")


def _climb(
    files: list[str], settings: list[str], folder: Path, seeds: int | None, options: bool, as_json: bool
) -> None:
    from regard.compare import read_ladder, train_ladder
    from regard.compare.scaling_report import sentences, write_scaling
    from regard.errors import ConfigError

    if len(files) != 1 or options:
        raise ConfigError("--scaling", "expected one ladder file, which says how much each run may spend")
    found = train_ladder(read_ladder(Path(files[0]), settings, seeds=seeds), folder)
    write_scaling(found, folder)
    if as_json:
        print(json.dumps(found.tree(), ensure_ascii=False, indent=1))
        return
    print("\n".join(sentences(found)))
    print(f"scaling.md, scaling.json and scaling.png are in {folder}")
