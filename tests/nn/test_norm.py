"""Normalisation: both readings of ε, the kind without a mean, with and without γ and β, by explicit formulas."""

import math

import pytest
import torch
from attention_cases import assert_close
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from regard.errors import ConfigError
from regard.models import EncoderConfig
from regard.nn.norm import LayerNorm, LayerNormConfig, NoNormConfig, NormConfig, RMSNorm, RMSNormConfig

EPSILONS = st.sampled_from([1e-12, 1e-5, 1e-2, 1.0])


def layer_norm_by_hand(row: list[float], epsilon: float, inside: bool) -> list[float]:
    mean = sum(row) / len(row)
    variance = sum((x - mean) ** 2 for x in row) / len(row)
    size = math.sqrt(variance + epsilon) if inside else math.sqrt(variance) + epsilon
    return [(x - mean) / size for x in row]


@pytest.mark.parametrize("inside", [True, False])
@pytest.mark.parametrize("gain", [True, False])
@pytest.mark.parametrize("shift", [True, False])
@given(st.lists(st.floats(-9, 9), min_size=2, max_size=6), EPSILONS)
def test_layer_norm_equals_the_formula(inside: bool, gain: bool, shift: bool, row: list[float], epsilon: float):
    norm = LayerNorm(len(row), epsilon, inside, gain, shift).double()
    factors, offsets = torch.linspace(0.5, 2, len(row)).double(), torch.linspace(-1, 1, len(row)).double()
    if norm.gain is not None:
        norm.gain.data.copy_(factors)
    if norm.shift is not None:
        norm.shift.data.copy_(offsets)
    expected = torch.tensor(layer_norm_by_hand(row, epsilon, inside), dtype=torch.float64)
    expected = expected * (factors if gain else 1) + (offsets if shift else 0)
    tolerance = 1e-10 if max(row) - min(row) > 1e-3 else 1e-2  # nearly constant rows: rounding is all that is left
    assert_close(norm(torch.tensor([row], dtype=torch.float64))[0], expected, tolerance)


@pytest.mark.parametrize("gain", [True, False])
@given(st.lists(st.floats(-9, 9), min_size=1, max_size=6), st.sampled_from([1e-6, 1e-2, 1.0]))
def test_rms_norm_equals_the_formula(gain: bool, row: list[float], epsilon: float):
    norm = RMSNorm(len(row), epsilon, gain).double()
    factors = torch.linspace(0.5, 2, len(row)).double()
    if norm.gain is not None:
        norm.gain.data.copy_(factors)
    size = math.sqrt(sum(x * x for x in row) / len(row) + epsilon)
    expected = torch.tensor([x / size for x in row], dtype=torch.float64) * (factors if gain else 1)
    assert_close(norm(torch.tensor([row], dtype=torch.float64))[0], expected, 1e-10)


@pytest.mark.parametrize("norm", [LayerNorm(6), LayerNorm(6, epsilon_inside=False), RMSNorm(6)])
def test_gradients_equal_differences(norm: torch.nn.Module):
    torch.manual_seed(0)
    x = torch.randn(3, 6, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(norm.double(), (x,))


@pytest.mark.parametrize("norm", [LayerNorm(6), LayerNorm(6, epsilon_inside=False), RMSNorm(6)])
def test_a_vector_of_equal_numbers_has_a_finite_gradient(norm: torch.nn.Module):
    x = torch.zeros(2, 6, requires_grad=True)
    y = norm(x)
    assert (y == 0).all()
    (slope,) = torch.autograd.grad((y * torch.arange(6.0)).sum(), x)
    assert torch.isfinite(slope).all()


def test_the_two_readings_differ_where_epsilon_is_large():
    x = torch.randn(2, 6)
    assert (LayerNorm(6, 0.5)(x) - LayerNorm(6, 0.5, epsilon_inside=False)(x)).abs().max() > 1e-2
    assert_close(LayerNorm(6, 1e-12)(x), LayerNorm(6, 1e-12, epsilon_inside=False)(x), 1e-5)


@pytest.mark.parametrize(
    "config",
    [
        *(LayerNormConfig(gain=g, shift=s, epsilon_inside=i) for g in (0, 1) for s in (0, 1) for i in (0, 1)),
        RMSNormConfig(),
        RMSNormConfig(gain=False),
        NoNormConfig(),
    ],
)
def test_config_counts_what_the_built_part_has(config):
    norm = config.build(12)
    assert config.num_params(12) == sum(p.numel() for p in norm.parameters())
    assert norm(torch.randn(2, 3, 12)).shape == (2, 3, 12)


def test_no_norm_changes_nothing():
    x = torch.randn(2, 3)
    assert NoNormConfig().build(3)(x) is x


@pytest.mark.parametrize("kind", ["layer", "rms", "none"])
def test_every_kind_survives_the_way_through_a_tree(kind: str):
    family = TypeAdapter(NormConfig)
    config = family.validate_python(kind)
    assert family.validate_python(config.tree()) == config


@pytest.mark.parametrize(
    ("ask", "sentence"),
    [
        (lambda: RMSNormConfig(epsilon=0), "epsilon: expected greater than 0, got 0"),
        (lambda: LayerNormConfig(epsilon=-1), "epsilon: expected greater than or equal to 0, got -1"),
        (
            lambda: LayerNormConfig(root_deviation=True),
            "root_deviation: √σ + ε has ε beside the root; set epsilon_inside=false too",
        ),
        (lambda: EncoderConfig(norm="layr"), "norm: unknown kind 'layr'; did you mean 'layer'?"),
    ],
)
def test_what_cannot_be_is_refused(ask, sentence: str):
    with pytest.raises(ConfigError) as refused:
        ask()
    assert str(refused.value) == sentence


@pytest.mark.parametrize("norm", [LayerNorm(64), LayerNorm(64, epsilon_inside=False), RMSNorm(64)], ids=str)
def test_norms_of_bfloat16_are_computed_in_float32_under_autocast(norm: torch.nn.Module):
    torch.manual_seed(0)
    x = (10 + torch.randn(50, 64)).bfloat16()
    with torch.autocast("cpu", torch.bfloat16):
        y = norm(x)
    torch.testing.assert_close(y.float(), norm(x.float()), atol=0.01, rtol=0.01)
    assert (y.float() - norm(x.float())).mean(-1).abs().max() < 2e-3  # and no row is off as a whole
