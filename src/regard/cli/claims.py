"""`regard claims`: the lectures' claims, measured on this machine."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.output import say

if TYPE_CHECKING:
    from regard.claims import Result

COLOURS = {"holds": "green", "does not hold": "red", "inconclusive": "yellow"}


def claims(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAME", help="Claims f1 to f17; all of them when left out.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for numbers, figures and the page claims.md.")] = Path("claims"),
    run: Annotated[
        Path | None, typer.Option(help="A trained run of the demo, for the claims that examine one.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Random seed; 1 if left out.")] = None,
    stored: Annotated[
        bool, typer.Option("--stored", help="Measure nothing: verdicts and figures from the numbers in --out.")
    ] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Seconds per claim; runs everything, proves nothing.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Machine-readable: name, verdict, measured, figure …")
    ] = False,
) -> None:
    """Measure the lectures' claims. Which hold, which do not, with numbers and a figure each."""
    from regard import api
    from regard.claims.result import FIGURES
    from regard.errors import ConfigError

    measures = {"--run": run is not None, "--seed": seed is not None, "--quick": quick}
    for option in (option for option, given in measures.items() if given and stored):
        raise ConfigError(option, "nothing is measured with --stored; leave one of them out")
    seed = 1 if seed is None else seed
    results = api.claims(names or [], out=out, run=run, seed=seed, stored=stored, quick=quick, say=say)
    if as_json:
        figures = [str(out / FIGURES / f"{result.claim.name}.png") for result in results]
        trees = [{**result.tree(), "figure": figure} for result, figure in zip(results, figures, strict=True)]
        print(json.dumps(trees, ensure_ascii=False, indent=2))
        return
    _show(results)
    print(f"Numbers, figures and the page are in {out}: see {out / 'claims.md'}")


def _show(results: "list[Result]") -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 2, 1, 0))
    for heading in ("", "claim", "verdict", "measured", "seconds"):
        table.add_column(
            heading, justify="right" if heading == "seconds" else "left", no_wrap=heading in ("", "verdict")
        )
    for result in results:
        verdict = Text(result.verdict, style=COLOURS[result.verdict])
        measured = Text(
            result.headline
            + "".join(_missed(one.statement, one.measured) for one in result.findings if one.verdict != "holds")
        )
        table.add_row(result.claim.name, result.claim.title, verdict, measured, f"{result.seconds:.0f}")
    Console(soft_wrap=False).print(table)


def _missed(statement: str, measured: str) -> str:
    """A line for a part of a claim that does not hold."""
    return f"\n✗ {statement}: {measured}"
