"""Batches by length: every input once, within the budget, results in order."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.decode import batches, in_batches
from regard.errors import ConfigError

lengths = st.lists(st.integers(0, 30), max_size=40)


@given(lengths, st.integers(1, 100), st.none() | st.integers(1, 5))
def test_every_input_once_and_within_the_budget(lengths, budget, rows):
    made = batches(lengths, budget, rows)
    assert sorted(place for batch in made for place in batch) == list(range(len(lengths)))
    flat = [lengths[place] for batch in made for place in batch]
    assert flat == sorted(flat, reverse=True)
    for batch in made:
        longest = max(lengths[place] for place in batch)
        assert len(batch) == 1 or len(batch) * longest <= budget
        assert rows is None or len(batch) <= rows


@given(lengths, st.integers(1, 100))
def test_no_batch_could_have_taken_the_next_input(lengths, budget):
    made = batches(lengths, budget)
    for batch in made[:-1]:
        assert (len(batch) + 1) * max(1, lengths[batch[0]]) > budget


@given(st.lists(st.text("abc", max_size=10), max_size=30), st.integers(1, 40))
def test_results_come_in_the_order_of_the_inputs(inputs, budget):
    assert in_batches(inputs, lambda batch: [text.upper() for text in batch], tokens_per_batch=budget) == [
        text.upper() for text in inputs
    ]


def test_work_that_loses_a_result_is_noticed():
    with pytest.raises(ValueError, match="shorter"):
        in_batches(["a", "b"], lambda batch: batch[1:], tokens_per_batch=10)


def test_wrong_budgets_are_refused():
    with pytest.raises(ConfigError, match="tokens_per_batch: expected at least 1, got 0"):
        batches([1], 0)
    with pytest.raises(ConfigError, match="rows_per_batch: expected at least 1, got 0"):
        batches([1], 5, 0)
