"""Inputs come in the order of the batches, whether they were made ahead or not."""

import numpy as np
import pytest
import torch

from regard.data.batches import Batch, Batches
from regard.tasks.base import Inputs
from regard.train.parallel.processes import World
from regard.train.prefetcher import Prefetcher


class Counted(Batches):
    """Epochs of two and three batches in turn; a batch has the rows that its place says."""

    def num_batches(self, epoch: int) -> int:
        return 2 + epoch % 2

    def batch(self, epoch: int, step: int, rank: int = 0, world: int = 1) -> Batch:
        rows = np.array_split(np.arange(100 * epoch + 10 * step, 100 * epoch + 10 * step + 3), world)[rank]
        return Batch({}, {}, rows)


def feed(rank: int = 0, size: int = 1) -> tuple[Prefetcher, list[list[int]]]:
    made: list[list[int]] = []

    def make(batch: Batch) -> Inputs:
        made.append(batch.examples.tolist())
        return Inputs((), torch.from_numpy(batch.examples), len(batch.examples), len(batch.examples), 1.0)

    return Prefetcher(Counted(), make, World(rank, size, torch.device("cpu"))), made


@pytest.mark.parametrize("ahead", [False, True])
def test_places_follow_one_another(ahead: bool):
    one, made = feed()
    places, examples = [], []
    for _ in range(6):
        places.append((one.epoch, one.index, round(one.epochs, 2)))
        examples += [part.targets.tolist() for part in one.inputs(1)]
        if ahead:
            one.prefetch(1)
        one.advance()
    assert places == [(0, 0, 0), (0, 1, 0.5), (1, 0, 1), (1, 1, 1.33), (1, 2, 1.67), (2, 0, 2)]
    assert [rows[0] for rows in examples] == [0, 10, 100, 110, 120, 200]
    assert len(made) == 6 + ahead  # each once, and one more that was looked ahead to


def test_what_was_made_ahead_for_other_parts_or_another_place_is_made_anew():
    one, _ = feed()
    one.prefetch(1)
    assert [part.targets.tolist() for part in one.inputs(1)] == [[0, 1, 2]]
    one.prefetch(1)
    one.advance()
    assert [part.targets.tolist() for part in one.inputs(2)] == [[10, 11], [12]]
    one.prefetch(2)
    one.epoch, one.index = 0, 0
    assert [part.targets.tolist() for part in one.inputs(2)] == [[0, 1], [2]]


def test_empty_parts_are_left_out_alone_and_stood_in_for_in_a_team():
    assert [part.count for part in feed()[0].inputs(4)] == [1, 1, 1]
    last = feed(rank=1, size=2)[0].inputs(2)
    assert [(part.count, part.tokens, part.flops) for part in last] == [(1, 1, 1.0), (0, 0, 0.0)]
    assert last[1].targets.tolist() == [0]
