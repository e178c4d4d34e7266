"""How a program is asked: a line of JSON that describes the work, then lines that say how often to do it.

    {"work": {…}, "precision": "float32", "threads": 2, "folder": "…"}  →  {"ready": true, "version": "…"}
    {"times": 3}                                                        →  {"seconds": [0.1, …], "memory": 812.0}
                                                                        →  {"error": "…"} whenever something fails

Nothing but Python's own library is needed here: what a script imports beside it is the program it speaks for.
"""

import contextlib
import gc
import json
import random
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

Asked = dict[str, Any]
Step = Callable[[], object]
PAD, BEGIN, FIRST = 0, 2, 7
"""Ids of padding and beginning; ids from FIRST on are words."""


def speak(make: Callable[[Asked], Step], version: Callable[[], str]) -> None:
    """Answers until nobody asks; what the program prints itself goes to standard error."""
    answers, sys.stdout = sys.stdout, sys.stderr

    def answer(**tree: object) -> None:
        answers.write(json.dumps(tree) + "\n")
        answers.flush()

    try:
        asked = json.loads(sys.stdin.readline())
        step = make(asked)
        answer(ready=True, version=version())
        cuda = asked["work"]["device"] == "cuda"
        for line in sys.stdin:
            answer(**_timed(step, json.loads(line)["times"], cuda))
    except Exception as error:
        answer(error=_first_line(error))


def _timed(step: Step, times: int, cuda: bool) -> dict[str, object]:
    reset_memory(cuda)
    seconds = [_once(step, cuda) for _ in range(times + cuda)]
    peak = memory(cuda)
    if cuda:  # room for the others, whose turn it is; what a program takes anew in its own is not timed
        sys.modules["torch"].cuda.empty_cache()
    return {"seconds": seconds[1:] if cuda else seconds, "memory": peak}


def _once(step: Step, cuda: bool) -> float:
    began = time.perf_counter()
    step()
    if cuda:
        sys.modules["torch"].cuda.synchronize()
    return time.perf_counter() - began


def reset_memory(cuda: bool) -> None:
    """Forgets the peak of memory so far."""
    gc.collect()
    if cuda:
        sys.modules["torch"].cuda.reset_peak_memory_stats()
    else:
        with contextlib.suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5")


def memory(cuda: bool) -> float | None:
    """The peak in MiB: of the device's allocator, or of the whole process; None where the system does not tell."""
    if cuda:
        return sys.modules["torch"].cuda.max_memory_allocated() / 2**20
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM")), None)


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[0].split('. ')[0]}"[:200]


def rows(work: Asked, lengths: list[int], seed: int = 0) -> list[list[int]]:
    """Rows of words, the same for every program."""
    draw = random.Random(seed)
    return [[draw.randrange(FIRST, work["vocabulary"]) for _ in range(length)] for length in lengths]


def grid(own: list[list[int]], device: str) -> tuple[Any, Any]:
    """Rows as a tensor, padded on the right, and where they are no padding."""
    import torch

    longest = max(map(len, own))
    padded = torch.tensor([row + [PAD] * (longest - len(row)) for row in own], device=device)
    kept = torch.tensor([[place < len(row) for place in range(longest)] for row in own], device=device)
    return padded, kept


@contextlib.contextmanager
def autocast(asked: Asked) -> Iterator[None]:
    """Matrix products in the wanted format."""
    import torch

    if asked["precision"] == "bfloat16":
        with torch.autocast(asked["work"]["device"], torch.bfloat16):
            yield
    else:
        yield


def training_step(asked: Asked, model: Any, loss: Callable[[Any], Any]) -> Step:  # noqa: ANN401
    """Forward, backward and AdamW as torch comes; on a GPU model and loss are compiled as one, and AdamW is fused."""
    import torch

    torch.set_num_threads(asked["threads"])
    cuda = asked["work"]["device"] == "cuda"
    if cuda:
        torch.set_float32_matmul_precision("high")
    model = model.to(asked["work"]["device"]).train()
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=cuda)
    forward = torch.compile(lambda: loss(model)) if cuda else lambda: loss(model)

    def step() -> float:
        optimiser.zero_grad(set_to_none=True)
        with autocast(asked):
            found = forward()
        found.backward()
        optimiser.step()
        return float(found.detach())

    return step


class PairBatch:
    """A padded batch of pairs: source, what the decoder reads, and the targets (-100 where nothing counts)."""

    def __init__(self, asked: Asked) -> None:
        import torch

        work, device = asked["work"], asked["work"]["device"]
        self.source, self.source_kept = grid(rows(work, asked["lengths"], seed=1), device)
        self.target, self.target_kept = grid(rows(work, asked["lengths"], seed=2), device)
        begin = torch.full((len(self.target), 1), BEGIN, device=device)
        self.read = torch.cat([begin, self.target[:, :-1]], 1)
        self.labels = self.target.masked_fill(~self.target_kept, -100)


def text_batch(asked: Asked) -> tuple[Any, Any]:
    """Inputs and targets of a language model."""
    work = asked["work"]
    longer = [length + 1 for length in asked["lengths"]]
    padded, _ = grid(rows(work, longer, seed=1), work["device"])
    return padded[:, :-1].contiguous(), padded[:, 1:].contiguous()
