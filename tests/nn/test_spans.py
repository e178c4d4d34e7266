"""Attention over spans gives what the equation gives: the operator, and its kernels in an interpreter and on a GPU."""

from itertools import product

import pytest
import torch

from regard.nn.fast.packed import Spans, _shares, attend_spans, backward, forward
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
    slope = torch.randn_like(query) * asking.valid[0, :, None, None]
    return query, *joined.split(heads[1], dim=1), slope


def by_the_equation(query, key, value, slope, kind, asking, answering, drawn):
    """Output and slopes as torch derives them from softmax(qkᵀ/√d) v, in float64; a query that sees nothing finds 0."""
    tensors = [x.double().detach().requires_grad_() for x in (query, key, value)]
    q, k, v = (x.repeat_interleave(query.shape[1] // x.shape[1], 1).transpose(0, 1) for x in tensors)
    hidden = ~allowed(kind, asking, answering)
    scores = (q @ k.transpose(1, 2) / query.shape[2] ** 0.5).masked_fill(hidden, -1e9)
    left = 1.0 if drawn[1] is None else _shares(drawn[1], drawn[0], *scores.shape)
    y = (scores.softmax(-1).masked_fill(hidden, 0.0) * left @ v).transpose(0, 1)
    return [y.detach(), *torch.autograd.grad(y, tensors, slope.double())]


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


def by_kernels(query, key, value, slope, spans, scale, drawn):
    from regard.nn.fast.packed_triton import attend, slopes

    output, log_total = attend(query, key, value, spans.first, spans.last, scale, *drawn)
    all_spans = (spans.first, spans.last, spans.seen_first, spans.seen_last)
    return output, *slopes(slope, query, key, value, all_spans, scale, *drawn, output, log_total)


def kernels_agree(heads, width, kind, extra, dropout, device="cpu", dtype=torch.float32):
    asking, answering = layouts(kind, extra, device)
    spans = Spans.of(answering.cross_pattern(asking), causal=kind == "causal")
    *given, slope = numbers(heads, width, asking, answering, device, dtype)
    drawn = drawing(dropout, device)
    found = by_kernels(*given, slope, spans, scale_of(given[0]), drawn)
    assert_agrees(found, by_the_equation(*given, slope, kind, asking, answering, drawn), dtype)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_operator_equals_the_reference(case):
    heads, width, kind, extra, dropout = case
    asking, answering = layouts(kind, extra)
    spans = Spans.of(answering.cross_pattern(asking), causal=kind == "causal")
    *given, slope = numbers(heads, width, asking, answering)
    leaves = [x.detach().requires_grad_() for x in given]
    torch.manual_seed(3)
    y = attend_spans(*leaves, spans, scale_of(given[0]), dropout)
    found = [y, *torch.autograd.grad(y, leaves, slope)]
    torch.manual_seed(3)
    drawn = dropout, torch.randint(1 << 31, (1,)) if dropout else None
    assert_agrees(found, by_the_equation(*given, slope, kind, asking, answering, drawn), torch.float32)


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_dropout_drops_at_its_rate_and_follows_no_order(rate):
    """Means over rows, columns and heads, and the agreement of neighbours and of seeds, as chance would have them."""
    left = _shares(torch.tensor([5]), rate, 8, 200, 300)
    others = [(_shares(torch.tensor([seed]), rate, 8, 200, 300) > 0).double() for seed in (6, 13, 2**31 - 1)]
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
    spans = Spans.of(answering.cross_pattern(asking), causal=kind == "causal")
    *given, slope = numbers((4, 2), 16, asking, answering)
    given = [x.detach().clone().requires_grad_() for x in given]
    all_spans = (spans.first, spans.last, spans.seen_first, spans.seen_last)
    drawn = drawing(dropout)
    torch.library.opcheck(forward, (*given, *all_spans, 0.25, *drawn))
    output, log_total = forward(*given, *all_spans, 0.25, *drawn)
    inputs = [x.detach() for x in (*given, *all_spans)]
    torch.library.opcheck(backward, (slope, *inputs, 0.25, *drawn, output.detach(), log_total.detach()))


@pytest.mark.parametrize("kind", ["full", "causal", "across"])
def test_spans_hold_the_pairs_that_the_pattern_allows(kind):
    asking, answering = layouts(kind, 4)
    spans = Spans.of(answering.cross_pattern(asking), causal=kind == "causal")
    pairs = allowed(kind, asking, answering)
    queries, keys = pairs.shape
    query, key = torch.arange(queries), torch.arange(keys)
    seen = (key >= spans.first[:, None]) & (key < spans.last[:, None])
    sees = (query[:, None] >= spans.seen_first) & (query[:, None] < spans.seen_last)
    assert torch.equal(seen, pairs)
    assert torch.equal(sees, pairs)
    for bound in (spans.first, spans.last, spans.seen_first, spans.seen_last):
        assert (bound.diff() >= 0).all()


def test_kernels_agree_in_the_interpreter(interpret):
    interpret()


@pytest.mark.gpu
@pytest.mark.filterwarnings("ignore:Attempting to run cuBLAS")  # torch 2.11, where a thread's first product is a slope
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_kernels_agree_on_a_gpu(case, dtype):
    kernels_agree(*case, "cuda", dtype)


if __name__ == "__main__":
    for one in CASES[::5]:  # each takes a second there
        kernels_agree(*one)
