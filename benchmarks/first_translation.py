"""Seconds from a cold start to the first translated sentence, for each engine, in turns.

python benchmarks/first_translation.py runs/demo
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

SENTENCE = "The dog sleeps because it is tired.\n"
ENGINES = ("ctranslate2", "torch")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run")
    parser.add_argument("--tries", type=int, default=9)
    parser.add_argument("--out", type=Path, default=Path("docs/measurements/first-translation.json"))
    arguments = parser.parse_args()
    for engine in ENGINES:  # the first use converts the model and reads the files
        seconds(arguments.run, engine)
    taken = {engine: [] for engine in ENGINES}
    for _ in range(arguments.tries):
        for engine in ENGINES:
            taken[engine].append(seconds(arguments.run, engine))
    rows = [
        {"engine": engine, "median": statistics.median(all_), "least": min(all_), "most": max(all_)}
        for engine, all_ in taken.items()
    ]
    tree = {"tries": arguments.tries, "load": os.getloadavg()[0], "rows": rows}
    arguments.out.write_text(json.dumps(tree, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(tree, indent=1))


def seconds(run: str, engine: str) -> float:
    words = [sys.executable, "-m", "regard", "translate", run, "--engine", engine]
    began = time.perf_counter()
    subprocess.run(words, input=SENTENCE, text=True, capture_output=True, check=True)
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
