"""The tools of the measurements against what can be counted by hand."""

import numpy as np
import pytest
import torch
from torch import nn

from regard.claims import f02_f03_paths as paths
from regard.claims.f04_f17_linearity import (
    attention_weights,
    bias_free_stack,
    forward_with_frozen_weights,
    nonlinearity,
)
from regard.claims.f08_f09_reversal import roughness
from regard.claims.f16_power_law import fit
from regard.claims.setup import DIVERGED, exponent, fastest, full_context, growth_rate, smoothed, train
from regard.look.replay import without_heads
from regard.nn.attention.module import Attention


def test_paths_are_counted_in_products():
    x = torch.randn(2, 3, requires_grad=True)
    direct, far = x @ torch.randn(3, 3), torch.randn(2, 3, requires_grad=True)
    deep = direct.relu() @ torch.randn(3, 3)
    assert paths.shortest_path(deep + x, x) == 0
    assert paths.shortest_path(deep, x) == 2
    assert paths.shortest_path(direct, far) is None
    assert paths.longest_path(deep + x) == 2


def test_an_lstm_read_token_by_token_is_the_same_lstm():
    torch.manual_seed(0)
    stack, tokens = paths.recurrent_stack("lstm", 8), paths.leaf_vectors(5, 8)
    torch.testing.assert_close(paths.token_by_token(stack, tokens), stack(torch.stack(tokens, 1))[0][:, -1])


@pytest.mark.parametrize(("residual", "norm", "kind"), [(True, "layer", "plain"), (False, "none", "none")])
def test_frozen_weights_of_the_same_input_change_nothing(residual: bool, norm: str, kind: str):
    torch.manual_seed(0)
    stack = bias_free_stack(2, 16, residual=residual, norm=norm, feedforward={"kind": kind})
    x = torch.randn(2, 5, 16)
    torch.testing.assert_close(
        forward_with_frozen_weights(stack, x, attention_weights(stack, x)), stack(x, full_context(x))
    )


def test_affine_functions_have_no_nonlinearity_and_squares_have():
    one, other = torch.randn(2, 50).unbind()
    assert nonlinearity(lambda x: 3 * x + 1, one, other) < 1e-6
    assert nonlinearity(lambda x: x * x, one, other) > 0.1


def test_a_bowl_is_smooth_and_ripples_are_rough():
    y, x = np.mgrid[-8:9, -8:9]
    assert roughness((x**2 + y**2).tolist()) == 0
    assert roughness(np.cos(2 * np.hypot(x, y)).tolist()) > 0.3
    assert roughness(np.ones((9, 9)).tolist()) == 0


def test_a_power_law_is_found_again():
    assert fit([[10.0**n, 3 * 10 ** (-0.2 * n)] for n in range(5)]) == pytest.approx((-0.2, 1.0))
    assert exponent([1, 2, 4], [3, 12, 48]) == pytest.approx(2)
    assert growth_rate([1, 2, 3], [5, 7, 9]) == pytest.approx(2)


def test_an_ablated_head_contributes_nothing_and_is_restored():
    torch.manual_seed(0)
    attention, x = Attention(8, 2), torch.randn(1, 4, 8)
    before = attention(x, full_context(x))
    with torch.no_grad(), without_heads(attention, [("", 1)]):
        cut = attention(x, full_context(x))
    by_hand = attention.output.weight[:, :4]
    heads = attention.query(x), attention.key(x), attention.value(x)
    weights = (heads[0] @ heads[1].transpose(-2, -1) * attention.scale).softmax(-1)
    torch.testing.assert_close(cut, (weights @ heads[2])[:, 0] @ by_hand.T + attention.output.bias)
    torch.testing.assert_close(attention(x, full_context(x)), before)


def test_the_loss_falls_and_a_diverged_run_ends():
    model = nn.Linear(3, 1)
    x = torch.randn(32, 3)
    losses = train(model, lambda model: (model(x) - x.sum(1, keepdim=True)).square().mean(), 200, lr=0.05)
    assert losses[-1] < 0.01 * losses[0]
    lost = train(model, lambda model: model(x).mean() * float("nan"), 5)
    assert lost == [DIVERGED] * 5
    assert smoothed([4.0, 2.0, 0.0], 2) == [4.0, 3.0, 1.0]


def test_the_fastest_repeat_counts():
    calls: list[int] = []
    assert fastest(lambda: calls.append(1), repeats=3, warmup=2) >= 0
    assert len(calls) == 5
