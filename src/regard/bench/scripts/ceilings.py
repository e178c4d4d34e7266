"""The machine's peak: `ceilings.py MEASURE DEVICE THREADS QUICK` prints one number.

`float32` and `bfloat16` are FLOP/s of matrix products, `bandwidth` bytes per second of a copy, reads and writes. Each
has a process of its own: where a virtual machine refuses instructions that it announces, only that process is killed.
"""

import sys
import time
from collections.abc import Callable

import torch

SHAPES = {"cpu": [(1600, 512, 2048), (3072, 384, 1536), (2048, 2048, 2048)], "cuda": [(8192, 8192, 8192)]}


def main(measure: str, device: str, quick: bool) -> float:
    """FLOP/s or bytes per second, the best of all shapes."""
    if measure == "bandwidth":
        count = 2**20 if quick else 2**27 if device == "cpu" else 2**31
        one = torch.ones(count, device=device)
        other = torch.empty_like(one)
        return 2 * one.nbytes / _seconds(lambda: other.copy_(one), device, quick)
    dtype = torch.float32 if measure == "float32" else torch.bfloat16
    shapes = [(64, 64, 64)] if quick else SHAPES[device]
    return max(_product(*shape, dtype, device, quick) for shape in shapes)


def _product(rows: int, inner: int, columns: int, dtype: torch.dtype, device: str, quick: bool) -> float:
    a = torch.randn(rows, inner, device=device, dtype=dtype)
    b = torch.randn(columns, inner, device=device, dtype=dtype)
    out = torch.empty(rows, columns, device=device, dtype=dtype)
    return 2 * rows * inner * columns / _seconds(lambda: torch.mm(a, b.t(), out=out), device, quick)


def _seconds(work: Callable[[], object], device: str, quick: bool) -> float:
    """The median of several trials."""
    seconds = []
    for _ in range(1 if quick else 8):
        began, count = time.perf_counter(), 0
        while count == 0 or time.perf_counter() - began < (0.0 if quick else 0.15):
            work()
            if device == "cuda":
                torch.cuda.synchronize()
            count += 1
        seconds.append((time.perf_counter() - began) / count)
    return sorted(seconds)[len(seconds) // 2]


if __name__ == "__main__":
    torch.set_num_threads(int(sys.argv[3]))
    sys.stdout.write(f"{main(sys.argv[1], sys.argv[2], sys.argv[4] == 'quick')}\n")
