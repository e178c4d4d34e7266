"""Training steps as CUDA graphs: forward, loss, backward, clipping, optimiser and average in one launch.

A step of a small model is about a thousand kernels of a few microseconds each, which Python takes longer to launch than
the device to compute. A graph launches them all at once. It reads and writes fixed addresses: each batch is copied into
static tensors of its shape, and what changes from step to step (learning rate, number of targets) into static scalars.

A shape's first steps are computed by the same function without a graph, with the same result to the bit.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, cast

import torch
from torch import Tensor

from regard.data.batches import Batches, ExampleBatches
from regard.nn.fast.memo import graph_values
from regard.tasks.base import Inputs
from regard.tasks.fixed_shape import Key, OneShape, PackedShape, RoundedShapes, Shapes, shape_key, tensors, with_tensors

BEFORE_CAPTURE = 2
"""Steps of a shape without a graph: a shape that is met only once or twice needs none."""
MOST_GRAPHS = 96


class CannotCaptureError(Exception):
    """Why training steps cannot be captured."""


class StepScalars:
    """What changes from step to step, on the device."""

    def __init__(self, groups: int, device: torch.device) -> None:
        pinned = device.type == "cuda"
        self.values = torch.zeros(groups + 4, device=device)
        self._host = [torch.zeros(groups + 4, pin_memory=pinned) for _ in range(2)]
        self.lr = list(self.values[:groups])
        """Learning rate of each group of parameters."""
        self.count, self.scored, self.average_weight, self.hold = self.values[groups:]
        """Targets of the objective and of the plain loss; weight of the newest parameters in their moving average;
        1 where the step must change nothing."""

    def set(self, lr: list[float], inputs: Inputs, average_weight: float, hold: bool) -> None:
        self._host.reverse()  # the copy before may still be under way
        counts = (max(1, inputs.count), max(1, inputs.scored))
        self._host[0].copy_(torch.tensor([*lr, *counts, average_weight, float(hold)]))
        self.values.copy_(self._host[0], non_blocking=True)


@dataclass
class StaticBatch:
    """The tensors of a shape that its graph reads; a batch arrives in one copy for each data type."""

    inputs: Inputs
    device: dict[torch.dtype, Tensor]
    host: list[dict[torch.dtype, Tensor]]

    @classmethod
    def like(cls, inputs: Inputs, scalars: StepScalars) -> "StaticBatch":
        device, sizes = scalars.values.device, Counter[torch.dtype]()
        starts = list[int]()
        for part in tensors(inputs):
            starts.append(sizes[part.dtype])
            sizes[part.dtype] += part.numel()
        pinned = device.type == "cuda"
        flat = {dtype: torch.zeros(size, dtype=dtype, device=device) for dtype, size in sizes.items()}
        host = [{kind: torch.empty(size, dtype=kind, pin_memory=pinned) for kind, size in sizes.items()} for _ in "12"]
        views = (
            flat[part.dtype][start : start + part.numel()].view(part.shape)
            for part, start in zip(tensors(inputs), starts, strict=True)
        )
        static = with_tensors(inputs, views)
        # Tokens and FLOPs are not read by any loss; the count is, and a graph must not keep one batch's.
        return cls(replace(static, count=cast(int, scalars.count), tokens=0, flops=0.0), flat, host)

    def load(self, inputs: Inputs) -> None:
        self.host.reverse()  # the copy before may still be under way
        for dtype, buffer in self.host[0].items():
            torch.cat([part.flatten() for part in tensors(inputs) if part.dtype == dtype], out=buffer)
            self.device[dtype].copy_(buffer, non_blocking=True)


@dataclass
class _Graph:
    graph: torch.cuda.CUDAGraph
    statistics: Tensor
    read: dict[object, Any]
    """What the graph reads beside weights and the batch: kept as long as the graph."""


class CapturedSteps:
    """Training steps by CUDA graphs, one for each shape of batches.

    `compute` launches all kernels of a step and returns its statistics; it must not wait for the device, nor draw
    random numbers on the host.
    """

    def __init__(self, compute: Callable[[Inputs, StepScalars], Tensor], scalars: StepScalars, shapes: Shapes) -> None:
        self.compute, self.scalars, self.shapes = compute, scalars, shapes
        self._on_gpu = scalars.values.is_cuda  # elsewhere, tests compare the same steps without graphs
        self._stream = torch.cuda.Stream() if self._on_gpu else None
        self._pool = torch.cuda.graph_pool_handle() if self._on_gpu else None
        self._static: dict[Key, StaticBatch] = {}
        self._steps: Counter[Key] = Counter()
        self._graphs: dict[Key, _Graph] = {}

    def takes(self, inputs: Inputs) -> bool:
        """Whether a batch has one of the shapes: it is then still on the host."""
        return inputs.targets.device.type == "cpu"

    def run(self, inputs: Inputs, lr: list[float], average_weight: float, seed: Callable[[], None]) -> Tensor:
        """One step on a batch of `shapes`; its statistics, on the device. `seed` seeds dropout."""
        if self._stream is None:
            return self._run(inputs, lr, average_weight, seed)
        before = torch.cuda.current_stream()
        self._stream.wait_stream(before)
        with torch.cuda.stream(self._stream):
            statistics = self._run(inputs, lr, average_weight, seed)
        before.wait_stream(self._stream)
        return statistics

    def _run(self, inputs: Inputs, lr: list[float], average_weight: float, seed: Callable[[], None]) -> Tensor:
        key = shape_key(inputs)
        if key not in self._static:
            self._static[key] = StaticBatch.like(inputs, self.scalars)
        batch = self._static[key]
        batch.load(inputs)
        if not self._steps and self._on_gpu:
            self._check(batch.inputs, lr, inputs, seed)
        self.scalars.set(lr, inputs, average_weight, hold=False)
        self._steps[key] += 1
        worth_it = self._on_gpu and self._steps[key] > BEFORE_CAPTURE and len(self._graphs) < MOST_GRAPHS
        if worth_it and key not in self._graphs:
            self._graphs[key] = self._capture(batch.inputs)
        seed()
        if key not in self._graphs:
            return self.compute(batch.inputs, self.scalars)
        self._graphs[key].graph.replay()
        return self._graphs[key].statistics

    def _check(self, static: Inputs, lr: list[float], inputs: Inputs, seed: Callable[[], None]) -> None:
        """Refuses steps that a graph would not repeat; the weights stay as they are."""
        self.scalars.set(lr, inputs, 0.0, hold=True)
        seed()
        self.compute(static, self.scalars)  # compiles, and makes the optimiser's state
        seed()
        drawn = torch.default_generator.get_state()
        before = torch.cuda.get_sync_debug_mode()
        torch.cuda.set_sync_debug_mode("error")
        try:
            self.compute(static, self.scalars)
        except RuntimeError as error:
            if "synchronizing" not in str(error):
                raise
            raise CannotCaptureError("a step waits for values from the device") from error
        finally:
            torch.cuda.set_sync_debug_mode(before)
        if not torch.equal(drawn, torch.default_generator.get_state()):
            raise CannotCaptureError("a step draws random numbers on the host")

    def _capture(self, static: Inputs) -> _Graph:
        graph = torch.cuda.CUDAGraph()
        with graph_values() as read, torch.cuda.graph(graph, self._pool, self._stream, "thread_local"):
            statistics = self.compute(static, self.scalars)
        return _Graph(graph, statistics, read)


def choose_shapes(batches: Batches, make: Callable[[int], Inputs]) -> Shapes:
    """The shapes that batches are padded to; `make` makes a batch of the first epoch."""
    if batches.one_shape:
        return OneShape(make(0))
    if isinstance(batches, ExampleBatches) and batches.one_row:
        return PackedShape(make(step) for step in batches.largest())
    return RoundedShapes()
