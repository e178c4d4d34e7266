"""The feed-forward part: each kind by its formula, each bend by its definition."""

import math

import pytest
import torch
import torch.nn.functional as F
from attention_cases import assert_close
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter
from torch.utils.flop_counter import FlopCounterMode

from regard.errors import ConfigError
from regard.models import EncoderConfig
from regard.nn.feedforward import (
    AnyFeedForwardConfig,
    FeedForward,
    FeedForwardConfig,
    GatedConfig,
    GatedFeedForward,
    NoFeedForwardConfig,
    _gelu_tanh,
    activate,
)

BENDS = {
    "relu": lambda x: max(0.0, x),
    "gelu": lambda x: x * (1 + math.erf(x / math.sqrt(2))) / 2,
    "gelu-tanh": lambda x: x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2,
    "silu": lambda x: x / (1 + math.exp(-x)),
    "tanh": math.tanh,
    "none": lambda x: x,
}


@pytest.mark.parametrize("bend", BENDS)
@given(st.floats(-6, 6))
def test_bends_equal_their_definitions(bend, x: float):
    assert activate(torch.tensor([[x]], dtype=torch.float64), bend).item() == pytest.approx(BENDS[bend](x), abs=1e-9)


@pytest.mark.parametrize("bend", BENDS)
@pytest.mark.parametrize("bias", [True, False])
def test_plain_equals_the_formula(bend, bias: bool):
    torch.manual_seed(0)
    part, x = FeedForward(4, 6, bend, bias), torch.randn(2, 3, 4)
    b1, b2 = (part.up.bias, part.down.bias) if bias else (0, 0)
    bent = _bend(x @ part.up.weight.T + b1, bend)
    assert_close(part(x), bent @ part.down.weight.T + b2, 1e-5)


@pytest.mark.parametrize("bend", BENDS)
@pytest.mark.parametrize("bias", [True, False])
def test_gated_equals_the_formula(bend, bias: bool):
    torch.manual_seed(0)
    part, x = GatedFeedForward(4, 6, bend, bias), torch.randn(2, 3, 4)
    b1, b2, b3 = (part.gate.bias, part.up.bias, part.down.bias) if bias else (0, 0, 0)
    inner = _bend(x @ part.gate.weight.T + b1, bend) * (x @ part.up.weight.T + b2)
    assert_close(part(x), inner @ part.down.weight.T + b3, 1e-5)


def _bend(x: torch.Tensor, bend: str) -> torch.Tensor:
    return torch.tensor([BENDS[bend](number) for number in x.flatten().tolist()]).view_as(x)


@pytest.mark.parametrize("part", [FeedForward(4, 8, dropout=0.5), GatedFeedForward(4, 8, dropout=0.5)])
def test_dropout_acts_inside_and_while_training_only(part: torch.nn.Module):
    torch.manual_seed(0)
    x = torch.randn(2, 3, 4)
    assert not torch.equal(part(x), part(x))
    part.eval()
    assert torch.equal(part(x), part(x))


def test_each_token_is_by_itself():
    part, x = FeedForward(4, 8), torch.randn(2, 3, 4)
    for row in range(2):
        for place in range(3):
            assert_close(part(x)[row, place], part(x[row : row + 1, place : place + 1])[0, 0], 1e-6)


@pytest.mark.parametrize(
    "config",
    [
        FeedForwardConfig(),
        FeedForwardConfig(hidden=10, bias=False),
        GatedConfig(),
        GatedConfig(hidden=10, bias=True),
    ],
)
def test_config_counts_what_the_built_part_has_and_costs(config: FeedForwardConfig | GatedConfig):
    part = config.build(12)
    assert config.num_params(12) == sum(p.numel() for p in part.parameters())
    with FlopCounterMode(display=False) as counted:
        part(torch.randn(2, 5, 12))
    assert counted.get_total_flops() == config.flops(12, tokens=10)


def test_none_is_nothing():
    config = NoFeedForwardConfig()
    assert config.build(12) is None
    assert config.num_params(12) == config.flops(12, 10) == 0


@pytest.mark.parametrize("width", [8, 64, 96, 512])
def test_a_gated_part_is_about_as_large_as_a_plain_one(width: int):
    gated = GatedConfig()
    assert gated.hidden_of(width) % 8 == 0
    assert gated.hidden_of(width) >= 8 * width / 3
    plain = FeedForwardConfig(bias=False).num_params(width)
    assert plain <= gated.num_params(width) <= plain + 3 * 8 * width


@pytest.mark.parametrize("kind", ["plain", "gated", "experts", "none"])
def test_every_kind_survives_the_way_through_a_tree(kind: str):
    family = TypeAdapter(AnyFeedForwardConfig)
    config = family.validate_python(kind)
    assert family.validate_python(config.tree()) == config


@pytest.mark.parametrize(
    ("ask", "sentence"),
    [
        (lambda: FeedForwardConfig(hidden=0), "hidden: expected greater than 0, got 0"),
        (lambda: FeedForwardConfig(activation="rely"), "activation: expected 'relu', 'gelu'"),
        (lambda: EncoderConfig(feedforward="gate"), "feedforward: unknown kind 'gate'; did you mean 'gated'?"),
    ],
)
def test_what_cannot_be_is_refused(ask, sentence: str):
    with pytest.raises(ConfigError) as refused:
        ask()
    assert str(refused.value).startswith(sentence)


def test_the_bend_of_compiled_code_is_the_same_and_exports_keep_its_name():
    x = torch.linspace(-8, 8, 4001, dtype=torch.float64)
    torch.testing.assert_close(_gelu_tanh(x), F.gelu(x, approximate="tanh"), atol=1e-12, rtol=1e-12)
    exported = torch.export.export(FeedForward(4, 8, "gelu-tanh"), (torch.randn(1, 2, 4),))
    assert "aten.gelu" in str(exported.graph)
