"""Each fast way to attend gives what the reference gives, in value and gradient, wherever a result means something."""

import gc
import weakref
from functools import partial

import pytest
import torch
from attention_cases import (
    PATTERNS,
    SEEN,
    Case,
    assert_close,
    assert_equals_reference,
    cases,
    cross_cases,
    make_case,
    make_layout,
    reference,
    self_context,
    without_shape_checks,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.attention import flex_attention as torch_flex

from regard.nn.attention.module import attend
from regard.nn.context import AttentionContext
from regard.nn.fast import flex
from regard.nn.fast.flex import MAX_BLOCK_MASKS, flex_attention, memoised_block_mask
from regard.nn.fast.sdpa import matmul_attention, sdpa
from regard.nn.fast.varlen import unpacked_matmul_attention, unpacked_sdpa
from regard.nn.pattern import Causal, Window
from regard.nn.position import Position, Relative

DTYPES = st.sampled_from([torch.float32, torch.float64, torch.bfloat16])


@given(cases(patterns=SEEN), DTYPES)
@settings(max_examples=50)
def test_sdpa_equals_the_reference(case: Case, dtype: torch.dtype):
    assert_equals_reference(case, sdpa, dtype)


@given(cross_cases(), DTYPES)
def test_sdpa_across_two_sequences_equals_the_reference(case: Case, dtype: torch.dtype):
    assert_equals_reference(case, sdpa, dtype)


@given(cases(layouts=("packed",), patterns=("full", "causal"), position_kinds=("none",)), DTYPES)
def test_unpacked_sdpa_equals_the_reference(case: Case, dtype: torch.dtype):
    assert_equals_reference(case, unpacked_sdpa, dtype)


@given(cases(patterns=SEEN, position_kinds=("none",)), DTYPES)
def test_matmul_attention_equals_the_reference(case: Case, dtype: torch.dtype):
    assert_equals_reference(case, matmul_attention, dtype)


@given(cross_cases(), DTYPES)
def test_matmul_attention_across_two_sequences_equals_the_reference(case: Case, dtype: torch.dtype):
    assert_equals_reference(case, matmul_attention, dtype)


@given(cases(layouts=("packed",), patterns=("full", "causal"), position_kinds=("none",)), DTYPES)
def test_unpacked_matmul_attention_equals_the_reference(case: Case, dtype: torch.dtype):
    assert_equals_reference(case, unpacked_matmul_attention, dtype)


@given(cross_cases(layouts=("packed",)), DTYPES)
def test_unpacked_matmul_attention_across_two_sequences_equals_the_reference(case: Case, dtype: torch.dtype):
    assert_equals_reference(case, unpacked_matmul_attention, dtype)


@given(cross_cases(layouts=("packed",)), DTYPES)
def test_unpacked_sdpa_across_two_sequences_equals_the_reference(case: Case, dtype: torch.dtype):
    assert_equals_reference(case, unpacked_sdpa, dtype)


@pytest.fixture(scope="module", autouse=True)
def plain_flex():
    """FlexAttention's own reading of masks and biases, without torch tracing and compiling it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch_flex, "_FLEX_ATTENTION_DISABLE_COMPILE_DEBUG", True)
        yield


@given(cases(patterns=SEEN, smallest_width=2))
@settings(max_examples=50)
def test_flex_equals_the_reference(case: Case):
    # On the CPU FlexAttention has no gradient: test_gpu.py compares it, and below the bias's part of it is compared.
    assert_equals_reference(case, flex_attention, torch.float32, gradients=False)


def test_flex_compiles_few_kernels_however_lengths_change(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend="eager"))
    monkeypatch.setattr(flex, "_flex_kernel", lambda q, p, b: flex._compiled_flex((flex._structure(p), "test")))
    torch.manual_seed(0)
    with without_shape_checks(), torch._dynamo.config.patch(fail_on_recompile_limit_hit=True, recompile_limit=4):
        for lengths in ([3, 5], [7], [4, 4, 2], [6, 1], [5], [9, 2], [8, 8, 1]):
            for kind in ("packed", "padded"):
                case = make_case(make_layout(kind, lengths, max(lengths)), "bigbird+causal")
                assert_equals_reference(case, flex_attention, torch.float32, gradients=False)


@given(cases(patterns=("full",), position_kinds=("alibi", "t5", "shaw", "tree")))
def test_a_bias_reads_the_same_as_matrix_and_as_lookup(case: Case):
    batch, heads, queries, _ = case.query.shape
    grid = torch.meshgrid(*(torch.arange(n) for n in (batch, heads, queries, queries)), indexing="ij")
    learned = list(case.position.parameters())

    def read(lookup: bool) -> list[torch.Tensor]:
        query = case.query.float().requires_grad_()
        bias = case.position.bias(
            query, AttentionContext(None, case.context.query_positions, case.context.key_positions, case.context.tree)
        )
        assert bias is not None
        zero = torch.zeros(batch, heads, queries, queries)
        y = bias.score_mod(zero, *grid) if lookup else zero + bias.dense(batch, queries, queries)
        if not y.requires_grad:
            return [y]
        probe = torch.linspace(-1, 1, y.numel()).view_as(y)
        return [y, *torch.autograd.grad((y * probe).sum(), [query, *learned], materialize_grads=True)]

    for by_lookup, by_matrix in zip(read(lookup=True), read(lookup=False), strict=True):
        assert_close(by_lookup, by_matrix, 1e-5)


def as_attend(query, key, value, pattern, bias, scale, dropout):
    return attend(query, key, value, pattern, bias, scale, dropout)


@given(cases(patterns=PATTERNS), DTYPES)
@settings(max_examples=50)
def test_whatever_the_planner_chooses_equals_the_reference(case: Case, dtype: torch.dtype):
    assert_equals_reference(case, as_attend, dtype)


@given(cross_cases(), DTYPES)
def test_whatever_the_planner_chooses_across_equals_the_reference(case: Case, dtype: torch.dtype):
    assert_equals_reference(case, as_attend, dtype)


@pytest.mark.parametrize("causal", [False, True])
def test_an_empty_sequence_in_a_packed_row_changes_nothing(causal: bool):
    torch.manual_seed(0)
    q, k, v = (torch.randn(1, 2, 7, 4, requires_grad=True) for _ in range(3))
    inner = Causal() if causal else None
    outputs = []
    for lengths in ([3, 4], [0, 3, 0, 4, 0]):
        pattern = self_context(make_layout("packed", lengths, max(lengths)), inner).pattern
        y = unpacked_sdpa(q, k, v, pattern, None, 0.5, 0.0)
        outputs.append([y, *torch.autograd.grad(y.square().sum(), [q, k, v])])
    for got, wanted in zip(*outputs, strict=True):
        assert_close(got, wanted, 1e-6)


@pytest.mark.parametrize("way", [sdpa, unpacked_sdpa])
def test_dropout_silences_weights_and_keeps_their_mean(way):
    torch.manual_seed(0)
    layout = make_layout("packed", [4, 5], 5)
    q, k, v = torch.randn(1, 400, 9, 4), torch.randn(1, 400, 9, 4), torch.ones(1, 400, 9, 4)
    draws = way(q, k, v, layout.pattern(), None, 0.5, 0.5)
    assert draws.std() > 0.1
    torch.testing.assert_close(draws.mean(1), v[:, 0], atol=0.25, rtol=0)


@pytest.mark.parametrize("way", [sdpa, flex_attention])
def test_nothing_is_kept_of_a_pattern_that_is_gone(way):
    pattern, q = Window(1) & Causal(), torch.randn(1, 1, 4, 4)
    way(q, q, q, pattern, None, 0.5, 0.0)
    gone = weakref.ref(pattern)
    del pattern
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize("way", [sdpa, flex_attention])
def test_one_pattern_serves_all_sizes(way):
    torch.manual_seed(0)
    for pattern in (Causal(), Window(1) & Causal()):
        for queries, keys in ((4, 4), (3, 5), (6, 6), (6, 4), (4, 4)):
            q, k = torch.randn(1, 2, queries, 4), torch.randn(1, 2, keys, 4)
            seen = pattern.dense(1, 1, queries, keys).any(-1)[0, 0]  # behind the last key a window is empty
            got, wanted = way(q, k, k, pattern, None, 0.5, 0.0), reference(q, k, k, pattern, None, 0.5, 0.0)
            assert_close(got[:, :, seen], wanted[:, :, seen], 1e-5)


def test_a_matrix_is_built_once_for_all_layers(monkeypatch: pytest.MonkeyPatch):
    built = []
    monkeypatch.setattr(Window, "allowed", lambda self, b, h, q, k: built.append(1) or (q - k).abs() <= self.reach)
    pattern, q = Window(1), torch.randn(1, 1, 4, 4)
    for _ in range(3):
        sdpa(q, q, q, pattern, None, 0.5, 0.0)
    assert len(built) == 1


def test_a_pattern_that_lives_long_keeps_a_few_block_masks_only():
    pattern = Window(1)
    for time in range(1, MAX_BLOCK_MASKS + 20):
        q = torch.randn(1, 1, time, 4)
        assert memoised_block_mask(pattern, q, q) is memoised_block_mask(pattern, q, q)
    assert len(vars(pattern)["_memo"]["block mask"]) <= MAX_BLOCK_MASKS


def test_a_bias_shared_by_layers_is_gathered_once_a_pass():
    context = self_context(make_layout("full", [5], 5), None)
    table = Relative(4, clip=2, values=False)
    bias = table.bias(torch.randn(1, 1, 5, 4), context)
    assert bias.dense(1, 5, 5) is bias.dense(1, 5, 5)
    assert Position().bias(torch.randn(1, 1, 5, 4), context) is None
