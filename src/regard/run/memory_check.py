"""Whether a model can be held in memory at all, asked before anything of it is made."""

import os
from pathlib import Path

import torch

from regard.config import Config
from regard.errors import ConfigError

BYTES_TO_USE = 4
"""Of a number of a model that is only used: float32."""
BYTES_TO_TRAIN = 8
"""Of one that is trained, at the very least: the weight and its gradient."""
MOST_BLOCKS = 10_000
"""Ten times the deepest model ever trained; merely to count through more takes long."""
LIMIT = Path("/sys/fs/cgroup/memory.max")


def refuse_depth(model: Config) -> None:
    """ConfigError for more blocks than any model has, before anything is counted block by block."""
    for name, value in model:
        if name.endswith("depth") and isinstance(value, int) and value > MOST_BLOCKS:
            raise ConfigError(f"model.{name}", f"expected at most {MOST_BLOCKS:,} blocks, got {value:,}")


def demand_memory(numbers: int, device: torch.device, bytes_each: int) -> None:
    """ConfigError where a model of so many learned numbers cannot fit, whatever the batches are."""
    needed, there = numbers * bytes_each, memory_of(device)
    if needed > there:
        raise ConfigError(
            "model",
            f"{numbers:,} parameters take at least {_size(needed)} of memory, and there are {_size(there)} ({device}); "
            "lower model.width, model.depth or tokenizer.size",
        )


def memory_of(device: torch.device) -> int:
    """Bytes of memory that a device has, used or not."""
    if device.type == "cuda":
        return torch.cuda.get_device_properties(device).total_memory
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit = LIMIT.read_text().strip() if LIMIT.is_file() else ""
    return min(machine, int(limit)) if limit.isdecimal() else machine


def _size(bytes_: int) -> str:
    return f"{bytes_ / 2**30:,.1f} GiB"
