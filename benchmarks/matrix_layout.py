"""How a matrix should lie in memory for the products of writing on a CPU: the measurement behind `nn/laid.py`.

    python benchmarks/matrix_layout.py

Some rows times a matrix, which lies output by output, as torch keeps it, or input by input. Several matrices take
turns, so that none stays in the nearest cache, and the two layouts take turns, so that a busy machine slows both.
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

from regard.engine.machine import cores

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
        layouts = [matrices, [matrix.T.contiguous().T for matrix in matrices]]
        for rows in ROWS:
            by_output, by_input = compared(torch.randn(rows, 1, inputs), layouts)
            found.append({"rows": rows, "inputs": inputs, "outputs": outputs, "gain": round(by_output / by_input, 2)})
            print(f"{rows:4} rows, {inputs:5} → {outputs:5}: {1e6 * by_output:8.0f} µs output by output, "
                  f"{1e6 * by_input:8.0f} µs input by input, {by_output / by_input:.2f}×", flush=True)  # fmt: skip
    machine = f"{cores()} cores, {platform.machine()}, torch {torch.__version__}"
    out.write_text(json.dumps({"machine": machine, "found": found}, indent=1) + "\n", encoding="utf-8")


@torch.no_grad()
def compared(x: torch.Tensor, layouts: list[list[torch.Tensor]]) -> list[float]:
    """Seconds of one product in each layout: medians of rounds in turn."""
    times: list[list[float]] = [[] for _ in layouts]
    bias = torch.zeros(len(layouts[0][0]))
    for _ in range(ROUNDS + 1):
        for matrices, seconds in zip(layouts, times, strict=True):
            seconds.append(
                timed(lambda matrices=matrices: [F.linear(x, matrix, bias) for matrix in matrices]) / len(matrices)
            )
    return [median(seconds[1:]) for seconds in times]


def timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
