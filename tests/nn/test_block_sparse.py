"""Attention block by block gives what the reference gives, in value and gradient, and computes no more than it must."""

import pytest
import torch
from attention_cases import Case, assert_close, assert_equals_reference, make_case, make_layout, reference
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.nn.attention.kinds import BigBirdConfig, WindowConfig
from regard.nn.attention.module import attend
from regard.nn.fast.block_layout import PAIRS_PER_CHUNK, BlockTable, SequencePattern
from regard.nn.fast.block_sparse import block_layout, block_sparse_attention
from regard.nn.fast.plan import SPARSE_FROM
from regard.nn.layout import Layout
from regard.nn.pattern import Causal, Global, Padding, Pattern, Random, Shifted, Window

KINDS = ("window", "blocks", "bigbird", "window+causal", "bigbird+causal")
DTYPES = st.sampled_from([torch.float32, torch.float64, torch.bfloat16])


@st.composite
def sparse_cases(draw: st.DrawFn) -> Case:
    """Sequences of several blocks, seldom whole ones, in any layout."""
    lengths = draw(st.lists(st.integers(1, 90), min_size=1, max_size=3))
    layout = make_layout(
        draw(st.sampled_from(["full", "padded", "packed"])), lengths, max(lengths) + draw(st.integers(0, 20))
    )
    return make_case(
        layout,
        draw(st.sampled_from(KINDS)),
        draw(st.sampled_from(["none", "alibi", "t5", "shaw", "tree"])),
        heads=draw(st.sampled_from([(1, 1), (2, 2), (4, 2), (2, 1)])),
        head_width=draw(st.sampled_from([1, 4, 5])),
        scaled=draw(st.booleans()),
        seed=draw(st.integers(0, 2**16)),
    )


@given(sparse_cases(), DTYPES)
@settings(max_examples=40)
def test_block_sparse_attention_equals_the_reference(case: Case, dtype: torch.dtype):
    assert_equals_reference(case, block_sparse_attention, dtype)


@given(st.integers(1, 200), st.integers(1, 40), st.integers(0, 2), st.integers(0, 70), st.integers(0, 2), st.booleans())
@settings(max_examples=40)
def test_blocks_of_a_table_hold_the_dense_matrix(length, block, reach, count, random, causal):
    config = BigBirdConfig(block=block, reach=reach, global_tokens=count, random=random)
    pattern = config.pattern(2, length, causal, "cpu")
    assert pattern is not None
    size, blocks = 16, -(-length // 16)
    table = BlockTable.of(pattern, 2, blocks, size, torch.device("cpu"))
    whole = torch.zeros(2, blocks, 16, blocks, 16, dtype=torch.bool)
    kept = (table.query < blocks) & (table.key < blocks)
    for head, query, key, mask in torch.stack([table.head, table.query, table.key, table.mask], 1)[kept].tolist():
        assert table.masks[mask].any()
        whole[head, query, :, key] = table.masks[mask]
    dense = pattern.dense(1, 2, length, length)[0].expand(2, -1, -1)
    assert torch.equal(whole.flatten(3).flatten(1, 2)[:, :length, :length], dense)
    assert table.masks[0].all()
    assert len({mask.numpy().tobytes() for mask in table.masks}) == len(table.masks), "equal masks are kept once"


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("config", [WindowConfig(), BigBirdConfig()], ids=lambda config: config.kind)
def test_cost_is_linear_in_length(config: WindowConfig | BigBirdConfig, causal: bool):
    def computed(length: int) -> int:
        pattern = config.pattern(2, length, causal, "cpu")
        assert pattern is not None
        made = block_layout(pattern, torch.empty(1, 2, length, 1), torch.empty(1, 2, length, 1))
        return sum(chunk.keys.numel() for chunk in made.chunks) * made.block**2

    costs = [computed(length) for length in (4096, 8192, 16384)]
    assert costs[1] / costs[0] < 2.1
    assert costs[2] / costs[1] < 2.1
    assert costs[2] < 2 * 16384**2 / 20


def test_padding_and_other_sequences_cost_nothing():
    pattern = Window(16)

    def pairs(layout: Layout) -> int:
        time = layout.segment.shape[1]
        made = block_layout(pattern & layout.pattern(), *[torch.empty(len(layout.segment), 1, time, 1)] * 2)
        return sum(chunk.keys.numel() for chunk in made.chunks)

    alone = pairs(Layout.padded(torch.tensor([300]), 300))
    assert pairs(Layout.padded(torch.tensor([300]), 4096)) == alone
    assert pairs(Layout.padded(torch.tensor([300, 300]), 1000)) == 2 * alone
    assert pairs(Layout.packing(torch.tensor([300, 300]))) == 2 * alone


def test_no_chunk_is_larger_than_asked_for(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(PAIRS_PER_CHUNK, "cpu", 16 * 16 * 64)
    case = make_case(Layout.full(2, 300), "bigbird", heads=(2, 2))
    assert case.pattern is not None
    made = block_layout(case.pattern, case.query, case.key)
    sizes = [chunk.keys.numel() * made.block**2 for chunk in made.chunks if len(chunk.queries) > 1]
    assert max(sizes) <= 16 * 16 * 64 * torch.get_num_threads()
    assert_equals_reference(case, block_sparse_attention, torch.float64)


def test_what_is_hidden_never_leaks():
    """Changing what a token may not see, numbers that are no numbers included, changes nothing of it."""
    layout = Layout.padded(torch.tensor([70, 40]), 90)
    case = make_case(layout, "bigbird+causal", heads=(2, 2))
    pattern = Window(1, 16) & Padding(keys=layout.lengths, queries=layout.lengths)
    key, value = case.key.clone(), case.value.clone()
    key[1, :, 40:], value[1, :, 40:] = torch.inf, torch.nan
    clean = block_sparse_attention(case.query, case.key, case.value, pattern, None, 0.5, 0.0)
    dirty = block_sparse_attention(case.query, key, value, pattern, None, 0.5, 0.0)
    assert torch.equal(clean, dirty)
    assert (clean[1, :, 40:] == 0).all()

    value = case.value.clone().requires_grad_()
    y = block_sparse_attention(case.query, case.key, value, Window(16) & Causal(), None, 0.5, 0.0)
    (gradient,) = torch.autograd.grad(y[0, 0, 50].sum(), value)
    assert gradient[0, 0, 51:].abs().max() == 0
    assert gradient[0, 0, 34:51].abs().min() > 0
    assert gradient[0, 0, :34].abs().max() == 0


def test_dropout_silences_weights_keeps_their_mean_and_its_slope_is_that_of_the_same_draw():
    torch.manual_seed(0)
    q, k = (torch.randn(1, 200, 48, 4, dtype=torch.float64) for _ in range(2))
    v = torch.ones(1, 200, 48, 4, dtype=torch.float64, requires_grad=True)

    def draw() -> torch.Tensor:
        torch.manual_seed(1)
        return block_sparse_attention(q, k, v, Window(1, 16), None, 0.5, 0.5)

    y = draw()
    assert y.std() > 0.1
    assert torch.equal(y, draw())
    torch.testing.assert_close(y.mean(1), v[:, 0], atol=0.3, rtol=0)
    (gradient,) = torch.autograd.grad(y.sum(), v)
    torch.testing.assert_close((gradient * v).sum(), y.sum())  # it is linear in the values


def test_gradients_by_differences():
    torch.manual_seed(0)
    q, k, v = (torch.randn(1, 2, 37, 2, dtype=torch.float64, requires_grad=True) for _ in range(3))
    pattern = Window(1, 16) | Global(3) | Random(1, 16, 2, 37)
    assert torch.autograd.gradcheck(
        lambda *x: block_sparse_attention(*x, pattern, None, 0.7, 0.0), (q, k, v), fast_mode=True
    )


def test_a_layout_is_made_once_for_all_layers(monkeypatch: pytest.MonkeyPatch):
    asked = []
    monkeypatch.setattr(Window, "classify_block", lambda self, *a: asked.append(1) or Pattern.classify_block(self, *a))
    pattern = Window(20)
    q = torch.randn(2, 1, 100, 4)
    for lengths in ([100, 80], [70, 100], [65, 3]):
        both = pattern & Layout.padded(torch.tensor(lengths), 100).pattern()
        first = block_layout(both, q, q)
        assert block_layout(both, q, q) is first
    assert len(asked) == 1, "the pattern of one sequence serves for all lengths"


@pytest.mark.parametrize(
    "pattern",
    [
        Shifted(Window(1), torch.arange(9)[None], torch.arange(9)[None]),
        Window(1, 2) & Layout.packing(torch.tensor([4, 5])).pattern(),
        Window(1) & Padding(keys=torch.tensor([3])),
        Padding(keys=torch.tensor([3]), queries=torch.tensor([3])) & Window(1),
    ],
    ids=["shifted twice over", "blocks across sequences", "cross-attention", "the other way round"],
)
def test_patterns_composed_otherwise_are_left_to_other_ways(pattern: Pattern):
    found = SequencePattern.of(pattern)
    assert found is None or found.separation is None


def test_the_planner_takes_it_for_long_sequences_and_it_is_right():
    case = make_case(Layout.full(1, SPARSE_FROM + 5), "bigbird+causal", heads=(2, 1))
    arguments = (case.query, case.key, case.value, case.pattern)
    y = attend(*arguments, scale=case.scale)
    assert_close(y, reference(*arguments, None, case.scale, 0.0), 1e-10)
    assert vars(case.pattern)["_memo"]["block layout"]


@pytest.mark.parametrize("lengths", [[32], [16, 32], [64, 16, 16]])
@pytest.mark.parametrize("kind", ["padded", "packed"])
def test_whole_blocks_with_padding_behind_them(kind: str, lengths: list[int]):
    case = make_case(make_layout(kind, lengths, max(lengths) + 13), "bigbird")
    assert_equals_reference(case, block_sparse_attention, torch.float64)
