from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data.plan import BucketedPlan, PackedPlan, first_fit, shard
from regard.errors import ConfigError, DataError

Lengths = dict[str, np.ndarray]
PLANS = {"bucketed": BucketedPlan, "packed": PackedPlan}


def random_lengths(count: int, seed: int = 0) -> Lengths:
    chance = np.random.default_rng(seed)
    source = np.clip(chance.lognormal(3, 0.6, count).astype(np.int64), 1, 200)
    return {"source": source, "target": np.clip((source * chance.normal(1.05, 0.1, count)).astype(np.int64), 1, 220)}


@st.composite
def some_lengths(draw: st.DrawFn) -> tuple[Lengths, int]:
    pairs = draw(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), min_size=1, max_size=60))
    fields = np.array(pairs, np.int64)
    lengths = {"source": fields[:, 0], "target": fields[:, 1]} if draw(st.booleans()) else {"text": fields[:, 0]}
    longest = int(max(of_field.max() for of_field in lengths.values()))
    return lengths, draw(st.integers(max(longest, 1), 100))


def all_batches(plan: BucketedPlan | PackedPlan, epoch: int) -> list[list[int]]:
    return [plan.examples(epoch, step).tolist() for step in range(plan.num_batches(epoch))]


def cost(kind: str, lengths: Lengths, batch: list[int]) -> int:
    """The most tokens, padding included where there is any, that a field of a batch takes."""
    if kind == "packed":
        return max(int(of_field[batch].sum()) for of_field in lengths.values())
    return max(len(batch) * int(of_field[batch].max()) for of_field in lengths.values())


@pytest.mark.parametrize("kind", PLANS)
@given(some_lengths(), st.integers(0, 2**40), st.integers(0, 5), st.integers(1, 4))
@settings(max_examples=150, deadline=None)
def test_every_example_stands_in_one_batch_and_no_batch_is_too_large(
    kind: str, given_lengths: tuple[Lengths, int], seed: int, epoch: int, width: int
):
    lengths, budget = given_lengths
    count = len(next(iter(lengths.values())))
    width_setting = {"pool" if kind == "bucketed" else "window": width}
    plan = PLANS[kind](lengths, tokens_per_batch=budget, seed=seed, **width_setting)
    batches = all_batches(plan, epoch)
    assert sorted(example for batch in batches for example in batch) == list(range(count))
    assert all(batch and cost(kind, lengths, batch) <= budget for batch in batches)


@pytest.mark.parametrize("kind", PLANS)
def test_a_batch_depends_on_seed_epoch_and_step_alone(kind: str):
    lengths = random_lengths(3000)

    def plan(seed: int) -> BucketedPlan | PackedPlan:
        return PLANS[kind](lengths, tokens_per_batch=1024, seed=seed)

    walked = plan(1)
    epochs = [all_batches(walked, epoch) for epoch in range(3)]
    assert plan(1).examples(2, 5).tolist() == epochs[2][5]  # at once, and after walking there
    assert walked.examples(0, 5).tolist() == epochs[0][5]  # and back again
    assert epochs[0] != epochs[1]
    assert all_batches(plan(2), 0) != epochs[0]
    as_sets = [{frozenset(batch) for batch in batches} for batches in epochs]
    assert len(as_sets[0] & as_sets[1]) < len(as_sets[0]) / 10  # other batches, not only in another order


def test_bucketing_pads_little_and_fills_the_budget():
    lengths = random_lengths(30_000)
    plan = BucketedPlan(lengths, tokens_per_batch=4096, seed=3)
    batches = all_batches(plan, 0)
    tokens = sum(int(of_field.sum()) for of_field in lengths.values())
    padded = sum(len(batch) * int(of_field[batch].max()) for batch in batches for of_field in lengths.values())
    assert tokens / padded > 0.92
    one = {"text": lengths["source"]}
    alone = all_batches(BucketedPlan(one, tokens_per_batch=4096, seed=3), 0)
    assert int(one["text"].sum()) / sum(len(batch) * int(one["text"][batch].max()) for batch in alone) > 0.96
    assert np.mean([cost("bucketed", lengths, batch) for batch in batches]) > 0.95 * 4096


def test_bucketed_batches_come_in_no_order_of_length():
    lengths = random_lengths(20_000)
    batches = all_batches(BucketedPlan(lengths, tokens_per_batch=2048, seed=1), 0)
    longest = np.array([lengths["target"][batch].max() for batch in batches])
    assert abs(np.corrcoef(longest[:-1], longest[1:])[0, 1]) < 0.2


def test_packing_leaves_little_room():
    lengths = random_lengths(10_000)
    batches = all_batches(PackedPlan(lengths, tokens_per_batch=2048, seed=3), 0)
    assert lengths["target"].sum() / (2048 * len(batches)) > 0.98


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=40), st.integers(9, 30), st.integers(1, 5))
def test_first_fit_is_what_its_name_says(rows: list[tuple[int, int]], budget: int, window: int):
    expected, opened = [], []
    for i, row in enumerate(rows):
        fitting = (batch for batch in opened if all(sum(rows[j][f] for j in batch) + row[f] <= budget for f in (0, 1)))
        batch = next(fitting, None)
        if batch is None:
            if len(opened) == window:
                expected.append(opened.pop(0))
            batch = []
            opened.append(batch)
        batch.append(i)
    assert first_fit(np.array(rows, np.int64).reshape(-1, 2), budget, window) == expected + opened


@pytest.mark.parametrize("kind", PLANS)
def test_an_example_larger_than_a_batch_is_named(kind: str):
    lengths = {"source": np.array([5, 5, 101, 5]), "target": np.array([5, 5, 5, 5])}
    with pytest.raises(ConfigError, match=r"train\.tokens_per_batch: example 3 alone has 101 tokens, .* 100; raise"):
        PLANS[kind](lengths, tokens_per_batch=100)
    PLANS[kind](lengths, tokens_per_batch=101)


@pytest.mark.parametrize("kind", PLANS)
def test_batches_of_nothing_are_refused(kind: str):
    with pytest.raises(DataError, match="no examples are left"):
        PLANS[kind]({"text": np.array([], np.int64)}, tokens_per_batch=100)


@pytest.mark.parametrize("kind", PLANS)
def test_a_step_past_the_end_is_an_error(kind: str):
    plan = PLANS[kind](random_lengths(50), tokens_per_batch=512)
    with pytest.raises(IndexError):
        plan.examples(0, plan.num_batches(0))


@given(st.lists(st.integers(0, 50), max_size=40), st.integers(1, 9))
@settings(max_examples=200)
def test_shards_are_contiguous_parts_of_the_whole(tokens: list[int], world: int):
    parts = [shard(np.array(tokens, np.int64), rank, world) for rank in range(world)]
    assert parts[0].start == 0
    assert parts[-1].stop == len(tokens)
    assert all(one.stop == other.start for one, other in pairwise(parts))
    assert all(part.start <= part.stop for part in parts)
    if len(tokens) >= world:
        assert all(part.start < part.stop for part in parts)


@given(st.lists(st.integers(1, 50), min_size=64, max_size=200), st.integers(1, 8))
def test_shards_are_balanced_in_tokens(tokens: list[int], world: int):
    array = np.array(tokens, np.int64)
    shares = [int(array[shard(array, rank, world)].sum()) for rank in range(world)]
    assert max(abs(share - array.sum() / world) for share in shares) <= array.max()
