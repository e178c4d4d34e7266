"""Patterns: the predicate against plain loops, the three readings against one another, and the laws of composition."""

from collections.abc import Callable
from itertools import product

import pytest
import torch
from attention_cases import make_layout, make_pattern, self_context
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.attention.flex_attention import create_mask

from regard.errors import ConfigError
from regard.nn.attention.reference import reference_attention
from regard.nn.fast.flex import block_mask
from regard.nn.layout import Layout
from regard.nn.pattern import Causal, Global, Padding, Pattern, Random, Segments, Shifted, Window

ROWS, HEADS = 3, 2
TIMES = st.integers(1, 12)


def matrix(pattern: Pattern, queries: int, keys: int, rows: int = ROWS) -> Tensor:
    return pattern.dense(rows, HEADS, queries, keys).expand(rows, HEADS, queries, keys)


def by_loops(may: Callable[[int, int, int, int], bool], queries: int, keys: int) -> Tensor:
    """The matrix of a predicate in plain whole numbers, asked pair by pair."""
    places = product(range(ROWS), range(HEADS), range(queries), range(keys))
    return torch.tensor([may(*place) for place in places]).view(ROWS, HEADS, queries, keys)


def linked(pattern: Random, head: int, one: int, other: int) -> bool:
    later, earlier = max(one, other) // pattern.block, min(one, other) // pattern.block
    return earlier in pattern.table[head, later].tolist()


@given(TIMES, TIMES, st.integers(0, 4), st.integers(1, 4), st.integers(0, 3))
def test_simple_patterns_equal_loops_over_their_definitions(queries, keys, reach, block, count):
    random = Random(count, block, HEADS, max(queries, keys), seed=reach)
    definitions: list[tuple[Pattern, Callable[[int, int, int, int], bool]]] = [
        (Causal(), lambda b, h, i, j: j <= i),
        (Causal(strict=True), lambda b, h, i, j: j < i),
        (Window(reach), lambda b, h, i, j: abs(i - j) <= reach),
        (Window(reach, block), lambda b, h, i, j: abs(i // block - j // block) <= reach),
        (Global(count), lambda b, h, i, j: i < count or j < count),
        (random, lambda b, h, i, j: linked(random, h, i, j)),
        (
            Window(reach, block) | Global(count) | random,
            lambda b, h, i, j: (
                abs(i // block - j // block) <= reach or i < count or j < count or linked(random, h, i, j)
            ),
        ),
    ]
    for pattern, may in definitions:
        assert torch.equal(matrix(pattern, queries, keys), by_loops(may, queries, keys))


@given(TIMES, TIMES, st.data())
def test_padding_equals_loops(queries, keys, data):
    real_q = data.draw(st.lists(st.integers(0, queries), min_size=ROWS, max_size=ROWS))
    real_k = data.draw(st.lists(st.integers(0, keys), min_size=ROWS, max_size=ROWS))
    across = Padding(keys=torch.tensor(real_k))
    assert torch.equal(matrix(across, queries, keys), by_loops(lambda b, h, i, j: j < real_k[b], queries, keys))
    within = Padding(keys=torch.tensor(real_k), queries=torch.tensor(real_q))
    expected = by_loops(lambda b, h, i, j: (j < real_k[b]) == (i < real_q[b]), queries, keys)
    assert torch.equal(matrix(within, queries, keys), expected)


@given(st.lists(st.lists(st.integers(-1, 3), min_size=5, max_size=5), min_size=ROWS, max_size=ROWS), st.data())
def test_documents_equal_loops(of_query, data):
    of_key = data.draw(st.lists(st.lists(st.integers(-1, 3), min_size=7, max_size=7), min_size=ROWS, max_size=ROWS))
    none = torch.zeros(0, dtype=torch.long)
    pattern = Segments(torch.tensor(of_query), torch.tensor(of_key), none, none, 5, 7)
    expected = by_loops(lambda b, h, i, j: of_query[b][i] == of_key[b][j] or of_query[b][i] < 0, 5, 7)
    assert torch.equal(matrix(pattern, 5, 7), expected)


@st.composite
def patterns(draw: st.DrawFn, time: int = 8, depth: int = 2) -> Pattern:
    """Any pattern over a square of this size, composed or not."""
    if depth and draw(st.booleans()):
        one, other = draw(patterns(time, depth - 1)), draw(patterns(time, depth - 1))
        return one & other if draw(st.booleans()) else one | other
    restarting = torch.arange(time)[None] % 3
    lengths = torch.tensor(draw(st.lists(st.integers(1, time), min_size=ROWS, max_size=ROWS)))
    leaves = [
        Causal(),
        Causal(strict=True),
        Window(draw(st.integers(0, 3)), draw(st.integers(1, 3))),
        Global(draw(st.integers(0, 3))),
        Random(draw(st.integers(0, 2)), 2, HEADS, time, seed=draw(st.integers(0, 9))),
        Padding(lengths, lengths),
        Shifted(Window(1), restarting, restarting),
    ]
    return draw(st.sampled_from(leaves))


@given(patterns(), patterns(), patterns())
def test_composition_is_logical(a: Pattern, b: Pattern, c: Pattern):
    def read(pattern: Pattern) -> Tensor:
        return matrix(pattern, 8, 8)

    assert torch.equal(read(a & b), read(a) & read(b))
    assert torch.equal(read(a | b), read(a) | read(b))
    assert torch.equal(read(a & b), read(b & a))
    assert torch.equal(read((a | b) | c), read(a | (b | c)))
    assert torch.equal(read(a & (b | c)), read((a & b) | (a & c)))
    assert torch.equal(read(a | (a & b)), read(a))
    assert a & None is a
    assert None & a is a


@given(patterns(), st.integers(1, 8), st.integers(1, 8), st.sampled_from([2, 3, 4, 8]))
def test_block_mask_equals_dense(pattern: Pattern, queries: int, keys: int, block: int):
    assert_blocks_are_dense(pattern, queries, keys, block)


def assert_blocks_are_dense(pattern: Pattern, queries: int, keys: int, block: int) -> None:
    dense = pattern.dense(ROWS, HEADS, queries, keys)
    mask = block_mask(pattern, ROWS, HEADS, queries, keys, "cpu", block)
    rows, heads = dense.shape[:2]
    assert torch.equal(create_mask(mask.mask_mod, rows, heads, queries, keys, "cpu"), dense)

    blocks_q, blocks_k = -(-queries // block), -(-keys // block)
    grid = dense.new_zeros(rows, heads, blocks_q * block, blocks_k * block)
    grid[:, :, :queries, :keys] = dense
    cells = grid.view(rows, heads, blocks_q, block, blocks_k, block)
    assert torch.equal(mask.to_dense().bool(), cells.any(5).any(3))
    assert mask.full_kv_num_blocks is not None
    assert torch.equal(mask.full_kv_num_blocks.long(), cells.all(5).all(3).sum(-1))


@given(patterns())
def test_traits_tell_the_truth(pattern: Pattern):
    dense = matrix(pattern, 8, 8)
    if not pattern.per_batch:
        assert (dense == dense[:1]).all()
        assert pattern.dense(ROWS, HEADS, 8, 8).shape[0] == 1
    if not pattern.per_head:
        assert (dense == dense[:, :1]).all()
        assert pattern.dense(ROWS, HEADS, 8, 8).shape[1] == 1
    if not pattern.may_mask_all_keys:
        assert dense.any(-1).all()
    if pattern.by_distance:
        assert torch.equal(dense[..., 1:, 1:], dense[..., :-1, :-1])


@given(patterns())
def test_flags_say_what_the_matrix_says(pattern: Pattern):
    flags = pattern.flags()
    if flags is not None and flags.segments is None:
        expected = torch.ones(8, 8, dtype=torch.bool).tril() if flags.causal else torch.ones(8, 8, dtype=torch.bool)
        assert (matrix(pattern, 8, 8) == expected).all()


@given(st.lists(st.integers(1, 5), min_size=1, max_size=4), st.booleans())
def test_flags_of_packed_rows_say_what_the_matrix_says(lengths, causal):
    layout = Layout.packing(torch.tensor(lengths))
    own = layout.pattern()
    assert own is not None
    pattern = Causal() & own if causal else own
    flags = pattern.flags()
    assert flags is not None
    assert flags.causal == causal
    assert flags.segments is own
    blocks = [torch.ones(n, n, dtype=torch.bool).tril() if causal else torch.ones(n, n) > 0 for n in lengths]
    assert torch.equal(pattern.dense(1, 1, sum(lengths), sum(lengths))[0, 0], torch.block_diag(*blocks).bool())


def test_no_flag_where_a_kernel_would_compute_something_else():
    two_rows = Segments(*[torch.tensor([[0, 0, 1], [0, 1, 1]])] * 2, *[torch.tensor([2, 1, 1, 2])] * 2, 2, 2)
    assert two_rows.flags() is None
    one, other = Layout.packing(torch.tensor([2, 3])), Layout.packing(torch.tensor([3, 1]))
    across = one.cross_pattern(other)
    assert across is not None
    assert across.flags() is not None
    assert (Causal() & across).flags() is None  # the rows' places count different sequences
    assert (across & across).flags() is None
    assert Causal(strict=True).flags() is None
    assert (Causal() & Window(2)).flags() is None
    assert (Causal() | Causal()).flags() is None


@given(st.integers(1, 3), st.integers(1, 4), st.integers(2, 40), st.integers(0, 99))
def test_random_links(count, block, length, seed):
    pattern = Random(count, block, HEADS, length, seed)
    dense = matrix(pattern, length, length, 1)[0]
    assert torch.equal(dense, dense.transpose(1, 2)), "links go both ways"
    longer = matrix(Random(count, block, HEADS, 2 * length, seed), length, length, 1)[0]
    assert torch.equal(dense, longer), "a longer table only adds links"
    blocks = -(-length // block)
    assert pattern.table.shape == (HEADS, blocks, count)
    assert (pattern.table < torch.arange(blocks)[:, None]).all(), "a block draws from those before it"
    by_block = dense[:, ::block, ::block]
    assert (by_block.sum((1, 2)) <= 2 * count * blocks).all(), "linear in length"
    assert torch.equal(dense, matrix(Random(count, block, HEADS, length, seed), length, length, 1)[0])


def test_random_differs_by_head_and_seed():
    one, other = Random(2, 4, HEADS, 256, seed=1), Random(2, 4, HEADS, 256, seed=2)
    dense = matrix(one, 256, 256, 1)[0]
    assert not torch.equal(dense[0], dense[1])
    assert not torch.equal(dense, matrix(other, 256, 256, 1)[0])


def test_random_reaches_far_and_near_alike():
    table = Random(4, 1, HEADS, 400).table[:, 100:].double()
    assert abs(float((table / torch.arange(100, 400)[:, None]).mean()) - 0.5) < 0.05


@given(st.integers(1, 30), st.integers(1, 4))
def test_bigbird_with_enough_reach_is_full(length, block):
    bigbird = Window(-(-length // block), block) | Global(1) | Random(1, block, HEADS, length)
    assert matrix(bigbird, length, length).all()


@pytest.mark.parametrize("kind", ["window", "blocks", "bigbird", "window+causal", "bigbird+causal", "causal"])
@given(st.lists(st.integers(1, 9), min_size=1, max_size=4))
def test_packed_rows_hold_each_sequence_as_if_alone(kind: str, lengths):
    layout = make_layout("packed", lengths, max(lengths) + 2)
    time = layout.segment.shape[1]
    pattern = self_context(layout, make_pattern(kind, HEADS, 16)).pattern
    alone = make_pattern(kind, HEADS, 16)
    assert pattern is not None
    assert alone is not None
    dense, start = matrix(pattern, time, time, 1)[0], 0
    for length in lengths:
        own = slice(start, start + length)
        assert torch.equal(dense[:, own, own], matrix(alone, length, length, 1)[0])
        assert int(dense[:, own].sum()) == int(dense[:, own, own].sum()), "nothing of another sequence is seen"
        start += length


@given(st.integers(0, 6), st.integers(1, 4))
def test_placed_shifts_queries_behind_what_is_written(written, time):
    bigbird = Window(1, 2) | Global(1) | Random(1, 2, HEADS, 16)
    keys = torch.arange(written + time)[None]
    later = Shifted(bigbird & Causal(), keys[:, written:], keys)
    whole = matrix(bigbird & Causal(), written + time, written + time)
    assert torch.equal(matrix(later, time, written + time), whole[:, :, written:])
    assert not later.by_distance


@pytest.mark.parametrize("inner", [Causal(), Window(1) & Causal(), Window(0, 2) & Causal(), Global(1) | Window(1)])
@pytest.mark.parametrize(("written", "time", "block"), [(12, 1, 4), (11, 3, 4), (4, 2, 2)])
def test_blocks_of_few_queries_behind_much_that_is_written(inner: Pattern, written: int, time: int, block: int):
    keys = torch.arange(written + time)[None]
    together = keys[:, written:]
    apart = torch.stack([together[0] - row for row in range(ROWS)])
    for queries in (together, apart):
        assert_blocks_are_dense(Shifted(inner, queries, keys), time, written + time, block)


@given(patterns())
def test_attention_is_finite_for_every_pattern_and_zero_where_nothing_is_seen(pattern: Pattern):
    torch.manual_seed(0)
    q, k, v = (torch.randn(ROWS, HEADS, 8, 4, requires_grad=True) for _ in range(3))
    steps = reference_attention(q, k, v, pattern)
    blind = ~matrix(pattern, 8, 8).any(-1)
    if not pattern.may_mask_all_keys:
        assert not blind.any()
    assert (steps.weights[blind] == 0).all()
    assert (steps.output[blind] == 0).all()
    torch.testing.assert_close(steps.weights.sum(-1), (~blind).float())
    for slope in torch.autograd.grad(steps.output.square().sum(), [q, k, v]):
        assert torch.isfinite(slope).all()


@pytest.mark.parametrize(("reach", "block"), [(-1, 1), (1, 0)])
def test_a_window_that_cannot_be_is_refused(reach: int, block: int):
    with pytest.raises(ConfigError, match=f"window: expected reach ≥ 0 and block ≥ 1, got {reach} and {block}"):
        Window(reach, block)


def test_a_pattern_must_say_what_it_allows():
    with pytest.raises(TypeError, match="Pattern must define which pairs it allows"):
        Pattern().dense(1, 1, 2, 2)
