"""The processor that this process runs on."""

import os
import platform
from functools import cache
from pathlib import Path

CPUINFO = Path("/proc/cpuinfo")


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def processor_name() -> str:
    return _cpuinfo("model name") or platform.processor()


@cache
def is_intel() -> bool:
    """Whether the processor is one of Intel's; assumed where the system does not say."""
    return _cpuinfo("vendor_id") in ("", "GenuineIntel")


def has_amx() -> bool:
    """Whether the processor announces AMX matrix instructions."""
    return "amx_tile" in _cpuinfo("flags").split()


def _cpuinfo(key: str) -> str:
    """The first value of a key in /proc/cpuinfo; empty where there is none."""
    lines = CPUINFO.read_text().splitlines() if CPUINFO.is_file() else []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(key)), "")
