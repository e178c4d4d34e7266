"""`regard bench`: this machine beside the peers."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from regard.cli.output import say


def bench(
    works: Annotated[
        list[str] | None,
        typer.Argument(metavar="WORK", help="All when left out; sizes: cost against size."),
    ] = None,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    rounds: Annotated[int, typer.Option(help="Turns of each program.", min=1)] = 5,
    peers: Annotated[
        Path | None, typer.Option(help="The environment with the peers; .venv-peers here, where there is one.")
    ] = None,
    only: Annotated[list[str] | None, typer.Option(help="Measure these programs only.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="In miniature: its numbers mean nothing.")] = False,
    out: Annotated[Path | None, typer.Option(help="Write all numbers into this JSON file, after each work.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="All numbers as JSON, in place of tables.")] = False,
) -> None:
    """Measure this machine beside other programs. Whichever are installed, and what the machine can do at most."""
    from regard.bench.bench import ENVIRONMENT, measured
    from regard.bench.programs import PROGRAMS
    from regard.bench.report import tables
    from regard.errors import ConfigError, nearest

    for name in only or []:
        if name not in (known := [program.name for program in PROGRAMS]):
            raise ConfigError("--only", f"unknown program '{name}'; {nearest(name, known)}")
    if peers is not None and not (peers / "bin" / "python").exists():
        raise ConfigError("--peers", f"{peers}: no such environment; make peers sets one up")

    environment = peers or (ENVIRONMENT if ENVIRONMENT.is_dir() else None)
    names, programs = works or [], only or []

    def keep(tree: dict[str, Any]) -> None:
        if out is not None:
            out.parent.mkdir(parents=True, exist_ok=True)
            out.write_text(json.dumps(tree, indent=1) + "\n", encoding="utf-8")

    found = measured(
        names, device, rounds=rounds, environment=environment, programs=programs, quick=quick, say=say, keep=keep
    )
    print(json.dumps(found) if as_json else tables(found))
