"""The protocol of a benchmark script: a line of JSON with the workload, then lines with the number of repeats.

    {"work": {…}, "precision": "float32", "threads": 2, "folder": "…"}  →  {"ready": true, "version": "…"}
    {"times": 3}                                                        →  {"seconds": [0.1, …], "memory": 812.0}
                                                                        →  {"error": "…"} whenever something fails

This file needs only Python's standard library; a script imports the program that it measures.
"""

import contextlib
import gc
import json
import random
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from torch import Tensor, nn

Step = Callable[[], object]
PAD, BEGIN, FIRST = 0, 2, 7
"""Ids of padding and beginning; ids from FIRST on are words."""


class Work(TypedDict):
    """A `Workload`, as far as scripts need it."""

    kind: str
    device: str
    width: int
    depth: int
    heads: int
    feedforward: int
    vocabulary: int
    dropout: float
    rows: int
    longest: int
    write: int
    beam: int


class Request(TypedDict):
    work: Work
    lengths: list[int]
    precision: str
    threads: int
    folder: str


def serve(make: Callable[[Request], Step], version: Callable[[], str]) -> None:
    """Answers requests until standard input ends; the program's own output goes to standard error."""
    answers, sys.stdout = sys.stdout, sys.stderr

    def answer(**tree: object) -> None:
        answers.write(json.dumps(tree) + "\n")
        answers.flush()

    try:
        request = json.loads(sys.stdin.readline())
        step = make(request)
        answer(ready=True, version=version())
        cuda = request["work"]["device"] == "cuda"
        for line in sys.stdin:
            answer(**_timed(step, json.loads(line)["times"], cuda))
    except Exception as error:
        answer(error=_first_line(error))


def _timed(step: Step, times: int, cuda: bool) -> dict[str, object]:
    reset_memory(cuda)
    seconds = [_once(step, cuda) for _ in range(times + cuda)]
    peak = memory(cuda)
    if cuda:  # memory for the other programs; the first repeat, which allocates again, is not timed
        sys.modules["torch"].cuda.empty_cache()
    return {"seconds": seconds[1:] if cuda else seconds, "memory": peak}


def _once(step: Step, cuda: bool) -> float:
    began = time.perf_counter()
    step()
    if cuda:
        sys.modules["torch"].cuda.synchronize()
    return time.perf_counter() - began


def reset_memory(cuda: bool) -> None:
    gc.collect()
    if cuda:
        sys.modules["torch"].cuda.reset_peak_memory_stats()
    else:
        with contextlib.suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5")


def memory(cuda: bool) -> float | None:
    """The peak in MiB: of the device's allocator, or of the whole process; None where the system does not report it."""
    if cuda:
        return sys.modules["torch"].cuda.max_memory_allocated() / 2**20
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM")), None)


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[0].split('. ')[0]}"[:200]


def rows(work: Work, lengths: list[int], seed: int = 0) -> list[list[int]]:
    """Rows of random token ids, the same for every program."""
    draw = random.Random(seed)
    return [[draw.randrange(FIRST, work["vocabulary"]) for _ in range(length)] for length in lengths]


def grid(token_rows: list[list[int]], device: str) -> "tuple[Tensor, Tensor]":
    """Rows as a tensor, padded on the right, and the mask of their tokens."""
    import torch

    longest = max(map(len, token_rows))
    padded = torch.tensor([row + [PAD] * (longest - len(row)) for row in token_rows], device=device)
    mask = torch.tensor([[position < len(row) for position in range(longest)] for row in token_rows], device=device)
    return padded, mask


@contextlib.contextmanager
def autocast(request: Request) -> Iterator[None]:
    """Autocast to bfloat16 where the request says so."""
    import torch

    if request["precision"] == "bfloat16":
        with torch.autocast(request["work"]["device"], torch.bfloat16):
            yield
    else:
        yield


def training_step(request: Request, model: "nn.Module", loss: "Callable[[nn.Module], Tensor]") -> Step:
    """Forward, backward and AdamW; on a GPU model and loss are compiled together and AdamW is fused."""
    import torch

    torch.set_num_threads(request["threads"])
    cuda = request["work"]["device"] == "cuda"
    if cuda:
        torch.set_float32_matmul_precision("high")
    model = model.to(request["work"]["device"]).train()
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=cuda)
    forward = torch.compile(lambda: loss(model)) if cuda else lambda: loss(model)

    def step() -> float:
        optimiser.zero_grad(set_to_none=True)
        with autocast(request):
            value = forward()
        value.backward()
        optimiser.step()
        return float(value.detach())

    return step


class PairBatch:
    """A padded batch of pairs: source, decoder input, and labels (-100 at padding)."""

    def __init__(self, request: Request) -> None:
        import torch

        work, device = request["work"], request["work"]["device"]
        self.source, self.source_mask = grid(rows(work, request["lengths"], seed=1), device)
        self.target, self.target_mask = grid(rows(work, request["lengths"], seed=2), device)
        begin = torch.full((len(self.target), 1), BEGIN, device=device)
        self.read = torch.cat([begin, self.target[:, :-1]], 1)
        self.labels = self.target.masked_fill(~self.target_mask, -100)


def text_batch(request: Request) -> "tuple[Tensor, Tensor]":
    """Inputs and targets of a language model."""
    work = request["work"]
    longer = [length + 1 for length in request["lengths"]]
    padded, _ = grid(rows(work, longer, seed=1), work["device"])
    return padded[:, :-1].contiguous(), padded[:, 1:].contiguous()
