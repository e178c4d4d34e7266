"""The whole benchmark: which works, which programs, and one tree with everything that was measured."""

import os
import platform
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from regard import __version__
from regard.bench.programs import PROGRAMS, Program, interpreter_for
from regard.bench.rounds import Contestant, Row, Say, ceilings, measure
from regard.bench.works import WORKS, Device, Work, sizes
from regard.errors import ConfigError, nearest
from regard.files.machine import cores, processor_name

ENVIRONMENT = Path(".venv-peers")
"""Where `make peers` installs."""


def measured(
    names: Sequence[str] = (),
    device: str = "cpu",
    *,
    rounds: int = 5,
    environment: Path | None = None,
    programs: Sequence[str] = (),
    quick: bool = False,
    say: Say = lambda sentence: None,
    keep: Callable[[dict[str, Any]], None] = lambda tree: None,
) -> dict[str, Any]:
    """Measures works by name (`works`: all of a device, `sizes`: cost against size) by all programs that are there.

    `keep` is given what is known so far after each work, so that whoever stops early has something.
    """
    where, count = device_of(device), cores()
    works = chosen(names, where)
    say("the machine's ceilings")
    limits = ceilings(where, count, quick)
    machine, rows = _machine(where, count), []
    tree: dict[str, Any] = {}
    for number, work in enumerate(works):
        say(work.title)
        small = work.tiny() if quick else work
        rows += measure_work(small, count, rounds, environment, programs, limits)
        tree = {
            "machine": machine,
            "ceilings": limits,
            "quick": quick,
            "works": [one.tree() for one in works[: number + 1]],
            "rows": rows,
            "load": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
        }
        keep(tree)
    return tree


def device_of(name: str) -> Device:
    """A device by its name."""
    if name == "cpu" or name == "cuda":
        return name
    raise ConfigError("--device", f"expected cpu or cuda, got '{name}'")


def chosen(names: Sequence[str], device: Device) -> list[Work]:
    """The works of these names; all of the device's when none is named."""
    known = {work.name: work for work in WORKS if work.device == device}
    grown = {work.name: work for work in sizes(device)}
    groups = {"works": list(known.values()), "sizes": list(grown.values())}
    groups |= {name: [work] for name, work in {**known, **grown}.items()}
    for name in names:
        if name not in groups:
            raise ConfigError("bench", f"unknown work '{name}' for {device}; {nearest(name, groups)}")
    return [work for name in names or ["works"] for work in groups[name]]


def measure_work(
    work: Work,
    count: int,
    rounds: int,
    environment: Path | None,
    programs: Sequence[str],
    limits: dict[str, float | str],
) -> list[Row]:
    """One work by every program that does it; a program that is not there is a row that says so."""
    contestants: list[Contestant] = []
    missing: list[Row] = []
    for program in PROGRAMS:
        if not program.does(work) or (programs and program.name not in programs):
            continue
        python = interpreter_for(program, environment)
        if python is None:
            error = f"{program.module} is not installed"
            missing.append({"work": work.name, "peer": program.name, "error": error})
            continue
        for precision in program.precisions or work.precisions:
            if isinstance(refused := limits.get(precision), str):
                missing.append({"work": work.name, "peer": program.name, "precision": precision, "error": refused})
                continue
            contestants += [Contestant(program, precision, each, python) for each in _threads(program, count)]
    return [*measure(work, contestants, rounds, limits), *missing]


def _threads(program: Program, count: int) -> list[int]:
    return sorted({min(threads, count) for threads in program.threads or (count,)})


def _machine(device: Device, count: int) -> dict[str, object]:
    named = _gpu() if device == "cuda" else processor_name()
    return {"device": device, "name": named, "cores": count, "system": platform.system(), "regard": __version__}


def _gpu() -> str:
    words = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False)
    except OSError:
        return "a GPU"
    return (done.stdout.splitlines() or ["a GPU"])[0]
