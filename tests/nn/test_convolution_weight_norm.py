"""Weight normalisation against torch's, in value and gradient."""

import pytest
import torch
from torch.nn.utils.parametrizations import weight_norm

from regard.nn.convolution import NormedLinear, linear_map, linear_params, match_gains
from regard.nn.initialise import XavierConfig


@pytest.mark.parametrize("bias", [True, False])
def test_equals_torch_in_value_and_gradient(bias: bool):
    torch.manual_seed(0)
    own = NormedLinear(5, 4, bias).double()
    with torch.no_grad():
        own.gain.uniform_(0.5, 2)
    other = weight_norm(torch.nn.Linear(5, 4, bias).double(), dim=0)
    length, direction = other.parametrizations.weight.original0, other.parametrizations.weight.original1
    with torch.no_grad():
        length.copy_(own.gain[:, None])
        direction.copy_(own.weight)
        if bias:
            other.bias.copy_(own.bias)
    x = torch.randn(2, 3, 5, dtype=torch.double)
    torch.testing.assert_close(own(x), other(x))
    own(x).square().sum().backward()
    other(x).square().sum().backward()
    torch.testing.assert_close(own.gain.grad, length.grad[:, 0])
    torch.testing.assert_close(own.weight.grad, direction.grad)


def test_only_the_direction_of_the_weight_counts():
    own = NormedLinear(5, 4, bias=False)
    x = torch.randn(3, 5)
    before = own(x)
    with torch.no_grad():
        own.weight *= 7
    torch.testing.assert_close(own(x), before)


def test_training_starts_from_what_was_drawn():
    model = torch.nn.Sequential(linear_map(5, 4, weight_norm=True), linear_map(4, 3))
    XavierConfig(gain=3.0).apply(model, depth=1)
    match_gains(model)
    x = torch.randn(2, 5)
    torch.testing.assert_close(model[0](x), torch.nn.functional.linear(x, model[0].weight))
    assert type(model[1]) is torch.nn.Linear


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("normed", [True, False])
def test_params(bias: bool, normed: bool):
    built = linear_map(5, 4, bias, normed)
    assert sum(weight.numel() for weight in built.parameters()) == linear_params(5, 4, bias, normed)
