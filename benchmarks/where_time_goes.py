"""Where the time of a work goes: the profile beside the speeds of `regard bench`, for docs/performance.md.

    python benchmarks/where_time_goes.py
    python benchmarks/where_time_goes.py --device cuda --out docs/measurements/profile-gpu.json
    python benchmarks/performance.py

regard alone does each work under torch's profiler, with the model, the tokens and the step that `regard bench` uses.
Operations (on a GPU: kernels) are grouped by purpose; the rest of the wall time is Python, launching operations and
waiting for them. The profiler itself makes small operations a little longer.
"""

import argparse
import json
import platform
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from regard.bench.workloads import SCRIPTS, WORKLOADS, Workload, lengths
from regard.files.machine import cores

sys.path.insert(0, str(SCRIPTS))
KINDS = {
    "attention": (
        "scaled_dot_product",
        "flash",
        "fmha",
        "cudnn_generated",
        "decode_kernel",
        "forward_kernel",
        "grad_q_kernel",
        "grad_kv_kernel",
    ),
    "matmul": (
        "mm",
        "gemm",
        "linear",
        "nvjet",
        "cutlass",
        "matmul",
        "gemv",
        "one_row_kernel",
        "rows_kernel",
    ),
    "optimiser": ("adam",),
    "loss": ("softmax", "nll", "cross_entropy", "loss"),
    "token selection": ("argmax",),
    "activations": ("gelu", "relu", "silu", "threshold"),
    "norms": ("norm",),
    "dropout": ("dropout", "bernoulli", "random", "uniform", "where"),
}
"""The purpose of an operation, by parts of its name; the first match counts."""
WARM_UP, TIMES = 3, 5
SMALLEST = 0.005
"""Shares below this are not worth a name."""


def main() -> None:
    arguments = parse()
    works = [work for work in WORKLOADS if work.device == arguments.device]
    name = torch.cuda.get_device_name() if arguments.device == "cuda" else f"{cores()} cores, {platform.machine()}"
    found: dict[str, Any] = {"machine": name, "torch": torch.__version__, "rows": []}
    for work in (work for work in works if not arguments.works or work.name in arguments.works):
        found["rows"].append({"work": work.name, "title": work.title, **profiled(work)})
        print(found["rows"][-1], flush=True)
        arguments.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("works", nargs="*", help="all of the device when left out")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--out", type=Path, default=Path("docs/measurements/profile-cpu.json"))
    return parser.parse_args()


def profiled(work: Workload) -> dict[str, Any]:
    """Seconds of one step, and the share of each kind of operation."""
    cuda = work.device == "cuda"
    step = step_of(work)
    for _ in range(WARM_UP):
        step()
    seconds = timed(step, cuda)
    with profile(activities=[ProfilerActivity.CUDA if cuda else ProfilerActivity.CPU]) as found:
        under = timed(step, cuda)
    spent: dict[str, float] = defaultdict(float)
    for operation in found.key_averages():
        took = operation.self_device_time_total if cuda else operation.self_cpu_time_total
        spent[kind_of(operation.key)] += took * 1e-6 / TIMES
    shares = {kind: took / under for kind, took in spent.items() if took / under > SMALLEST}
    return {"seconds": seconds, "shares": shares, "rest": 1 - sum(shares.values())}


def step_of(work: Workload) -> Callable[[], object]:
    """What `regard bench` times, sequences packed where they differ in length."""
    import of_regard

    sys.argv = [sys.argv[0], *(["packed"] if work.kind == "train-pair" else [])]
    asked = {"work": work.tree(), "lengths": lengths(work), "precision": work.precisions[0], "threads": cores()}
    return of_regard.make(asked)


def timed(step: Callable[[], object], cuda: bool) -> float:
    """Seconds of one step, the mean of several."""
    began = time.perf_counter()
    for _ in range(TIMES):
        step()
    if cuda:
        torch.cuda.synchronize()
    return (time.perf_counter() - began) / TIMES


def kind_of(name: str) -> str:
    """The purpose of an operation; on a CPU only torch's own operations count, not their wrappers."""
    fitting = [kind for kind, parts in KINDS.items() if any(part in name.lower() for part in parts)]
    return fitting[0] if fitting else "copies and elementwise"


if __name__ == "__main__":
    main()
