"""`regard bench`: regard and other programs on this machine."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from regard.cli.output import say


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
    """Benchmark regard and other installed programs on this machine, beside its peak rates."""
    from regard.bench.bench import ENVIRONMENT, measured
    from regard.bench.programs import PROGRAMS
    from regard.bench.report import tables
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

    def keep(tree: dict[str, Any]) -> None:
        if out is not None:
            out.parent.mkdir(parents=True, exist_ok=True)
            out.write_text(json.dumps(tree, indent=1) + "\n", encoding="utf-8")

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
