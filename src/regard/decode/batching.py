"""Inputs of any number, sorted by length into batches of bounded size, with results in the inputs' order."""

from collections.abc import Callable, Sequence, Sized
from typing import TypeVar

from regard.errors import ConfigError
from regard.progress import phase

Input = TypeVar("Input", bound=Sized)
Output = TypeVar("Output")


def batches(lengths: Sequence[int], tokens_per_batch: int, rows_per_batch: int | None = None) -> list[list[int]]:
    """Indices of the inputs, batch by batch, longest first, so that what does not fit in memory fails at once.

    A batch of r rows whose longest has n tokens counts as r × n, as it is padded. An input longer than the budget gets
    a batch of its own: an input is never cut.
    """
    for name, setting in (("tokens_per_batch", tokens_per_batch), ("rows_per_batch", rows_per_batch)):
        if setting is not None and setting < 1:
            raise ConfigError(name, f"expected at least 1, got {setting}")
    batches: list[list[int]] = []
    free_rows = 0
    for index in sorted(range(len(lengths)), key=lambda index: -lengths[index]):
        if not free_rows:
            batches.append([])
            free_rows = max(1, tokens_per_batch // max(1, lengths[index]))
            free_rows = free_rows if rows_per_batch is None else min(free_rows, rows_per_batch)
        batches[-1].append(index)
        free_rows -= 1
    return batches


def in_batches(
    inputs: Sequence[Input],
    work: Callable[[list[Input]], Sequence[Output]],
    *,
    tokens_per_batch: int,
    rows_per_batch: int | None = None,
) -> list[Output]:
    """The results of `work` on each input, in the inputs' order, however they are batched."""
    results: dict[int, Output] = {}
    with phase("generating", len(inputs), "texts") as advance:
        for batch in batches([len(row) for row in inputs], tokens_per_batch, rows_per_batch):
            results.update(zip(batch, work([inputs[index] for index in batch]), strict=True))
            advance(len(batch))
    return [results[index] for index in range(len(inputs))]
