"""Memory: whether a model can fit at all, what a CPU process keeps between steps, and out-of-memory errors."""

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from regard.config import Config
from regard.errors import ConfigError, Failure

BYTES_TO_USE = 4
"""Of a parameter in inference: float32."""
BYTES_TO_TRAIN = 8
"""Of a parameter in training, at the very least: weight and gradient."""
MOST_BLOCKS = 10_000
"""Ten times the deepest model ever trained; merely counting through more takes long."""
CGROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
"""Options of the C library's mallopt."""
LARGEST_KEPT = 1 << 25
"""Bytes: larger tensors would fragment the heap, and are returned to the system as usual."""
CPU_MESSAGE = "can't allocate memory"
"""Of torch's error on a CPU; on a GPU it has a class of its own."""
ADVICE = (
    "lower train.tokens_per_batch, data.max_length, model.width or model.depth, or set train.precision=bfloat16; what "
    "was saved before is untouched: resume with --resume"
)


def refuse_depth(model: Config) -> None:
    """ConfigError for more blocks than any model has, before anything is counted block by block."""
    for name, value in model:
        if name.endswith("depth") and isinstance(value, int) and value > MOST_BLOCKS:
            raise ConfigError(f"model.{name}", f"expected at most {MOST_BLOCKS:,} blocks, got {value:,}")


def require_memory(parameters: int, device: torch.device, bytes_each: int) -> None:
    """ConfigError where a model of so many parameters cannot fit, whatever the batches are."""
    needed, available = parameters * bytes_each, total_memory(device)
    if needed > available:
        raise ConfigError(
            "model",
            f"{parameters:,} parameters take at least {_size(needed)} of memory, and there are {_size(available)} "
            f"({device}); lower model.width, model.depth or tokenizer.size",
        )


def total_memory(device: torch.device) -> int:
    """Bytes of memory of a device, used or not."""
    if device.type == "cuda":
        return torch.cuda.get_device_properties(device).total_memory
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit = CGROUP_LIMIT.read_text().strip() if CGROUP_LIMIT.is_file() else ""
    return min(machine, int(limit)) if limit.isdecimal() else machine


def _size(bytes_: int) -> str:
    return f"{bytes_ / 2**30:,.1f} GiB"


def keep_freed_memory(device: torch.device) -> bool:
    """Lets a CPU process keep freed memory for the next step; returns whether the C library supports it.

    Otherwise tensors of some megabytes are returned to the system at each step and come back as new pages, and page
    faults take longer than the arithmetic of many a layer.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if device.type == "cpu" else None
    if mallopt is None:
        return False
    return bool(mallopt(M_MMAP_THRESHOLD, LARGEST_KEPT) and mallopt(M_TRIM_THRESHOLD, 2**31 - 1))


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that no memory was left, on a GPU or a CPU."""
    typed = isinstance(error, torch.OutOfMemoryError | MemoryError)
    return typed or (isinstance(error, RuntimeError) and CPU_MESSAGE in str(error))


@contextmanager
def report_out_of_memory() -> Iterator[None]:
    """Turns an out-of-memory error into a Failure that names the settings to lower."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        reason = str(error).partition("\n")[0].partition(". GPU")[0] or "no memory is left"
        raise Failure(f"out of memory while training ({reason}); {ADVICE}") from None
