"""Time and memory of one layer against the length of its input: every kind of attention, beside its peers.

    python benchmarks/long.py --out docs/measurements/long-cpu.json
    python benchmarks/long.py --device cuda --out docs/measurements/long-gpu.json
    python benchmarks/long_report.py

On a CPU every measurement has a process of its own, which is asked in turn with the others of its length, so that
whatever else the machine does meets all alike; what is kept is the median of the rounds, and the memory by which the
process grew. On a GPU all share one process, and memory is what the device's allocator handed out at most. A method
that would take longer than `--limit` seconds a call, by what the length before took, is left out.
"""

import argparse
import ctypes
import gc
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path

PASSES = ("forward", "forward+backward")
LENGTHS = {"cpu": "512,1024,2048,4096,8192,16384,32768,65536", "cuda": "4096,8192,16384,32768,65536"}


def main() -> None:
    arguments = parse()
    if arguments.worker:
        serve(*arguments.worker, arguments)
        return
    began, rows = time.time(), []
    for part in parts(arguments):
        for length in map(int, arguments.lengths.split(",")):
            wanted = [pair for pair in pairs(part, arguments) if affordable(*pair, part, length, rows, arguments)]
            measure = in_turn if arguments.device == "cpu" else on_device
            rows += measure(wanted, part, length, arguments)
            store(rows, began, arguments)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--lengths", default=None, help="numbers of tokens, by commas")
    parser.add_argument("--methods", default=None, help="names of methods, by commas; all when left out")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--limit", type=float, default=20.0, help="seconds that one call may take")
    parser.add_argument("--out", type=Path, default=None)
    parser.add_argument("--worker", nargs=4, metavar=("METHOD", "PASS", "PART", "LENGTH"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    arguments.lengths = arguments.lengths or LENGTHS[arguments.device]
    return arguments


def parts(arguments: argparse.Namespace) -> tuple[str, ...]:
    """Whole layers; on a GPU, where maps and feed-forward hide it, attention alone as well."""
    return ("layer",) if arguments.device == "cpu" else ("attention", "layer")


def size_for(device: str):
    from long_layers import Size

    return Size() if device == "cpu" else Size(width=1024, heads=16, hidden=4096, block=128)


def pairs(part: str, arguments: argparse.Namespace) -> list[tuple[str, str]]:
    from long_layers import OURS, PEERS

    methods = arguments.methods.split(",") if arguments.methods else [*OURS, *PEERS]
    alone = ("full", "window", "bigbird", "torch SDPA", "FlexAttention BigBird")
    methods = [method for method in methods if part == "layer" or method in alone]
    pairs = [(method, which) for method in methods for which in PASSES]
    no_slope = ("FlexAttention BigBird", "forward+backward")  # torch has no such kernel for the CPU
    return [pair for pair in pairs if arguments.device != "cpu" or pair != no_slope]


def affordable(method: str, which: str, part: str, length: int, rows: list[dict], arguments) -> bool:
    """Whether a call is short enough, if it grows with the square of the length since it was last measured."""
    known = [row for row in rows if (row["method"], row["pass"], row["part"]) == (method, which, part)]
    if not known:
        return True
    last = known[-1]
    return "ms" in last and last["ms"] / 1e3 * (length / last["length"]) ** 2 <= arguments.limit


def in_turn(wanted: list[tuple[str, str]], part: str, length: int, arguments) -> list[dict]:
    """On a CPU: one process a measurement, asked in turn."""
    workers = {pair: Worker(*pair, part, length, arguments) for pair in wanted}
    for turn in range(arguments.rounds):
        for worker in list(workers.values())[:: 1 if turn % 2 == 0 else -1]:
            worker.ask()
    rows = [worker.close() for worker in workers.values()]
    for row in rows:
        print(json.dumps(row), flush=True)
    return rows


class Worker:
    """The parent's side of a process that measures one thing."""

    def __init__(self, method: str, which: str, part: str, length: int, arguments) -> None:
        self.row = {"method": method, "pass": which, "part": part, "length": length}
        threads = str(arguments.threads)
        command = [sys.executable, __file__, "--device", arguments.device, "--threads", threads, "--worker"]
        self.process = subprocess.Popen(
            [*command, method, which, part, str(length)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": threads},
        )
        self.seconds, self.error = [], self.read().get("error")

    def read(self) -> dict:
        """The next answer."""
        for line in self.process.stdout:  # type: ignore[union-attr]
            if line.startswith("{"):
                return json.loads(line)
        return {"error": f"ended with {self.process.wait()}"}

    def ask(self) -> None:
        """Has one more call timed."""
        if self.error:
            return
        self.process.stdin.write("go\n")  # type: ignore[union-attr]
        self.process.stdin.flush()  # type: ignore[union-attr]
        answer = self.read()
        self.error = answer.get("error")
        self.seconds += [answer["seconds"]] if "seconds" in answer else []
        self.row["mib"] = answer.get("mib")

    def close(self) -> dict:
        """Ends the process; what was measured."""
        self.process.stdin.close()  # type: ignore[union-attr]
        self.process.wait()
        return {**self.row, **summary(self.seconds)} if not self.error else {**self.row, "error": self.error}


def summary(seconds: list[float]) -> dict:
    return {
        "ms": round(statistics.median(seconds) * 1e3, 3),
        "least_ms": round(min(seconds) * 1e3, 3),
        "rounds": len(seconds),
    }


def serve(method: str, which: str, part: str, length: str, arguments) -> None:
    """The child's side: gets ready, then answers each line with the seconds of one call and its memory so far."""
    import torch

    torch.set_num_threads(arguments.threads)
    try:
        call = prepared(method, which, part, int(length), arguments.device)
        call()
        base = start_of_memory()
        print(json.dumps({"ready": True}), flush=True)
        for _ in sys.stdin:
            seconds = timed(call)
            print(json.dumps({"seconds": seconds, "mib": round(resident("VmHWM") - base, 1)}), flush=True)
    except Exception as error:
        print(json.dumps({"error": f"{type(error).__name__}: {str(error).splitlines()[0][:200]}"}), flush=True)


def timed(call: Callable[[], None], least: float = 0.3) -> float:
    """Seconds of one call: a cold one first if it is short, then the mean of as many as fill the least time."""
    began = time.perf_counter()
    call()
    once, count = time.perf_counter() - began, 0
    if once > 2 * least:
        return once
    began = time.perf_counter()
    while time.perf_counter() - began < least:
        call()
        count += 1
    return (time.perf_counter() - began) / count


def start_of_memory() -> float:
    """Forgets the peak so far; what the process holds now, in MiB."""
    gc.collect()
    ctypes.CDLL("libc.so.6").malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")
    return resident("VmRSS")


def resident(field: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(field))


def prepared(method: str, which: str, part: str, length: int, device: str) -> Callable[[], None]:
    """What is timed: one call of a method on random numbers."""
    import torch
    from long_layers import attention, layer

    torch.manual_seed(0)
    size, dtype = size_for(device), torch.float32 if device == "cpu" else torch.bfloat16
    backward = which == "forward+backward"
    if part == "attention":
        shape = (1, length, size.heads, size.width // size.heads)
        inputs = [torch.randn(shape, device=device, dtype=dtype).transpose(1, 2).requires_grad_() for _ in range(3)]
        model, learned = attention(method, length, device, size), inputs
    else:
        model = layer(method, length, device, size).to(device, dtype).train(backward)
        inputs, learned = [torch.randn(1, length, size.width, device=device, dtype=dtype)], list(model.parameters())

    def call() -> None:
        with torch.set_grad_enabled(backward):
            y = model(*inputs)
        if backward:
            for weight in learned:
                weight.grad = None
            y.square().mean().backward()

    return call


def on_device(wanted: list[tuple[str, str]], part: str, length: int, arguments) -> list[dict]:
    """On a GPU: one after another in this process; each is forgotten before the next."""
    rows = []
    for method, which in wanted:
        row = {"method": method, "pass": which, "part": part, "length": length}
        try:
            rows.append({**row, **on_device_once(method, which, part, length, arguments.rounds)})
        except Exception as error:
            rows.append({**row, "error": f"{type(error).__name__}: {str(error).splitlines()[0][:200]}"})
        print(json.dumps(rows[-1]), flush=True)
    return rows


def on_device_once(method: str, which: str, part: str, length: int, rounds: int) -> dict:
    import torch

    from regard.nn.fast.sdpa import disable_cudnn_attention

    disable_cudnn_attention()
    gc.collect()
    torch.cuda.empty_cache()
    call = prepared(method, which, part, length, "cuda")
    for _ in range(3):
        call()
    torch.cuda.synchronize()
    base = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(rounds * 2 + 1)]
    for mark in marks[:-1]:
        mark.record()
        call()
    marks[-1].record()
    torch.cuda.synchronize()
    seconds = [one.elapsed_time(other) / 1e3 for one, other in pairwise(marks)]
    return {**summary(seconds), "mib": round((torch.cuda.max_memory_allocated() - base) / 2**20, 1)}


def store(rows: list[dict], began: float, arguments) -> None:
    import torch

    if arguments.out is None:
        return
    gpu = torch.cuda.get_device_name() if arguments.device == "cuda" else None
    machine = {"gpu": gpu, "cpu": platform.processor() or platform.machine(), "cores": os.cpu_count()}
    threads = arguments.threads if arguments.device == "cpu" else None
    result = {
        "name": arguments.out.stem,
        "command": f"python benchmarks/long.py --device {arguments.device} --lengths {arguments.lengths}",
        "size": asdict(size_for(arguments.device)),
        "machine": {**machine, "threads": threads, "python": platform.python_version(), "torch": torch.__version__},
        "load": round(os.getloadavg()[2], 2),
        "minutes": round((time.time() - began) / 60, 2),
        "rows": rows,
    }
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
