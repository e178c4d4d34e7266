"""What the Triton kernels have in common: the compiler, prefetching, overlapping launches, limits of the device."""

from functools import cache
from typing import Any, no_type_check

import torch
import triton  # pyright: ignore[reportMissingImports]
import triton.language as tl  # pyright: ignore[reportMissingImports]

jit: Any = triton.jit
"""A jitted kernel is launched as kernel[grid](…), which has no static type."""

OVERLAP = True
"""Programmatic dependent launch: kernels start before the one ahead of them has ended, on devices that support it."""


@jit
@no_type_check
def prefetch(pointers):  # noqa: ANN001, ANN201
    """Loads these addresses into the L2 cache."""
    tl.inline_asm_elementwise(
        "prefetch.global.L2 [$1]; mov.b32 $0, 0;", "=r,l", [pointers], dtype=tl.int32, is_pure=False, pack=1
    )


def overlap_options(device: torch.device) -> dict[str, Any]:
    return {"OVERLAP": True, "launch_pdl": True} if OVERLAP and _can_overlap(device) else {"OVERLAP": False}


@cache
def _can_overlap(device: torch.device) -> bool:
    return device.type == "cuda" and torch.version.hip is None and torch.cuda.get_device_capability(device) >= (9, 0)


@cache
def multiprocessors(device: torch.device) -> int:
    """Streaming multiprocessors of a GPU; 1 for other devices."""
    return torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 1


@cache
def shared_memory(device: torch.device) -> int:
    """Bytes of shared memory that a program may use for its pipelined loads; 4 KiB are left for the rest."""
    if device.type != "cuda":
        return 1 << 30
    return torch.cuda.get_device_properties(device).shared_memory_per_block_optin - 4096
