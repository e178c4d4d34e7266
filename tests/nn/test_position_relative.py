"""Positions on the scores: Shaw's vectors against a vector for each pair, T5's buckets and ALiBi's slopes by hand."""

import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from attention_cases import assert_close, make_layout, make_pattern, self_context
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from regard.errors import ConfigError
from regard.nn.attention.module import attend
from regard.nn.context import AttentionContext
from regard.nn.layout import Layout
from regard.nn.position import Alibi, AlibiConfig, Relative, RelativeConfig, T5Bias, T5Config
from regard.nn.position.relative import alibi_slopes

SEEDS = st.integers(0, 2**16)
LENGTHS = st.lists(st.integers(1, 6), min_size=1, max_size=3)
STACK = {"width": 8, "heads": 2, "head_width": 4}


def vector_for_each_pair(
    tensors: list[Tensor],
    keys_by_distance: Tensor,
    values_by_distance: Tensor | None,
    clip: int,
    context: AttentionContext,
) -> Tensor:
    """Shaw's two equations as written, holding a vector for each pair of places."""
    query, key, value = tensors
    batch = len(query)
    queries, keys = (x.expand(batch, -1) for x in (context.query_positions, context.key_positions))
    distance = (keys[:, None, :] - queries[:, :, None]).clamp(-clip, clip) + clip
    for_keys = key[:, :, None] + keys_by_distance[distance][:, None]  # batch, heads, query, key, head width
    scores = (query[:, :, :, None] * for_keys).sum(-1) / math.sqrt(query.shape[-1])
    if context.pattern is not None:
        allowed = context.pattern.dense(batch, query.shape[1], query.shape[2], key.shape[2])
        scores = scores.masked_fill(~allowed, -torch.inf)
    for_values = value[:, :, None]
    if values_by_distance is not None:
        for_values = for_values + values_by_distance[distance][:, None]
    return (scores.softmax(-1)[..., None] * for_values).sum(3)


@pytest.mark.parametrize("layout", ["full", "padded", "packed"])
@pytest.mark.parametrize("values", [True, False])
@given(LENGTHS, st.integers(1, 4), st.sampled_from(["full", "causal", "bigbird"]), SEEDS)
@settings(max_examples=12)
def test_shaw_equals_a_vector_for_each_pair(layout: str, values: bool, lengths, clip: int, kind: str, seed: int):
    torch.manual_seed(seed)
    placed = make_layout(layout, lengths, max(lengths))
    context = self_context(placed, make_pattern(kind, 2, 8))
    batch, time = placed.segment.shape
    position = Relative(4, clip, values).double()
    tensors = [torch.randn(batch, 2, time, 4, dtype=torch.float64, requires_grad=True) for _ in range(3)]
    bias = position.bias(tensors[0] / 2, context)
    by_distance = (lambda weights: position.values(weights, context)) if position.needs_weights else None
    fast = attend(*tensors, context.pattern, bias, values_by_distance=by_distance).transpose(1, 2)[placed.valid]
    slow = vector_for_each_pair(tensors, position.key_table, position.value_table, clip, context)
    slow = slow.transpose(1, 2)[placed.valid]
    assert_close(fast, slow, 1e-10)
    learned = [*tensors, *position.parameters()]
    got = torch.autograd.grad(fast.square().sum(), learned, materialize_grads=True)
    wanted = torch.autograd.grad(slow.square().sum(), learned, materialize_grads=True)
    for one, other in zip(got, wanted, strict=True):
        assert_close(one, other, 1e-10)


def bucket_by_hand(distance: int, buckets: int, farthest: int, both_sides: bool) -> int:
    """The T5 paper's rule for one distance, in exact fractions."""
    start = 0
    if both_sides:
        buckets //= 2
        start = buckets if distance > 0 else 0
    far = abs(distance) if both_sides else max(0, -distance)
    exact = buckets // 2
    if far < exact:
        return start + far
    step, coarse = 0, buckets - exact
    # the largest step for which log(far/exact) / log(farthest/exact) · coarse ≥ step
    while step + 1 < coarse and Fraction(far, exact) ** coarse >= Fraction(farthest, exact) ** (step + 1):
        step += 1
    return start + exact + step


def on_an_edge(distance: int, buckets: int, farthest: int, both_sides: bool) -> bool:
    """Whether a distance lies exactly where two buckets meet, so that rounding of the logarithm decides, as in T5."""
    buckets = buckets // 2 if both_sides else buckets
    exact, far = buckets // 2, max(abs(distance), 1)
    coarse = buckets - exact
    return any(Fraction(far, exact) ** coarse == Fraction(farthest, exact) ** step for step in range(1, coarse))


@given(st.sampled_from([4, 8, 16, 32]), st.integers(9, 200), st.booleans())
@settings(max_examples=15)
def test_t5_buckets_equal_a_scalar_rule(buckets: int, farthest: int, both_sides: bool):
    position = T5Bias(2, buckets, farthest + buckets // 2, both_sides)
    distances = range(-300, 301)
    got = position.bucket(torch.tensor(distances)).tolist()
    for distance, bucket in zip(distances, got, strict=True):
        expected = bucket_by_hand(distance, buckets, position.farthest, both_sides)
        edge = on_an_edge(distance, buckets, position.farthest, both_sides)
        assert bucket == expected or (edge and bucket == expected - 1)


def test_t5_buckets_of_the_paper():
    both, past = T5Bias(1), T5Bias(1, both_sides=False)
    assert both.bucket(torch.tensor([0, -1, -7, -8, -127, -128, -999])).tolist() == [0, 1, 7, 8, 15, 15, 15]
    assert both.bucket(torch.tensor([1, 7, 8, 128])).tolist() == [17, 23, 24, 31]
    assert past.bucket(torch.tensor([5, 1, 0, -1, -15, -16, -128])).tolist() == [0, 0, 0, 1, 15, 16, 31]


@given(st.booleans())
def test_t5_buckets_grow_with_distance(both_sides: bool):
    buckets = T5Bias(1, both_sides=both_sides).bucket(-torch.arange(500))
    assert (buckets.diff() >= 0).all()
    assert buckets.unique().tolist() == list(range(16 if both_sides else 32))


@pytest.mark.parametrize("both_sides", [True, False])
@pytest.mark.parametrize("layout", ["full", "packed"])
def test_t5_adds_the_number_of_its_bucket(both_sides: bool, layout: str):
    position = T5Bias(3, 8, 12, both_sides)
    placed = make_layout(layout, [5, 4], 5)
    context = self_context(placed, None)
    time = placed.segment.shape[1]
    dense = position.bias(torch.zeros(len(placed.segment), 3, time, 2), context).dense(1, time, time)
    index = placed.index[0].tolist()
    for head, i, j in np.ndindex(3, time, time):
        bucket = bucket_by_hand(index[j] - index[i], 8, 12, both_sides)
        assert dense[0, head, i, j] == position.table[bucket, head]


def test_t5_learns_each_bucket_from_the_pairs_that_fall_into_it():
    position = T5Bias(1, 8, 12)
    position.bias(torch.zeros(1, 1, 4, 2), self_context(Layout.full(1, 4), None)).dense(1, 4, 4).sum().backward()
    counts = [0] * 8
    for i, j in np.ndindex(4, 4):
        counts[bucket_by_hand(j - i, 8, 12, both_sides=True)] += 1
    assert position.table.grad is not None
    assert position.table.grad[:, 0].tolist() == counts


@pytest.mark.parametrize("heads", [1, 2, 4, 8, 16])
def test_alibi_slopes_of_powers_of_two_are_geometric(heads: int):
    assert alibi_slopes(heads).tolist() == pytest.approx([2 ** (-8 * (h + 1) / heads) for h in range(heads)])


@pytest.mark.parametrize("heads", [3, 5, 6, 7, 12, 20])
def test_alibi_slopes_of_other_counts_take_every_other_one_of_the_next_power(heads: int):
    power = 1 << (heads.bit_length() - 1)
    expected = [*alibi_slopes(power).tolist(), *alibi_slopes(2 * power).tolist()[0::2][: heads - power]]
    assert alibi_slopes(heads).tolist() == pytest.approx(expected)
    assert len(set(expected)) == heads


@given(LENGTHS, st.sampled_from(["full", "packed"]), st.sampled_from([1, 2, 3]))
def test_alibi_is_minus_slope_times_distance(lengths, layout: str, heads: int):
    placed = make_layout(layout, lengths, max(lengths))
    context = self_context(placed, None)
    batch, time = placed.segment.shape
    dense = Alibi(heads).bias(torch.zeros(batch, heads, time, 2), context).dense(batch, time, time)
    index, slopes = placed.index[0].tolist(), alibi_slopes(heads).tolist()
    for head, i, j in np.ndindex(heads, time, time):
        assert dense[0, head, i, j].item() == pytest.approx(-slopes[head] * abs(index[i] - index[j]))


def test_rows_may_stand_at_different_places():
    queries, keys = torch.tensor([[2], [4]]), torch.arange(5)[None]
    context = AttentionContext(None, queries, keys)
    query = torch.randn(2, 2, 1, 4)
    for position in (Alibi(2), T5Bias(2, both_sides=False), Relative(4, clip=2)):
        both = position.bias(query, context).dense(2, 1, 5)
        for row in range(2):
            alone = position.bias(query[row : row + 1], AttentionContext(None, queries[row : row + 1], keys))
            assert_close(both[row : row + 1], alone.dense(1, 1, 5), 1e-6)


def test_a_shared_table_is_read_once_a_pass():
    context = self_context(Layout.full(1, 3), None)
    query = torch.zeros(1, 2, 3, 4)
    for position in (T5Bias(2), Alibi(2)):
        assert position.bias(query, context) is position.bias(query, context)
        other = self_context(Layout.full(1, 3), None)
        assert position.bias(query, other) is not position.bias(query, context)


@pytest.mark.parametrize(
    "config", [RelativeConfig(clip=3), RelativeConfig(clip=3, values=False), T5Config(), AlibiConfig()]
)
def test_config_counts_what_the_built_part_has_and_costs(config):
    position = config.build(**STACK, causal=False)
    assert config.num_params(**STACK) == sum(p.numel() for p in position.parameters())
    context = self_context(Layout.full(3, 5), None)
    with FlopCounterMode(display=False) as counted:
        position.bias(torch.randn(3, 2, 5, 4), context).dense(3, 5, 5)
        position.values(torch.rand(3, 2, 5, 5), context)
    assert counted.get_total_flops() == config.flops(**STACK, batch=3, queries=5, keys=5)
    assert config.input_flops(width=8, batch=3, time=5) == 0


def test_who_has_a_table_for_each_layer():
    assert RelativeConfig().per_layer
    assert not RelativeConfig(shared=True).per_layer
    assert not T5Config().per_layer
    assert T5Config(shared=False).per_layer
    assert not AlibiConfig().per_layer


@pytest.mark.parametrize(
    ("ask", "sentence"),
    [
        (lambda: T5Bias(2, buckets=3), "model.position.buckets: expected at least 4, got 3"),
        (lambda: T5Bias(2, buckets=1, both_sides=False), "model.position.buckets: expected at least 2, got 1"),
        (lambda: T5Bias(2, buckets=32, farthest=8), "model.position.farthest: expected more than the 8 distances"),
        (lambda: RelativeConfig(clip=0), "clip: expected greater than 0, got 0"),
        (lambda: T5Config(bucket=3), "bucket: unknown setting of kind 't5'; did you mean 'buckets'?"),
    ],
)
def test_what_cannot_be_is_refused(ask, sentence: str):
    with pytest.raises(ConfigError) as refused:
        ask()
    assert str(refused.value).startswith(sentence)
