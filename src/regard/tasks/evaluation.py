"""A model measured on a store: losses and whatever else a task counts, alike in training and in a test."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard.data.batches import Batch, Batches, BatchingConfig, BucketedConfig, StreamConfig
from regard.data.store import Store
from regard.metrics.registry import require_registered
from regard.progress import tracked
from regard.tasks.base import Inputs, Task
from regard.tasks.contract import config_of, evaluation_mode


@dataclass(frozen=True)
class MeasuredBatch:
    """A batch and what a model made of it."""

    batch: Batch
    inputs: Inputs
    sums: Mapping[str, float]
    predicted: Tensor | None
    """The likeliest label at each target; None where tokens are predicted."""


def measuring_batches(store: Store, batching: BatchingConfig, tokens_per_batch: int) -> Batches:
    """Every example once; a stream is cut end to end instead of at random."""
    if isinstance(batching, StreamConfig):
        context = batching.measured_context or batching.context
        rows = max(tokens_per_batch, context)
        return batching.but(order="sequential", context=context).build(store, tokens_per_batch=rows)
    longest = max(int(lengths.max(initial=1)) for lengths in store.lengths.values())
    return BucketedConfig().build(store, tokens_per_batch=max(tokens_per_batch, longest))


def limited_steps(batches: Batches, store: Store, limit: int | None) -> Sequence[int] | None:
    """The batches that hold about so many examples, or rows of a stream, evenly spread; None: all."""
    number = batches.num_batches(0)
    rows = number * len(batches.batch(0, 0).examples) if batches.one_shape else len(store)
    if limit is None or limit >= rows:
        return None
    most = max(1, round(number * limit / rows))
    return [index * number // most for index in range(most)]


@torch.no_grad()
def measure(
    task: Task,
    model: nn.Module,
    batches: Batches,
    device: torch.device,
    watch: Callable[[MeasuredBatch], None] | None = None,
    steps: Sequence[int] | None = None,
) -> dict[str, float]:
    """The task's metrics over all batches, or those of some steps, in evaluation mode; `watch` is called with each."""
    sums: Counter[str] = Counter()
    chosen = range(batches.num_batches(0)) if steps is None else steps
    with evaluation_mode(model):
        for step in tracked(chosen, "measuring", len(chosen), "batches"):
            batch = batches.batch(0, step)
            inputs = task.inputs(batch, config_of(model), device)
            counts, predicted = task.measure_labels(model, inputs)
            sums.update(counts)
            if watch:
                watch(MeasuredBatch(batch, inputs, counts, predicted))
    metrics = task.summarise(sums)
    require_registered(metrics)
    return metrics
