"""Inputs of any number, sorted by length into batches of bounded size, with results in the inputs' order."""

from collections.abc import Callable, Sequence, Sized
from typing import TypeVar

from regard.errors import ConfigError
from regard.progress import phase

Input = TypeVar("Input", bound=Sized)
Output = TypeVar("Output")


def batches(lengths: Sequence[int], tokens_per_batch: int, rows_per_batch: int | None = None) -> list[list[int]]:
    """Places of the inputs, batch by batch, longest first: what does not fit in memory fails at once, not at the end.

    A batch of r rows whose longest has n tokens counts as r × n, as it is padded. An input longer than the budget gets
    a batch of its own: an input is never cut.
    """
    for name, setting in (("tokens_per_batch", tokens_per_batch), ("rows_per_batch", rows_per_batch)):
        if setting is not None and setting < 1:
            raise ConfigError(name, f"expected at least 1, got {setting}")
    made: list[list[int]] = []
    room = 0
    for place in sorted(range(len(lengths)), key=lambda place: -lengths[place]):
        if not room:
            made.append([])
            room = max(1, tokens_per_batch // max(1, lengths[place]))
            room = room if rows_per_batch is None else min(room, rows_per_batch)
        made[-1].append(place)
        room -= 1
    return made


def in_batches(
    inputs: Sequence[Input],
    work: Callable[[list[Input]], Sequence[Output]],
    *,
    tokens_per_batch: int,
    rows_per_batch: int | None = None,
) -> list[Output]:
    """The results of `work` on each input, in the inputs' order, whatever batches they went through."""
    results: dict[int, Output] = {}
    with phase("generating", len(inputs), "texts") as advance:
        for batch in batches([len(one) for one in inputs], tokens_per_batch, rows_per_batch):
            done = work([inputs[place] for place in batch])
            results.update(zip(batch, done, strict=True))
            advance(len(batch))
    return [results[place] for place in range(len(inputs))]
