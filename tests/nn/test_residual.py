"""The residual connection: norm before or after, connected or cut."""

import pytest
import torch
from attention_cases import assert_close
from torch import nn

from regard.nn.block import Residual
from regard.nn.norm import LayerNorm

X = torch.randn(4, 3, 6, generator=torch.Generator().manual_seed(0))


def double(x: torch.Tensor) -> torch.Tensor:
    return 2 * x + 1


@pytest.mark.parametrize(
    ("place", "connected", "expected"),
    [
        ("before", True, lambda x, norm: x + double(norm(x))),
        ("before", False, lambda x, norm: double(norm(x))),
        ("after", True, lambda x, norm: norm(x + double(x))),
        ("after", False, lambda x, norm: norm(double(x))),
    ],
)
def test_each_form_equals_its_formula(place, connected: bool, expected):
    norm = LayerNorm(6)
    assert_close(Residual(norm, place, connected)(X, double), expected(X, norm), 1e-6)


def test_dropout_falls_on_the_change_alone():
    torch.manual_seed(0)
    residual = Residual(nn.Identity(), dropout=0.5)
    change = (residual(X, lambda x: torch.ones_like(x)) - X).round(decimals=4)
    assert change.unique().tolist() == [0, 2]
    residual.eval()
    assert_close(residual(X, double), X + double(X), 1e-6)


def test_a_dropped_layer_leaves_whole_rows_as_they_were():
    torch.manual_seed(0)
    residual = Residual(nn.Identity(), layer_dropout=0.5)
    change = residual(X.repeat(50, 1, 1), lambda x: torch.ones_like(x)) - X.repeat(50, 1, 1)
    per_row = change.flatten(1).round(decimals=4)
    assert all(row.unique().numel() == 1 for row in per_row)
    assert sorted(per_row.unique().tolist()) == [0, 2]


def test_the_gradient_flows_past_the_part():
    x = X.clone().requires_grad_()
    Residual(LayerNorm(6))(x, lambda x: 0 * x).sum().backward()
    assert_close(x.grad, torch.ones_like(X), 1e-6)
