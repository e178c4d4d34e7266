"""How a matrix should lie in memory for the products of decoding on a CPU; behind `nn/fast/linear.py`.

    python benchmarks/matrix_layout.py

Some rows times a matrix, which lies output by output, as torch keeps it, input by input, or packed by oneDNN. Several
matrices take turns, so that none stays in the nearest cache, and so do the layouts, so that a busy machine slows all.
"""

import argparse
import json
import platform
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import torch
import torch.nn.functional as F

from regard.files.machine import cores
from regard.nn.fast.linear import pack_weight

SIZES = ((256, 256), (256, 1024), (1024, 256), (256, 8000), (512, 512), (512, 2048), (2048, 512), (512, 32000))
"""Inputs and outputs of the maps of the small and the base model."""
ROWS = (1, 2, 3, 4, 5, 8, 16, 32, 48, 64, 128)
AT_LEAST = 1 << 23
"""Numbers of the matrices that take turns, together."""
ROUNDS = 9


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("docs/measurements/matrix-layout.json"))
    out = parser.parse_args().out
    found = []
    for inputs, outputs in SIZES:
        matrices = [torch.randn(outputs, inputs) for _ in range(max(1, AT_LEAST // (inputs * outputs)))]
        for rows in ROWS:
            took = compared(torch.randn(rows, 1, inputs), matrices)
            gains = {name: round(took["by output"] / seconds, 2) for name, seconds in took.items()}
            found.append({"rows": rows, "inputs": inputs, "outputs": outputs, **gains})
            times = ", ".join(f"{1e6 * seconds:.0f} µs {name}" for name, seconds in took.items())
            print(f"{rows:4} rows, {inputs:5} → {outputs:5}: {times}", flush=True)
    machine = f"{cores()} cores, {platform.machine()}, torch {torch.__version__}"
    out.write_text(json.dumps({"machine": machine, "found": found}, indent=1) + "\n", encoding="utf-8")


@torch.no_grad()
def compared(x: torch.Tensor, matrices: list[torch.Tensor]) -> dict[str, float]:
    """Seconds of one product in each layout: medians of rounds in turn."""
    bias = torch.zeros(len(matrices[0]))
    turned, packed = [matrix.T.contiguous().T for matrix in matrices], [pack_weight(matrix) for matrix in matrices]
    ways = {
        "by output": lambda: [F.linear(x, matrix, bias) for matrix in matrices],
        "by input": lambda: [F.linear(x, matrix, bias) for matrix in turned],
        "packed": lambda: [torch.ops.mkldnn._linear_pointwise(x, matrix, bias, "none", [], "") for matrix in packed],
    }
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(ROUNDS + 1):
        for name, way in ways.items():
            times[name].append(timed(way) / len(matrices))
    return {name: median(seconds[1:]) for name, seconds in times.items()}


def timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
