"""Faults in numbers: kills, flipped bits, full disks, hostile files and fuzzing, at length. Writes docs/reliability.md.

    python benchmarks/reliability.py                                   every row, a few minutes of fuzzing in all
    python benchmarks/reliability.py --rows kills bits --kills 100     some rows
    python benchmarks/reliability.py --rows fuzz --fuzz-minutes 10     each target, with each engine that is installed
    python benchmarks/reliability.py --rows commands --commands 20000  random command lines, on all cores
    python benchmarks/reliability.py --page                            only the page, from the numbers that are kept

A row is a trial script or the tests of a file under tests/endure, slow ones included. Rows that are not asked for keep
the numbers they have in docs/measurements/reliability.json.
"""

import argparse
import importlib.util
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from xml.etree import ElementTree

from reliability_page import write_page

ROOT = Path(__file__).parents[1]
ENDURE = ROOT / "tests" / "endure"
MEASURED = ROOT / "docs" / "measurements" / "reliability.json"
FUZZED = ("recipe", "readers", "run", "import", "http")

Row = dict[str, object]


def script(name: str, *words: object) -> dict:
    """What a trial script found; it gets a folder of its own."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, str(ENDURE / name), folder, *map(str, words)]
        done = subprocess.run(command, capture_output=True, text=True, env=environment())
    if done.returncode:
        return {"problems": [done.stderr[-2000:]]}
    return json.loads(done.stdout)


def environment() -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1", "CI": ""}


def tests(*files: str) -> Row:
    """The tests of some files, slow ones included, counted one by one."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        options = ["-q", "-p", "no:cacheprovider", "-m", "not gpu", f"--junitxml={report}"]
        command = [sys.executable, "-m", "pytest", *files, *options]
        subprocess.run(command, cwd=ROOT, capture_output=True, env=environment())
        cases = list(ElementTree.parse(report).iter("testcase"))
    failed = [
        case.get("name", "") for case in cases if case.find("failure") is not None or case.find("error") is not None
    ]
    skipped = [case for case in cases if case.find("skipped") is not None]
    return {"trials": len(cases) - len(skipped), "failures": failed, "skipped": len(skipped)}


def kills(asked: argparse.Namespace) -> Row:
    found = script("kill_trials.py", asked.kills)
    detail = f"{found.get('saving', 0)} of them while saving, in {found.get('runs', 0)} runs"
    return {"trials": found.get("kills", 0), "failures": found["problems"], "detail": detail}


def bits(asked: argparse.Namespace) -> Row:
    found = script("bit_trials.py", asked.flips, max(1, asked.flips // 10))
    detail = f"{len(found.get('files', []))} files of a checkpoint in turn; {found.get('resumed', 0)} runs went on"
    return {"trials": found.get("trials", 0), "failures": found["problems"], "detail": detail}


def signals(asked: argparse.Namespace) -> Row:
    found = script("signal_trials.py", asked.signals)
    detail = f"the slowest was gone after {found.get('slowest', 0):.1f} s"
    return {"trials": found.get("trials", 0), "failures": found["problems"], "detail": detail}


def fuzz(asked: argparse.Namespace) -> Row:
    """Each target for some minutes with each engine, as many at once as there are cores; trials are inputs."""
    engines = {"hypothesis": hypothesised, **({"atheris": guided} if importlib.util.find_spec("atheris") else {})}
    pairs = [(target, engine) for target in FUZZED for engine in engines]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        found = list(pool.map(lambda pair: engines[pair[1]](pair[0], 60 * asked.fuzz_minutes), pairs))
    told = [f"{target} {tried:,} ({engine})" for (target, engine), (tried, _) in zip(pairs, found, strict=True)]
    return {
        "trials": sum(tried for tried, _ in found),
        "failures": [failure for _, failures in found for failure in failures],
        "detail": f"{asked.fuzz_minutes:g} minutes each: {', '.join(told)}",
    }


def hypothesised(target: str, seconds: float) -> tuple[int, list[str]]:
    found = script("fuzz_trials.py", target, seconds)
    return found.get("inputs", 0), [*found.get("findings", {}).values(), *found.get("problems", [])]


def guided(target: str, seconds: float) -> tuple[int, list[str]]:
    """Atheris ends its own process, and speaks only on the error stream."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, str(ENDURE / "fuzz_trials.py"), folder, target, str(seconds), "atheris"]
        done = subprocess.run(command, capture_output=True, cwd=folder, env=environment())
    said = done.stderr.decode(errors="replace") + done.stdout.decode(errors="replace")
    tried = re.search(r"number_of_executed_units:\s+(\d+)", said)
    return int(tried[1]) if tried else 0, [said[-1500:]] if done.returncode else []


def commands(asked: argparse.Namespace) -> Row:
    """Random command lines over random data and recipes; a file from another machine will do in place of a run."""
    with tempfile.TemporaryDirectory() as folder:
        file = asked.commands_from or Path(folder) / "commands.json"
        if asked.commands_from is None:
            numbers = ["--cases", str(asked.commands), "--processes", str(os.cpu_count()), "--json", str(file)]
            subprocess.run([sys.executable, str(ROOT / "tests" / "fuzz"), *numbers], cwd=ROOT, env=environment())
        found = json.loads(file.read_text(encoding="utf-8"))
    codes = {code: sum(verb.get(code, 0) for verb in found["exits"].values()) for code in ("0", "1", "2")}
    verbs = ", ".join(f"{verb} {sum(counts.values()):,}" for verb, counts in _commonest(found["exits"]))
    detail = f"exit 0: {codes['0']:,}, 1: {codes['1']:,}, 2: {codes['2']:,}; {verbs} and others"
    return {"trials": found["cases"], "failures": found["findings"], "detail": detail, "seconds": found["seconds"]}


def _commonest(exits: dict[str, dict[str, int]]) -> list[tuple[str, dict[str, int]]]:
    return sorted(exits.items(), key=lambda pair: -sum(pair[1].values()))[:11]


def of_tests(*names: str) -> Callable[[argparse.Namespace], Row]:
    return lambda _: tests(*names)


ROWS: dict[str, Callable[[argparse.Namespace], Row]] = {
    "kills": kills,
    "bits": bits,
    "disk": of_tests("tests/endure/test_endure_disk.py", "tests/train/test_checkpoint_faults.py"),
    "signals": signals,
    "bad-numbers": of_tests("tests/endure/test_endure_non_finite.py"),
    "memory": of_tests("tests/endure/test_endure_memory.py"),
    "ranks": of_tests("tests/endure/test_endure_ranks.py"),
    "lock": of_tests("tests/endure/test_endure_lock.py", "tests/train/test_lock.py"),
    "hostile": of_tests("tests/endure/test_endure_hostile.py", "tests/train/test_checkpoint_damage.py"),
    "fuzz": fuzz,
    "commands": commands,
}


def machine() -> dict[str, object]:
    import torch

    return {
        "cores": os.cpu_count(),
        "system": platform.system(),
        "python": platform.python_version(),
        "torch": torch.__version__,
    }


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", nargs="+", choices=list(ROWS), default=list(ROWS))
    parser.add_argument("--kills", type=int, default=100, help="kills at random moments")
    parser.add_argument("--flips", type=int, default=200, help="bits flipped or tails cut")
    parser.add_argument("--signals", type=int, default=60, help="requests to stop")
    parser.add_argument("--fuzz-minutes", type=float, default=1.0, help="for each target and engine")
    parser.add_argument("--commands", type=int, default=1500, help="random command lines")
    parser.add_argument("--commands-from", type=Path, default=None, help="what tests/fuzz --json wrote elsewhere")
    parser.add_argument("--page", action="store_true", help="only write the page anew")
    return parser.parse_args()


def main() -> None:
    asked = arguments()
    kept = json.loads(MEASURED.read_text(encoding="utf-8")) if MEASURED.exists() else {}
    for name in [] if asked.page else asked.rows:
        begun = time.monotonic()
        row = ROWS[name](asked)
        kept[name] = {
            "seconds": round(time.monotonic() - begun, 1),
            **row,
            "date": time.strftime("%Y-%m-%d"),
            **machine(),
        }
        print(f"{name}: {row['trials']:,} trials, {len(row['failures'])} failures")
        MEASURED.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    write_page(kept, ROOT / "docs" / "reliability.md")


if __name__ == "__main__":
    main()
