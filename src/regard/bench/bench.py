"""The benchmark: which workloads, which programs, one JSON tree of all results, and its tables."""

import os
import platform
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypedDict

from regard import __version__
from regard.bench.rounds import Ceilings, Measured, Row, Runner, Say, ceilings, measure
from regard.bench.workloads import PROGRAMS, WORKLOADS, Device, Program, Workload, interpreter_for, sizes
from regard.errors import ConfigError, nearest
from regard.files.machine import cores, processor_name

ENVIRONMENT = Path(".venv-peers")
"""Where `make peers` installs."""


class Results(TypedDict):
    machine: dict[str, object]
    ceilings: Ceilings
    quick: bool
    works: list[dict[str, object]]
    rows: list[Row]
    load: float | None
    """Of the machine, after the measurement."""


def measured(
    names: Sequence[str] = (),
    device: str = "cpu",
    *,
    rounds: int = 5,
    environment: Path | None = None,
    programs: Sequence[str] = (),
    quick: bool = False,
    say: Say = lambda sentence: None,
    keep: Callable[[Results], None] = lambda results: None,
) -> Results:
    """Measures workloads by name (`works`: all of a device, `sizes`: cost by size) by all installed programs.

    `keep` is called with the results so far after each workload.
    """
    where, count = device_of(device), cores()
    works = chosen(names, where)
    if absent := [program.name for program in PROGRAMS if program.file is None]:
        say(f"measures regard and torch only: scripts of {', '.join(absent)} are in a checkout (benchmarks/peers)")
    say("the machine's peak rates")
    limits = ceilings(where, count, quick)
    results: Results = {
        "machine": _machine(where, count), "ceilings": limits, "quick": quick, "works": [], "rows": [], "load": None,
    }  # fmt: skip
    for work in works:
        say(work.title)
        small = work.tiny() if quick else work
        results["rows"] += measure_work(small, count, rounds, environment, programs, limits)
        results["works"].append(work.tree())
        results["load"] = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
        keep(results)
    return results


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
    work: Workload, count: int, rounds: int, environment: Path | None, programs: Sequence[str], limits: Ceilings
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


def tables(results: Results) -> str:
    """All results as Markdown, the fastest program of each workload first."""
    parts = [heading(results)]
    for name, title in {work["name"]: work["title"] for work in results["works"]}.items():
        rows = [row for row in results["rows"] if row["work"] == name]
        parts.append(f"**{title}**\n\n{table(rows)}")
    return "\n\n".join(parts) + "\n"


def heading(results: Results) -> str:
    """The machine and its peak rates."""
    machine, limits = results["machine"], results["ceilings"]
    peaks = [f"{name} matmul {_rate(limits[name], 'FLOP/s')}" for name in ("float32", "bfloat16")]
    peaks.append(f"copy {_rate(limits['bandwidth'], 'B/s')}")
    quick = " Measured with `--quick`: these numbers mean nothing." if results["quick"] else ""
    load = "" if results["load"] is None else f" Load of the machine afterwards: {results['load']:.1f}."
    return f"### {machine['name']}, {machine['cores']} cores\n\nCeilings: {'; '.join(peaks)}.{load}{quick}"


def table(rows: Sequence[Row]) -> str:
    """One workload: tokens per second with the spread of the rounds, share of the peak, memory."""
    lines = ["| | format | threads | tokens/s | spread | GFLOP/s | of ceiling | memory MiB |", "|---" * 8 + "|"]
    for row in sorted(rows, key=lambda row: 0.0 if "error" in row else -row["tokens_per_second"]):
        name = f"**{row['peer']}**" if row["peer"].startswith("regard") else row["peer"]
        front = f"| {name} | {row.get('precision', '')} | {row.get('threads', '')} |"
        if "error" in row:
            lines.append(f"{front} {row['error']} | | | | |")
            continue
        share = "" if row["of_ceiling"] is None else f"{row['of_ceiling']:.0%}"
        memory = "" if row["memory_mib"] is None else f"{row['memory_mib']:,.0f}"
        rate = f"{row['flops_per_second'] / 1e9:,.1f}"
        speed = f"{row['tokens_per_second']:,.0f}"
        lines.append(f"{front} {speed} | ± {spread(row):.0%} | {rate} | {share} | {memory} |")
    return "\n".join(lines)


def spread(row: Measured) -> float:
    """Half the distance between the fastest and the slowest round, beside the median."""
    seconds = row["seconds"]
    return (seconds["most"] - seconds["least"]) / 2 / seconds["median"]


def _rate(value: float | str, unit: str) -> str:
    if isinstance(value, str):
        return value
    size, prefix = (1e12, "T") if value >= 1e12 else (1e9, "G")
    return f"{value / size:,.1f} {prefix}{unit}"
