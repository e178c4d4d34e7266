"""`regard compare`, `claims`, `bench`: fair comparisons, the lectures' claims, benchmarks beside other programs."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.arguments import complete_recipe_or_setting
from regard.cli.output import say

if TYPE_CHECKING:
    from regard.claims import Result


def compare(
    arguments: Annotated[
        list[str],
        typer.Argument(
            metavar="RECIPE…|SWEEP [KEY=VALUE]…",
            help="Recipes or one sweep, as files or by the names that `regard recipes` lists; settings on top.",
            autocompletion=complete_recipe_or_setting,
        ),
    ],
    seeds: Annotated[int | None, typer.Option(min=1, help="Seeds of each variant; default: the sweep's, or 3.")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder; default: runs/compare-NAME.")] = None,
    budget: Annotated[
        str,
        typer.Option(help="Equal budget: flops, params, tokens, steps or minutes; =AMOUNT if not the first's."),
    ] = "",
    tune: Annotated[bool, typer.Option("--tune", help="Tune each learning rate on a part of the budget.")] = False,
    scaling: Annotated[bool, typer.Option("--scaling", help="Train a ladder of sizes and fit power laws.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable.")] = False,
) -> None:
    """Compare variants fairly. Equal budgets, seeds, significance, scores beside FLOPs; resumes where it stopped."""
    from rich.console import Console

    from regard import api
    from regard.compare import table

    files = [word for word in arguments if "=" not in word]
    settings = [word for word in arguments if "=" in word]
    folder = out or Path("runs") / f"compare-{'-'.join(Path(file).stem for file in files)}"
    if scaling:
        _scaling(files, settings, folder, seeds, bool(budget or tune), as_json)
        return
    comparison = api.compare(files, *settings, out=folder, seeds=seeds, budget=budget or None, tune=tune or None)
    if as_json:
        print(json.dumps(comparison.tree(), ensure_ascii=False, indent=1))
        return
    console = Console(highlight=False)
    console.print(table.terminal(comparison.rows, comparison.metric))
    for line in (comparison.caption, *table.notes_of(comparison.rows)):
        console.print(line, markup=False)
    print(f"table.md, table.tex, table.json and plot.png are in {folder}")


def _scaling(
    files: list[str], settings: list[str], folder: Path, seeds: int | None, options: bool, as_json: bool
) -> None:
    from regard.compare import read_ladder, train_ladder
    from regard.compare.scaling_report import sentences, write_scaling
    from regard.errors import ConfigError

    if len(files) != 1 or options:
        raise ConfigError("--scaling", "expected one ladder file, which says how much each run may spend")
    laws = train_ladder(read_ladder(Path(files[0]), settings, seeds=seeds), folder)
    write_scaling(laws, folder)
    if as_json:
        print(json.dumps(laws.tree(), ensure_ascii=False, indent=1))
        return
    print("\n".join(sentences(laws)))
    print(f"scaling.md, scaling.json and scaling.png are in {folder}")


COLOURS = {"holds": "green", "does not hold": "red", "inconclusive": "yellow"}


def claims(
    names: Annotated[list[str] | None, typer.Argument(metavar="NAME", help="Claims f1 to f17; default: all.")] = None,
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
    for option in (option for option, present in measures.items() if present and stored):
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


def bench(
    works: Annotated[
        list[str] | None,
        typer.Argument(metavar="WORK", help="Workloads; all when left out. sizes: cost by size."),
    ] = None,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    rounds: Annotated[int, typer.Option(help="Rounds; each program runs once a round.", min=1)] = 5,
    peers: Annotated[
        Path | None, typer.Option(help="The environment with the peers; .venv-peers here, where there is one.")
    ] = None,
    only: Annotated[list[str] | None, typer.Option(help="Measure these programs only.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="In miniature; its numbers mean nothing.")] = False,
    out: Annotated[Path | None, typer.Option(help="Write the results into this JSON file after each workload.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Results as JSON instead of tables.")] = False,
) -> None:
    """Benchmark regard beside other programs. Those that are installed, and the peak rates of this machine."""
    from regard.bench.bench import ENVIRONMENT, Results, measured, tables
    from regard.bench.workloads import PROGRAMS
    from regard.errors import ConfigError, nearest

    for name in only or []:
        program = next((program for program in PROGRAMS if program.name == name), None)
        if program is None:
            names = [program.name for program in PROGRAMS]
            raise ConfigError("--only", f"unknown program '{name}'; {nearest(name, names)}")
        if program.file is None:
            raise ConfigError("--only", f"the script of {name} is in a checkout of the repository (benchmarks/peers)")
    if peers is not None and not (peers / "bin" / "python").exists():
        raise ConfigError("--peers", f"{peers}: no such environment; make peers sets one up")

    environment = peers or (ENVIRONMENT if ENVIRONMENT.is_dir() else None)

    def keep(results: Results) -> None:
        if out is not None:
            out.parent.mkdir(parents=True, exist_ok=True)
            out.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")

    results = measured(
        works or [],
        device,
        rounds=rounds,
        environment=environment,
        programs=only or [],
        quick=quick,
        say=say,
        keep=keep,
    )
    print(json.dumps(results) if as_json else tables(results))
