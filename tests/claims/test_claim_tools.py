"""The tools of the measurements against what can be counted by hand."""

import numpy as np
import pytest
import torch
from torch import nn

from regard.claims import graph
from regard.claims.f08_residuals import roughness
from regard.claims.f14_coreference import head_cut
from regard.claims.f16_power_law import fit
from regard.claims.held import bend, context_of, stack_of, weights_of, with_weights_held
from regard.claims.learn import DIVERGED, learn, smoothed
from regard.claims.timing import exponent, fastest, slope
from regard.nn.attention.module import Attention


def test_paths_are_counted_in_products():
    x = torch.randn(2, 3, requires_grad=True)
    direct, far = x @ torch.randn(3, 3), torch.randn(2, 3, requires_grad=True)
    deep = direct.relu() @ torch.randn(3, 3)
    assert graph.shortest(deep + x, x) == 0
    assert graph.shortest(deep, x) == 2
    assert graph.shortest(direct, far) is None
    assert graph.longest(deep + x) == 2


def test_an_lstm_read_token_by_token_is_the_same_lstm():
    torch.manual_seed(0)
    stack, tokens = graph.recurrent("lstm", 8), graph.leaves(5, 8)
    torch.testing.assert_close(graph.token_by_token(stack, tokens), stack(torch.stack(tokens, 1))[0][:, -1])


@pytest.mark.parametrize(("residual", "norm", "kind"), [(True, "layer", "plain"), (False, "none", "none")])
def test_held_weights_of_the_input_itself_change_nothing(residual: bool, norm: str, kind: str):
    torch.manual_seed(0)
    stack = stack_of(2, 16, residual=residual, norm=norm, feedforward={"kind": kind})
    x = torch.randn(2, 5, 16)
    torch.testing.assert_close(with_weights_held(stack, x, weights_of(stack, x)), stack(x, context_of(x)))


def test_linear_maps_have_no_bend_and_squares_have():
    one, other = torch.randn(2, 50).unbind()
    assert bend(lambda x: 3 * x + 1, one, other) < 1e-6
    assert bend(lambda x: x * x, one, other) > 0.1


def test_a_bowl_is_smooth_and_ripples_are_rough():
    y, x = np.mgrid[-8:9, -8:9]
    assert roughness((x**2 + y**2).tolist()) == 0
    assert roughness(np.cos(2 * np.hypot(x, y)).tolist()) > 0.3
    assert roughness(np.ones((9, 9)).tolist()) == 0


def test_a_power_law_is_found_again():
    assert fit([[10.0**n, 3 * 10 ** (-0.2 * n)] for n in range(5)]) == pytest.approx((-0.2, 1.0))
    assert exponent([1, 2, 4], [3, 12, 48]) == pytest.approx(2)
    assert slope([1, 2, 3], [5, 7, 9]) == pytest.approx(2)


def test_a_cut_head_says_nothing_and_comes_back():
    torch.manual_seed(0)
    attention, x = Attention(8, 2), torch.randn(1, 4, 8)
    before = attention(x, context_of(x))
    with torch.no_grad(), head_cut(attention, 1):
        cut = attention(x, context_of(x))
    by_hand = attention.output.weight[:, :4]
    heads = attention.query(x), attention.key(x), attention.value(x)
    weights = (heads[0] @ heads[1].transpose(-2, -1) * attention.scale).softmax(-1)
    torch.testing.assert_close(cut, (weights @ heads[2])[:, 0] @ by_hand.T + attention.output.bias)
    torch.testing.assert_close(attention(x, context_of(x)), before)


def test_learning_goes_down_and_a_lost_run_ends():
    model = nn.Linear(3, 1)
    x = torch.randn(32, 3)
    losses = learn(model, lambda model: (model(x) - x.sum(1, keepdim=True)).square().mean(), 200, lr=0.05)
    assert losses[-1] < 0.01 * losses[0]
    lost = learn(model, lambda model: model(x).mean() * float("nan"), 5)
    assert lost == [DIVERGED] * 5
    assert smoothed([4.0, 2.0, 0.0], 2) == [4.0, 3.0, 1.0]


def test_the_fastest_repeat_counts():
    calls: list[int] = []
    assert fastest(lambda: calls.append(1), repeats=3, warm=2) >= 0
    assert len(calls) == 5
