"""Number formats: which one a machine computes faster, how fast it computes at best, and whether the numbers are sound.

Speeds are measured on the machine at hand, once for each process, never looked up.
"""

import math
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import cache
from typing import Literal

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import get_total_norm

from regard.errors import ConfigError
from regard.files.machine import has_amx
from regard.nn.device import Arriving
from regard.train.parallel.state import is_cut_up, own_part, whole

PrecisionSetting = Literal["auto", "float32", "bfloat16"]
TINY = 1e-6  # as torch has it, so that gradients of norm zero can be scaled
CLEAR_GAIN = 1.2  # bfloat16 costs digits, so it must win clearly


@dataclass(frozen=True)
class Precision:
    """The format of matrix products, and one sentence that says why; weights stay float32."""

    device: torch.device
    dtype: torch.dtype
    reason: str

    @property
    def name(self) -> PrecisionSetting:
        """What a recipe would say for it: a resumed run that asks for this by name computes in the same format."""
        return "bfloat16" if self.dtype is torch.bfloat16 else "float32"

    def autocast(self) -> AbstractContextManager[object]:
        """Within it, matrix products are computed in this format."""
        return nullcontext() if self.dtype is torch.float32 else torch.autocast(self.device.type, self.dtype)


def choose_precision(setting: PrecisionSetting, device: torch.device | str) -> Precision:
    """The format for a setting on a device; `auto` is bfloat16 where that is clearly faster."""
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
    """Tries a product in a process of its own: where a virtual machine refuses AMX, it is killed by the first one."""
    limit = "import resource; resource.setrlimit(resource.RLIMIT_CORE, (0, 0))"
    product = "import torch; x = torch.ones(64, 64, dtype=torch.bfloat16); x @ x"
    return subprocess.run([sys.executable, "-c", f"{limit}; {product}"], capture_output=True).returncode == 0


@cache
def _gain(device: torch.device) -> float:
    """How many times as fast as float32 a linear map runs under autocast, conversions included."""
    size = 256 if device.type == "cpu" else 2048
    x, weight = (torch.randn(size, size, device=device) for _ in range(2))

    def converted() -> Tensor:
        with torch.autocast(device.type, torch.bfloat16):
            return F.linear(x, weight)

    with torch.no_grad(), _one_thread():
        return _fastest(lambda: F.linear(x, weight), device) / _fastest(converted, device)


@contextmanager
def _one_thread() -> Iterator[None]:
    """Threads that wait for one another would mostly measure what else the machine is doing."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


@cache
def machine_peak(device: torch.device | str, dtype: torch.dtype) -> float:
    """The most FLOP/s that square matrix products of this type reach here, sizes doubled until one takes 5 ms.

    On a processor it is what one thread reaches, times the threads that torch uses.
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


def _fastest(work: Callable[[], object], device: torch.device, patience: float = 0.06) -> float:
    """Seconds of the fastest run within some patience, after one run that warms up."""
    _finish(work, device)
    started, best = time.perf_counter(), math.inf
    while best == math.inf or time.perf_counter() - started < patience:
        best = min(best, _finish(work, device))
    return best


def _finish(work: Callable[[], object], device: torch.device) -> float:
    """Seconds until the work is done, also on a device that only queues it."""
    started = time.perf_counter()
    work()
    if device.type != "cpu":
        torch.accelerator.synchronize(device)
    return time.perf_counter() - started


@dataclass(frozen=True)
class Pulse:
    """Objective and gradient norm of a step, before clipping."""

    loss: float
    norm: float
    plain: float = math.nan
    """The cross-entropy, in the unit of the validation's, where that is not the objective."""

    @property
    def finite(self) -> bool:
        """Whether loss and every gradient are numbers; if not, the step must not be taken."""
        return math.isfinite(self.loss) and math.isfinite(self.norm)


def gradient_norm(trained: Sequence[nn.Parameter]) -> Tensor:
    """The norm of all gradients together; where all are cut up, the processes add up the squares of their parts."""
    gradients = [parameter.grad for parameter in trained if parameter.grad is not None]
    norm = get_total_norm([own_part(gradient) for gradient in gradients])
    if not gradients or not is_cut_up(gradients[0]) or gradients[0].device_mesh.size() == 1:
        return norm
    square = norm.double().square()
    dist.all_reduce(square, group=gradients[0].device_mesh.get_group())
    return square.sqrt()


class Beat:
    """Objective, gradient norm and plain loss of a step, on their way from the device.

    A norm is a finite number only if every gradient is.
    """

    def __init__(self, loss: Tensor, norm: Tensor, plain: Tensor | None = None) -> None:
        beside = [] if plain is None else [plain.float().to(loss.device)]
        values = torch.stack((loss.detach().float(), norm.float().to(loss.device), *beside))
        self._both = values[:2]
        self._arriving = Arriving(values)

    def read(self) -> Pulse:
        """The numbers, once they are there."""
        return Pulse(*self._arriving.wait()[0].tolist())

    def unsound(self) -> Tensor:
        """One where a number is none, zero where the step may be taken; on the device."""
        return (~self._both.isfinite().all()).float()

    def excess(self, limit: float) -> Tensor:
        """What gradients are to be divided by, so that their norm is at most `limit`; on the device."""
        return ((self._both[1] + TINY) / limit).clamp(min=1.0)


@torch.no_grad()
def clip_gradients(trained: Iterable[nn.Parameter], limit: float | None, pulse: Pulse) -> None:
    """Scales the gradients down to a norm of at most `limit`.

    Those that are not finite are left as they are, so that `not_finite` can still tell where the trouble began.
    """
    if limit is not None and pulse.finite and pulse.norm > limit:
        gradients = [own_part(parameter.grad) for parameter in trained if parameter.grad is not None]
        torch._foreach_mul_(gradients, limit / (pulse.norm + TINY))  # type: ignore[attr-defined]


def not_finite(model: nn.Module) -> list[str]:
    """Names of the parameters whose gradient holds NaN or infinity."""
    return [name for name, p in model.named_parameters() if p.grad is not None and not whole(p.grad).isfinite().all()]
