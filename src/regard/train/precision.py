"""Data types of training: of matrix products (autocast) and of the residual stream; the machine's peak FLOP/s.

Speeds are measured on the machine at hand, once in each process, never looked up.
"""

import math
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import cache
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.errors import ConfigError
from regard.files.machine import has_amx
from regard.models.stack import Stack, stacks_of

PrecisionSetting = Literal["auto", "float32", "bfloat16"]
CLEAR_GAIN = 1.2  # bfloat16 has fewer digits, so it must be clearly faster


@dataclass(frozen=True)
class Precision:
    """Data type of matrix products, and the reason for it; weights stay float32."""

    device: torch.device
    dtype: torch.dtype
    reason: str

    @property
    def name(self) -> PrecisionSetting:
        """The value of `train.precision` that chooses it again when a run resumes."""
        return "bfloat16" if self.dtype is torch.bfloat16 else "float32"

    def autocast(self) -> AbstractContextManager[object]:
        """Within it, matrix products are computed in this data type."""
        return nullcontext() if self.dtype is torch.float32 else torch.autocast(self.device.type, self.dtype)


def choose_precision(setting: PrecisionSetting, device: torch.device | str) -> Precision:
    """The data type for a setting on a device; `auto` is bfloat16 where that is clearly faster."""
    device = torch.device(device)
    if setting == "float32":
        return Precision(device, torch.float32, "float32, as set")
    problem = _no_bfloat16(device)
    if setting == "bfloat16":
        if problem:
            raise ConfigError("train.precision", f"bfloat16 cannot be used: {problem}; choose float32 or auto")
        return Precision(device, torch.bfloat16, "bfloat16, as set")
    if problem:
        return Precision(device, torch.float32, f"float32, as {problem}")
    gain = _gain(device)
    dtype = torch.bfloat16 if gain >= CLEAR_GAIN else torch.float32
    sentence = f"bfloat16 computes matrix products {gain:.1f} times as fast as float32 here"
    return Precision(device, dtype, f"{str(dtype).removeprefix('torch.')}, as {sentence}")


@cache
def _no_bfloat16(device: torch.device) -> str:
    """Why the device cannot compute bfloat16 at all; empty where it can."""
    if device.type == "cuda" and not torch.cuda.is_bf16_supported(including_emulation=False):
        return f"{torch.cuda.get_device_name(device)} has no bfloat16 instructions"
    if device.type == "cpu" and has_amx() and not _survives_bfloat16():
        return (
            "this processor announces AMX instructions and then refuses them "
            "(the environment variable ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16 avoids them)"
        )
    return ""


def _survives_bfloat16() -> bool:
    """Tries a matmul in a process of its own: a virtual machine that refuses AMX kills it at the first one."""
    limit = "import resource; resource.setrlimit(resource.RLIMIT_CORE, (0, 0))"
    product = "import torch; x = torch.ones(64, 64, dtype=torch.bfloat16); x @ x"
    return subprocess.run([sys.executable, "-c", f"{limit}; {product}"], capture_output=True).returncode == 0


@cache
def _gain(device: torch.device) -> float:
    """Speed of a linear layer under bfloat16 autocast, conversions included, relative to float32."""
    size = 256 if device.type == "cpu" else 2048
    x, weight = (torch.randn(size, size, device=device) for _ in range(2))

    def converted() -> Tensor:
        with torch.autocast(device.type, torch.bfloat16):
            return F.linear(x, weight)

    with torch.no_grad(), _one_thread():
        return _fastest(lambda: F.linear(x, weight), device) / _fastest(converted, device)


@contextmanager
def _one_thread() -> Iterator[None]:
    """With several threads, mostly other load on the machine would be measured."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


@cache
def machine_peak(device: torch.device | str, dtype: torch.dtype) -> float:
    """Highest FLOP/s of square matmuls of this data type, sizes doubled until one takes 5 ms.

    On a CPU: of one thread, times the threads that torch uses.
    """
    device = torch.device(device)
    if dtype is torch.bfloat16 and (problem := _no_bfloat16(device)):
        raise ConfigError("train.precision", f"bfloat16 cannot be measured: {problem}")
    threads = torch.get_num_threads() if device.type == "cpu" else 1
    with _one_thread():
        return threads * _peak(device, dtype)


def _peak(device: torch.device, dtype: torch.dtype) -> float:
    size, seconds, peak = 128, 0.0, 0.0
    while seconds < 0.005 and size < 8192:
        size *= 2
        a, b = (torch.ones(size, size, device=device, dtype=dtype) for _ in range(2))
        seconds = _fastest(lambda a=a, b=b: a @ b, device)
        peak = max(peak, 2 * size**3 / seconds)
    return peak


def _fastest(work: Callable[[], object], device: torch.device, limit: float = 0.06) -> float:
    """Seconds of the fastest run within the time limit, after one warm-up run."""
    _finish(work, device)
    started, best = time.perf_counter(), math.inf
    while best == math.inf or time.perf_counter() - started < limit:
        best = min(best, _finish(work, device))
    return best


def _finish(work: Callable[[], object], device: torch.device) -> float:
    """Seconds until the work has finished, also on a device that runs it asynchronously."""
    started = time.perf_counter()
    work()
    if device.type != "cpu":
        torch.accelerator.synchronize(device)
    return time.perf_counter() - started


def set_residual_dtype(
    model: nn.Module, setting: PrecisionSetting, precision: Precision, before: bool | None = None
) -> bool:
    """Sets the data type of the residual stream while training; returns whether it is bfloat16 anywhere.

    `auto` is bfloat16 on a GPU that computes in it, in pre-norm stacks: there, adding and normalising take as long as
    reading and writing memory does. Post-norm layers output float32 anyway. A run that resumes with `auto` keeps what
    it had `before`.
    """
    half, stacks = precision.dtype is torch.bfloat16, stacks_of(model)
    if setting == "bfloat16" and not (half and any(map(_is_pre_norm, stacks))):
        wrong = f"got {precision.name}" if not half else "as other norms output float32"
        raise ConfigError(
            "train.residual_dtype",
            "bfloat16 is for Transformers with model.norm_place=before that compute in it (train.precision), "
            f"{wrong}; leave it at auto",
        )
    pays = half and (precision.device.type == "cuda" if before is None else before)
    dtypes = {"float32": torch.float32, "bfloat16": torch.bfloat16, "auto": torch.bfloat16 if pays else None}
    for stack in stacks:
        keeps_inputs = dtypes[setting] is torch.bfloat16 and not _is_pre_norm(stack)
        stack.residual_dtype = None if keeps_inputs else dtypes[setting]
    return any(stack.residual_dtype is torch.bfloat16 for stack in stacks)


def _is_pre_norm(stack: Stack) -> bool:
    return stack.config.norm_place == "before"
