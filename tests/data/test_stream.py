from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.data.stream import StreamPlan
from regard.errors import ConfigError, DataError


def all_starts(plan: StreamPlan, epoch: int) -> list[list[int]]:
    return [plan.starts(epoch, step).tolist() for step in range(plan.num_batches(epoch))]


@given(st.integers(2, 300), st.integers(1, 40), st.integers(1, 5), st.sampled_from(["shuffled", "sequential"]))
def test_every_token_but_the_first_is_predicted_once_an_epoch(tokens: int, context: int, rows: int, order: str):
    budget = context * rows
    plan = StreamPlan(tokens, context=context, tokens_per_batch=budget, order=order)
    predicted: Counter[int] = Counter()
    for starts in all_starts(plan, 0):
        lengths = plan.lengths(np.array(starts, np.int64)).tolist()
        assert sum(length - 1 for length in lengths) <= budget
        for start, length in zip(starts, lengths, strict=True):
            predicted.update(range(start + 1, start + length))
    assert predicted == Counter(range(1, tokens))


@given(st.integers(2, 300), st.integers(1, 40), st.integers(1, 5), st.integers(0, 3))
def test_random_rows_are_whole_and_lie_inside(tokens: int, context: int, rows: int, epoch: int):
    if tokens <= context:
        return
    plan = StreamPlan(tokens, context=context, tokens_per_batch=context * rows + context - 1)
    for starts in all_starts(plan, epoch):
        assert len(starts) == rows
        assert all(0 <= start <= tokens - context - 1 for start in starts)
        assert (plan.lengths(np.array(starts, np.int64)) == context + 1).all()


def test_random_rows_begin_everywhere():
    plan = StreamPlan(20, context=4, tokens_per_batch=4000)
    assert set(plan.starts(0, 0).tolist()) == set(range(16))


@pytest.mark.parametrize("order", ["random", "shuffled"])
def test_rows_depend_on_seed_epoch_and_step_alone(order: str):
    def plan(seed: int) -> StreamPlan:
        return StreamPlan(10_000, context=32, tokens_per_batch=256, seed=seed, order=order)

    walked = plan(1)
    epochs = [all_starts(walked, epoch) for epoch in range(3)]
    assert plan(1).starts(2, 7).tolist() == epochs[2][7]
    assert walked.starts(0, 7).tolist() == epochs[0][7]
    assert epochs[0] != epochs[1]
    assert epochs[0][0] != epochs[0][1]
    assert all_starts(plan(2), 0) != epochs[0]


def test_sequential_rows_come_in_order():
    plan = StreamPlan(11, context=4, tokens_per_batch=8, seed=5, order="sequential")
    assert all_starts(plan, 3) == [[0, 4], [8]]
    assert plan.lengths(np.array([8])).tolist() == [3]


def test_what_cannot_be_is_refused():
    with pytest.raises(ConfigError, match=r"train\.tokens_per_batch: expected at least one row of 64 tokens, got 63"):
        StreamPlan(1000, context=64, tokens_per_batch=63)
    with pytest.raises(DataError, match="the text has 64 tokens, but one row needs 65"):
        StreamPlan(64, context=64, tokens_per_batch=64)
    with pytest.raises(DataError, match="the text has 1 tokens, but one row needs 2"):
        StreamPlan(1, context=64, tokens_per_batch=64, order="sequential")
    with pytest.raises(IndexError):
        StreamPlan(65, context=64, tokens_per_batch=64).starts(0, 1)
