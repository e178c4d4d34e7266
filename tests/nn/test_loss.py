"""Losses: against torch and plain loops, and the sliced one against the one that holds all logits."""

import math

import pytest
import torch
import torch.nn.functional as F
from attention_cases import assert_close
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.nn.loss import (
    IGNORED,
    binary_cross_entropy,
    cross_entropy,
    linear_cross_entropy,
    linear_losses,
    smoothed_losses,
    uniform_smoothing,
)

SEEDS = st.integers(0, 999)


def some_targets(shape: tuple[int, ...], vocab: int, ignored: float) -> torch.Tensor:
    targets = torch.randint(vocab, shape)
    return targets.masked_fill(torch.rand(shape) < ignored, IGNORED)


@given(st.integers(1, 3), st.integers(1, 4), st.integers(2, 6), st.sampled_from([0.0, 0.1, 0.5]), SEEDS)
def test_cross_entropy_equals_a_loop(batch: int, time: int, vocab: int, smoothing: float, seed: int):
    torch.manual_seed(seed)
    logits, targets = torch.randn(batch, time, vocab), some_targets((batch, time), vocab, 0.3)
    total = 0.0
    for row, target in zip(logits.flatten(0, 1).tolist(), targets.flatten().tolist(), strict=True):
        if target != IGNORED:
            logs = [x - math.log(sum(math.exp(y) for y in row)) for x in row]
            target = [(1 - smoothing) * (i == target) + smoothing / vocab for i in range(vocab)]
            total -= sum(w * log for w, log in zip(target, logs, strict=True))
    assert cross_entropy(logits, targets, smoothing).item() == pytest.approx(total, rel=1e-4, abs=1e-5)


def test_smoothing_equals_that_of_torch():
    torch.manual_seed(0)
    logits, targets = torch.randn(2, 5, 7), some_targets((2, 5), 7, 0.3)
    expected = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="sum", label_smoothing=0.1)
    assert_close(cross_entropy(logits, targets, 0.1), expected, 1e-6)


@given(st.integers(4, 9), st.sets(st.integers(0, 3), min_size=1), st.sampled_from([0.1, 0.5]), SEEDS)
def test_tokens_that_are_never_written_get_no_share_of_smoothing(vocab: int, never: set[int], smoothing, seed: int):
    torch.manual_seed(seed)
    kept = [token for token in range(vocab + 1) if token not in never]
    chosen = torch.randint(len(kept), (7,)).masked_fill(torch.rand(7) < 0.3, IGNORED)
    targets = torch.where(chosen == IGNORED, IGNORED, torch.tensor(kept)[chosen.clamp(min=0)])
    logits = torch.randn(7, vocab + 1).index_fill(1, torch.tensor([*never]), -1e4)
    spread = uniform_smoothing(vocab + 1, [*never])
    # as if the vocabulary had only the others
    expected = F.cross_entropy(logits[:, kept], chosen, reduction="sum", label_smoothing=smoothing)
    assert_close(cross_entropy(logits, targets, smoothing, spread), expected, 1e-5)
    assert_close(cross_entropy(logits, targets, 0.0, spread), cross_entropy(logits, targets), 1e-6)


def test_half_precision_is_summed_in_single():
    logits = torch.randn(4, 6).bfloat16()
    loss = cross_entropy(logits, torch.zeros(4, dtype=torch.long))
    assert loss.dtype == torch.float32
    assert_close(loss, cross_entropy(logits.float(), torch.zeros(4, dtype=torch.long)), 1e-6)


@given(st.lists(st.tuples(st.floats(-9, 9), st.sampled_from([0.0, 1.0, 0.3])), min_size=1, max_size=6))
def test_binary_cross_entropy_equals_the_formula(pairs: list[tuple[float, float]]):
    logits, targets = (torch.tensor(each) for each in zip(*pairs, strict=True))
    total = 0.0
    for x, y in pairs:
        sigma = 1 / (1 + math.exp(-x))
        total -= y * math.log(sigma) + (1 - y) * math.log(1 - sigma)
    assert binary_cross_entropy(logits, targets).item() == pytest.approx(total, rel=1e-4, abs=1e-4)


@given(
    st.integers(1, 12),
    st.integers(1, 5),
    st.integers(2, 9),
    st.booleans(),
    st.sampled_from([0.0, 0.1]),
    st.integers(1, 13),
    st.sampled_from([0.0, 0.3, 1.0]),
    st.booleans(),
    SEEDS,
)
@settings(max_examples=50)
def test_in_slices_equals_at_once(tokens, width, vocab, has_bias, smoothing, rows, ignored, uneven, seed):
    torch.manual_seed(seed)
    x, weight = torch.randn(tokens, width, requires_grad=True), torch.randn(vocab, width, requires_grad=True)
    bias = torch.randn(vocab, requires_grad=True) if has_bias else None
    targets = some_targets((tokens,), vocab, ignored)
    learned = [x, weight] if bias is None else [x, weight, bias]
    spread = uniform_smoothing(vocab, [0]) if uneven else None
    sliced = linear_cross_entropy(x, weight, bias, targets, smoothing, rows, spread) * 0.7
    whole = cross_entropy(F.linear(x, weight, bias), targets, smoothing, spread) * 0.7
    with torch.no_grad():
        assert_close(linear_cross_entropy(x, weight, bias, targets, smoothing, rows, spread) * 0.7, whole, 1e-5)
    assert_close(sliced, whole, 1e-5)
    for got, target in zip(torch.autograd.grad(sliced, learned), torch.autograd.grad(whole, learned), strict=True):
        assert_close(got, target, 1e-5)
    plain = cross_entropy(F.linear(x, weight, bias), targets)
    for found in (
        linear_losses(x, weight, bias, targets, smoothing, rows, spread),
        smoothed_losses(F.linear(x, weight, bias), targets, smoothing, spread),
    ):
        assert (found.plain is None) == (smoothing == 0)
        assert_close(found.cross_entropy, plain, 1e-4)
        assert not found.cross_entropy.requires_grad
        torch.testing.assert_close(found.objective * 0.7, sliced, rtol=1e-5, atol=1e-5)


def test_in_slices_in_half_precision():
    torch.manual_seed(0)
    x = torch.randn(20, 16).bfloat16().requires_grad_()
    weight, targets = torch.randn(30, 16, requires_grad=True), some_targets((20,), 30, 0.2)
    sliced = linear_cross_entropy(x, weight, None, targets, rows=7)
    exact = cross_entropy(x.float() @ weight.bfloat16().float().T, targets)
    assert sliced.dtype == torch.float32
    assert_close(sliced, exact, 0.02)
    got, target = torch.autograd.grad(sliced, [x, weight]), torch.autograd.grad(exact, [x, weight])
    for one, other in zip(got, target, strict=True):
        assert one.dtype == other.dtype
        assert_close(one, other, 0.03)


def test_in_slices_no_more_than_a_slice_of_logits_is_ever_held(monkeypatch: pytest.MonkeyPatch):
    sizes = []
    linear = F.linear
    monkeypatch.setattr(F, "linear", lambda x, *rest: sizes.append(len(x)) or linear(x, *rest))
    linear_cross_entropy(torch.randn(10, 4), torch.randn(6, 4), None, torch.zeros(10, dtype=torch.long), rows=4)
    assert sizes == [4, 4, 2]


def test_a_batch_in_which_nothing_counts_costs_nothing():
    x = torch.randn(3, 4, requires_grad=True)
    nothing = torch.full((3,), IGNORED)
    loss = linear_cross_entropy(x, torch.randn(5, 4), None, nothing, smoothing=0.1)
    loss.backward()
    assert loss.item() == 0
    assert x.grad is not None
    assert (x.grad == 0).all()
    assert cross_entropy(torch.randn(3, 5), nothing).item() == 0
