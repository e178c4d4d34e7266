"""Convolutions against torch's and against windows added up by hand; windows that slide while tokens are written."""

from itertools import pairwise

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.flop_counter import FlopCounterMode

from regard.nn.convolution import (
    Convolution,
    Window,
    convolution_flops,
    convolution_params,
    dilations,
    receptive_field,
    zero_padding,
)

sizes = {
    "kernel": st.integers(1, 5),
    "dilation": st.integers(1, 4),
    "time": st.integers(1, 9),
    "causal": st.booleans(),
    "seed": st.integers(0, 1000),
}


def made(kernel: int, dilation: int, causal: bool, seed: int, **extra: bool) -> Convolution:
    torch.manual_seed(seed)
    return Convolution(3, 4, kernel, dilation=dilation, causal=causal, **extra).double()


@given(**sizes)
def test_equals_torch(kernel: int, dilation: int, time: int, causal: bool, seed: int):
    own = made(kernel, dilation, causal, seed)
    other = torch.nn.Conv1d(3, 4, kernel, dilation=dilation).double()
    with torch.no_grad():
        own.linear.weight.copy_(other.weight.permute(0, 2, 1).flatten(1))
        own.linear.bias.copy_(other.bias)
    x = torch.randn(2, time, 3, dtype=torch.double)
    back = (kernel - 1) * dilation if causal else (kernel - 1) // 2 * dilation
    padded = F.pad(x.transpose(1, 2), (back, (kernel - 1) * dilation - back))
    torch.testing.assert_close(own(x), other(padded).transpose(1, 2))
    if not causal and kernel % 2:
        same = torch.nn.Conv1d(3, 4, kernel, dilation=dilation, padding="same").double()
        same.load_state_dict(other.state_dict())
        torch.testing.assert_close(own(x), same(x.transpose(1, 2)).transpose(1, 2))


@given(**sizes)
def test_equals_a_sum_over_the_window(kernel: int, dilation: int, time: int, causal: bool, seed: int):
    own = made(kernel, dilation, causal, seed)
    x = torch.randn(2, time, 3, dtype=torch.double)
    slices = own.linear.weight.split(3, dim=1)
    first = -(kernel - 1) * dilation if causal else -((kernel - 1) // 2) * dilation
    y = own(x)
    for row in range(2):
        for place in range(time):
            total = own.linear.bias.clone()
            for number in range(kernel):
                seen = place + first + number * dilation
                if 0 <= seen < time:
                    total = total + slices[number] @ x[row, seen]
            torch.testing.assert_close(y[row, place], total)


def test_a_centred_window_always_holds_the_token_itself():
    for kernel in (1, 2, 3, 4):
        x = torch.zeros(1, 9, 3, dtype=torch.double, requires_grad=True)
        own = made(kernel, 2, False, 0)
        (slope,) = torch.autograd.grad(own(x)[0, 4].sum(), x)
        seen = slope[0].abs().sum(-1).nonzero().flatten().tolist()
        assert seen == {1: [4], 2: [4, 6], 3: [2, 4, 6], 4: [2, 4, 6, 8]}[kernel]


@given(
    kernel=st.integers(1, 5),
    dilation=st.integers(1, 4),
    chunks=st.lists(st.lists(st.integers(0, 4), min_size=3, max_size=3), min_size=1, max_size=4),
)
def test_windows_slide(kernel: int, dilation: int, chunks: list[list[int]]):
    """Rows that advance by different lengths, junk beyond them: each row says what it says in one piece."""
    own = made(kernel, dilation, True, 0)
    totals = [sum(column) for column in zip(*chunks, strict=True)]
    rows = [torch.randn(1, total, 3, dtype=torch.double) for total in totals]
    whole = [own(row)[0] for row in rows]
    past, done = own.initial_past(3, own.linear.weight), [0, 0, 0]
    for lengths in chunks:
        x = torch.randn(3, max(*lengths, 1), 3, dtype=torch.double)
        for row, length in enumerate(lengths):
            x[row, :length] = rows[row][0, done[row] : done[row] + length]
        ragged = len({*lengths, x.shape[1]}) > 1
        window = Window(past, torch.tensor(lengths) if ragged else None)
        y, past = own(x, window), window.past
        assert past.shape == (3, (kernel - 1) * dilation, 3)
        for row, length in enumerate(lengths):
            torch.testing.assert_close(y[row, :length], whole[row][done[row] : done[row] + length])
            done[row] += length


def test_a_centred_convolution_has_no_past_to_go_on_from():
    own = made(3, 1, False, 0)
    with pytest.raises(AssertionError, match="only a causal convolution"):
        own(torch.zeros(1, 1, 3, dtype=torch.double), Window(own.initial_past(1, own.linear.weight)))


def test_blank():
    x = torch.ones(2, 3, 1)
    valid = torch.tensor([[True, True, False], [True, False, False]])
    assert zero_padding(x, valid)[..., 0].tolist() == [[1, 1, 0], [1, 0, 0]]
    assert zero_padding(x, None) is x


@given(depth=st.integers(1, 30), widest=st.integers(1, 70))
def test_dilations_double_and_begin_again(depth: int, widest: int):
    found = dilations(depth, widest)
    assert len(found) == depth
    assert found[0] == 1
    for before, after in pairwise(found):
        assert after == 2 * before <= widest or (after == 1 and 2 * before > widest)


def test_the_dilations_of_the_papers():
    assert dilations(7, 16) == [1, 2, 4, 8, 16, 1, 2]
    assert dilations(3, 1) == [1, 1, 1]


@given(kernel=st.integers(1, 4), depth=st.integers(1, 4), widest=st.integers(1, 4), causal=st.booleans())
def test_the_receptive_field_of_a_stack(kernel: int, depth: int, widest: int, causal: bool):
    gaps = dilations(depth, widest)
    x = torch.randn(1, 81, 3, dtype=torch.double, requires_grad=True)
    y = x
    for number, gap in enumerate(gaps):
        torch.manual_seed(number)
        y = Convolution(3, 3, kernel, dilation=gap, causal=causal).double()(y)
    (slope,) = torch.autograd.grad(y[0, 40].sum(), x)
    seen = slope[0].abs().sum(-1).nonzero().flatten()
    assert int(seen.max() - seen.min()) + 1 == receptive_field(kernel, gaps)
    if causal:
        assert int(seen.max()) == 40


@given(kernel=st.integers(1, 5), bias=st.booleans(), weight_norm=st.booleans())
def test_params_and_flops(kernel: int, bias: bool, weight_norm: bool):
    own = Convolution(3, 4, kernel, bias=bias, weight_norm=weight_norm)
    assert sum(weight.numel() for weight in own.parameters()) == convolution_params(3, 4, kernel, bias, weight_norm)
    with FlopCounterMode(display=False) as counter:
        own(torch.zeros(2, 7, 3))
    assert counter.get_total_flops() == convolution_flops(3, 4, kernel, 14)
