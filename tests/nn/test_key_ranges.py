"""Attention over key ranges equals the equation: the operator, and its kernels in an interpreter and on a GPU."""

from itertools import product

import pytest
import torch

from regard.nn.fast.packed import (
    KeyRanges,
    attend_key_ranges,
    dropout_scale,
    key_range_backward,
    key_range_forward,
)
from regard.nn.layout import Layout
from regard.nn.pattern import Causal

LENGTHS = [5, 1, 0, 12, 3, 70, 2, 9, 33, 4]
OTHERS = [3, 8, 2, 0, 9, 1, 65, 4, 20, 6]
CASES = list(product(((4, 4), (4, 2), (2, 1)), (16, 24), ("full", "causal", "across"), (0, 5), (0.0, 0.3)))
"""Heads and key heads, numbers of a head, who sees whom, padding behind the sequences, and dropout."""


def layouts(kind, extra, device="cpu"):
    asking = Layout.packing(torch.tensor(LENGTHS), sum(LENGTHS) + extra)
    answering = Layout.packing(torch.tensor(OTHERS), sum(OTHERS) + extra) if kind == "across" else asking
    return asking.to(device), answering.to(device)


def numbers(heads, width, asking, answering, device="cpu", dtype=torch.float32):
    torch.manual_seed(width)
    query = torch.randn(asking.segment.shape[1], heads[0], width, device=device, dtype=dtype)
    # keys and values are parts of one tensor, as where their maps are one
    joined = torch.randn(answering.segment.shape[1], 2 * heads[1], width, device=device, dtype=dtype)
    grad_output = torch.randn_like(query) * asking.valid[0, :, None, None]
    return query, *joined.split(heads[1], dim=1), grad_output


def by_the_equation(query, key, value, grad_output, kind, asking, answering, drawn):
    """Output and gradients of softmax(qkᵀ/√d) v by autograd, in float64; the output of a query without keys is 0."""
    tensors = [x.double().detach().requires_grad_() for x in (query, key, value)]
    q, k, v = (x.repeat_interleave(query.shape[1] // x.shape[1], 1).transpose(0, 1) for x in tensors)
    hidden = ~allowed(kind, asking, answering)
    scores = (q @ k.transpose(1, 2) / query.shape[2] ** 0.5).masked_fill(hidden, -1e9)
    left = 1.0 if drawn[1] is None else dropout_scale(drawn[1], drawn[0], *scores.shape)
    y = (scores.softmax(-1).masked_fill(hidden, 0.0) * left @ v).transpose(0, 1)
    return [y.detach(), *torch.autograd.grad(y, tensors, grad_output.double())]


def allowed(kind, asking, answering):
    """Who sees whom, by the pattern itself; padding neither sees nor is seen."""
    pattern = answering.cross_pattern(asking)
    pattern = pattern & Causal() if kind == "causal" else pattern
    shape = (asking.segment.shape[1], answering.segment.shape[1], asking.segment.device)
    return pattern.dense(1, 1, *shape)[0, 0] & asking.valid[0, :, None] & answering.valid[0]


def assert_agrees(found, wanted, dtype):
    close = {torch.float32: 1e-5, torch.bfloat16: 1e-2, torch.float16: 2e-3}[dtype]
    for one, other in zip(found, wanted, strict=True):
        assert one.dtype == dtype
        assert (one.double() - other).norm() <= close * (1 + other.norm())


def scale_of(query):
    return query.shape[2] ** -0.5


def drawing(dropout, device="cpu"):
    """The rate, and the number that dropout follows from."""
    return dropout, torch.tensor([1_234_567_890], device=device) if dropout else None


def by_kernels(query, key, value, grad_output, ranges, scale, drawn):
    from regard.nn.fast.packed_triton import key_range_backward, key_range_forward

    output, lse = key_range_forward(query, key, value, ranges.key_start, ranges.key_end, scale, *drawn)
    return output, *key_range_backward(grad_output, query, key, value, ranges.tensors, scale, *drawn, output, lse)


def kernels_agree(heads, width, kind, extra, dropout, device="cpu", dtype=torch.float32):
    asking, answering = layouts(kind, extra, device)
    ranges = KeyRanges.of(answering.cross_pattern(asking), causal=kind == "causal")
    *given, grad_output = numbers(heads, width, asking, answering, device, dtype)
    drawn = drawing(dropout, device)
    found = by_kernels(*given, grad_output, ranges, scale_of(given[0]), drawn)
    assert_agrees(found, by_the_equation(*given, grad_output, kind, asking, answering, drawn), dtype)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_operator_equals_the_reference(case):
    heads, width, kind, extra, dropout = case
    asking, answering = layouts(kind, extra)
    ranges = KeyRanges.of(answering.cross_pattern(asking), causal=kind == "causal")
    *given, grad_output = numbers(heads, width, asking, answering)
    leaves = [x.detach().requires_grad_() for x in given]
    torch.manual_seed(3)
    y = attend_key_ranges(*leaves, ranges, scale_of(given[0]), dropout)
    found = [y, *torch.autograd.grad(y, leaves, grad_output)]
    torch.manual_seed(3)
    drawn = dropout, torch.randint(1 << 31, (1,)) if dropout else None
    assert_agrees(found, by_the_equation(*given, grad_output, kind, asking, answering, drawn), torch.float32)


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_dropout_drops_at_its_rate_and_follows_no_order(rate):
    """Means over rows, columns and heads, and the agreement of neighbours and of seeds, as chance would have them."""
    left = dropout_scale(torch.tensor([5]), rate, 8, 200, 300)
    others = [(dropout_scale(torch.tensor([seed]), rate, 8, 200, 300) > 0).double() for seed in (6, 13, 2**31 - 1)]
    kept, spread = (left > 0).double(), (rate * (1 - rate)) ** 0.5
    assert left[left > 0].unique().tolist() == pytest.approx([1 / (1 - rate)])
    for axes, count in (((0, 1, 2), 480_000), ((0, 1), 1600), ((0, 2), 2400), ((1, 2), 60_000)):
        assert ((kept.mean(axes) - (1 - rate)).abs() < 5 * spread / count**0.5).all()
    pairs = [(kept[1:], kept[:-1]), (kept[:, 1:], kept[:, :-1]), (kept[..., 1:], kept[..., :-1])]
    for other in others:  # also one head or one query on
        pairs += [(kept, other), (kept[1:], other[:-1]), (kept[:, 1:], other[:, :-1])]
    for one, next_ in pairs:
        correlation = ((one - 1 + rate) * (next_ - 1 + rate)).mean() / spread**2
        assert abs(correlation) < 5 / one.numel() ** 0.5


@pytest.mark.parametrize("dropout", [0.0, 0.2])
@pytest.mark.parametrize("kind", ["full", "causal", "across"])
def test_torch_finds_the_operator_sound(kind, dropout):
    asking, answering = layouts(kind, 2)
    ranges = KeyRanges.of(answering.cross_pattern(asking), causal=kind == "causal")
    *given, grad_output = numbers((4, 2), 16, asking, answering)
    given = [x.detach().clone().requires_grad_() for x in given]
    drawn = drawing(dropout)
    torch.library.opcheck(key_range_forward, (*given, *ranges.tensors, 0.25, *drawn))
    output, lse = key_range_forward(*given, *ranges.tensors, 0.25, *drawn)
    inputs = [x.detach() for x in (*given, *ranges.tensors)]
    torch.library.opcheck(key_range_backward, (grad_output, *inputs, 0.25, *drawn, output.detach(), lse.detach()))


@pytest.mark.parametrize("kind", ["full", "causal", "across"])
def test_ranges_hold_the_pairs_that_the_pattern_allows(kind):
    asking, answering = layouts(kind, 4)
    ranges = KeyRanges.of(answering.cross_pattern(asking), causal=kind == "causal")
    pairs = allowed(kind, asking, answering)
    queries, keys = pairs.shape
    query, key = torch.arange(queries), torch.arange(keys)
    seen = (key >= ranges.key_start[:, None]) & (key < ranges.key_end[:, None])
    sees = (query[:, None] >= ranges.query_start) & (query[:, None] < ranges.query_end)
    assert torch.equal(seen, pairs)
    assert torch.equal(sees, pairs)
    for bound in ranges.tensors:
        assert (bound.diff() >= 0).all()


def test_kernels_agree_in_the_interpreter(interpret):
    interpret()


@pytest.mark.gpu
@pytest.mark.filterwarnings(
    "ignore:Attempting to run cuBLAS"
)  # torch 2.11, where a thread's first matmul is a gradient
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_kernels_agree_on_a_gpu(case, dtype):
    kernels_agree(*case, "cuda", dtype)


if __name__ == "__main__":
    for one in CASES[::5]:  # each takes a second there
        kernels_agree(*one)
