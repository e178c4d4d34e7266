"""The benchmark: which workloads, which programs, and one JSON tree of all results."""

import os
import platform
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from regard import __version__
from regard.bench.programs import PROGRAMS, Program, interpreter_for
from regard.bench.rounds import Row, Runner, Say, ceilings, measure
from regard.bench.workloads import WORKLOADS, Device, Workload, sizes
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
    """Measures workloads by name (`works`: all of a device, `sizes`: cost by size) by all installed programs.

    `keep` is called with the results so far after each workload.
    """
    where, count = device_of(device), cores()
    works = chosen(names, where)
    if absent := [program.name for program in PROGRAMS if program.file is None]:
        say(f"measures regard and torch only: scripts of {', '.join(absent)} are in a checkout (benchmarks/peers)")
    say("the machine's peak rates")
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
    if name == "cpu" or name == "cuda":
        return name
    raise ConfigError("--device", f"expected cpu or cuda, got '{name}'")


def chosen(names: Sequence[str], device: Device) -> list[Workload]:
    """The workloads of these names; all of the device's when none is named."""
    fixed = {work.name: work for work in WORKLOADS if work.device == device}
    grown = {work.name: work for work in sizes(device)}
    groups = {"works": list(fixed.values()), "sizes": list(grown.values())}
    groups |= {name: [work] for name, work in {**fixed, **grown}.items()}
    for name in names:
        if name not in groups:
            raise ConfigError("bench", f"unknown work '{name}' for {device}; {nearest(name, groups)}")
    return [work for name in names or ["works"] for work in groups[name]]


def measure_work(
    work: Workload,
    count: int,
    rounds: int,
    environment: Path | None,
    programs: Sequence[str],
    limits: dict[str, float | str],
) -> list[Row]:
    """One workload by every program that supports it; one that is not installed is a row that says so."""
    runners: list[Runner] = []
    missing: list[Row] = []
    for program in PROGRAMS:
        if not program.does(work) or (programs and program.name not in programs):
            continue
        python = interpreter_for(program, environment)
        if python is None:
            error = f"{program.module} is not installed"
            missing.append({"work": work.name, "peer": program.name, "error": error})
            continue
        if program.file is None:
            continue
        for precision in program.precisions or work.precisions:
            if isinstance(refused := limits.get(precision), str):
                missing.append({"work": work.name, "peer": program.name, "precision": precision, "error": refused})
                continue
            runners += [Runner(program, precision, threads, python) for threads in _threads(program, count)]
    return [*measure(work, runners, rounds, limits), *missing]


def _threads(program: Program, count: int) -> list[int]:
    return sorted({min(threads, count) for threads in program.threads or (count,)})


def _machine(device: Device, count: int) -> dict[str, object]:
    named = _gpu() if device == "cuda" else processor_name()
    return {"device": device, "name": named, "cores": count, "system": platform.system(), "regard": __version__}


def _gpu() -> str:
    command = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
    try:
        process = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return "a GPU"
    return (process.stdout.splitlines() or ["a GPU"])[0]
