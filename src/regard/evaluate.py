"""A model measured on a store: losses and whatever else a task counts."""

from collections import Counter
from collections.abc import Callable, Mapping

import torch
from torch import nn

from regard.data.batches import Batches, BatchingConfig, BucketedConfig, StreamConfig
from regard.data.store import Store
from regard.tasks.base import Task


def measuring_batches(store: Store, batching: BatchingConfig, tokens_per_batch: int) -> Batches:
    """Every example once; a stream is cut end to end instead of at random."""
    if isinstance(batching, StreamConfig):
        context = batching.measured_context or batching.context
        rows = max(tokens_per_batch, context)
        return batching.but(order="sequential", context=context).build(store, tokens_per_batch=rows)
    longest = max(int(lengths.max(initial=1)) for lengths in store.lengths.values())
    return BucketedConfig().build(store, tokens_per_batch=max(tokens_per_batch, longest))


@torch.no_grad()
def measure(
    task: Task,
    model: nn.Module,
    batches: Batches,
    device: torch.device,
    watch: Callable[[Mapping[str, float]], None] | None = None,
) -> dict[str, float]:
    """The task's metrics over all batches; `watch` is told the sums of each."""
    was_training = model.training
    model.eval()
    sums: Counter[str] = Counter()
    for step in range(batches.num_batches(0)):
        found = task.measure(model, task.inputs(batches.batch(0, step), model.config, device))
        sums.update(found)
        if watch:
            watch(found)
    model.train(was_training)
    return task.summarise(sums)
