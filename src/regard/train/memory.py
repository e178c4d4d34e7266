"""Memory that is kept between steps, and memory that does not suffice.

Where it does not, a batch is computed in smaller parts, and what no part can help is one sentence.
"""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from regard.errors import Failure

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3
"""What the C library calls these settings."""
LARGEST_KEPT = 1 << 25
"""Bytes of a tensor: larger ones leave gaps that others do not fit into, so these are given back as ever."""
ON_A_PROCESSOR = "can't allocate memory"
"""What torch says there; on a GPU it has an error of its own."""
ADVICE = (
    "lower train.tokens_per_batch, data.max_length, model.width or model.depth, or set train.precision=bfloat16; what "
    "was saved before is untouched: go on with --resume"
)


def keep_freed_memory(device: torch.device) -> bool:
    """Lets a process that computes on the CPU keep what it frees for the next step; whether its C library can.

    Otherwise tensors of some megabytes are given back to the system at each step and come as new pages at the next,
    and touching thousands of new pages takes longer than the arithmetic of many a layer.
    """
    change = getattr(ctypes.CDLL(None), "mallopt", None) if device.type == "cpu" else None
    if change is None:
        return False
    return bool(change(MMAP_THRESHOLD, LARGEST_KEPT) and change(TRIM_THRESHOLD, 2**31 - 1))


def is_want_of_memory(error: BaseException) -> bool:
    """Whether an error says that there was no memory left, on a GPU or on the processor."""
    planned = isinstance(error, torch.OutOfMemoryError | MemoryError)
    return planned or (isinstance(error, RuntimeError) and ON_A_PROCESSOR in str(error))


@contextmanager
def memory_reported() -> Iterator[None]:
    """Turns a want of memory into a Failure that names the settings to lower."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if not is_want_of_memory(error):
            raise
        reason = str(error).partition("\n")[0].partition(". GPU")[0] or "no memory is left"
        raise Failure(f"the model does not fit into memory as it is trained ({reason}); {ADVICE}") from None
