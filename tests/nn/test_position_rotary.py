"""Rotary positions: lengths stay, products know the distance alone, both layouts turn by the formula."""

import math

import pytest
import torch
from attention_cases import assert_close
from hypothesis import given
from hypothesis import strategies as st

from regard.errors import ConfigError
from regard.models import EncoderConfig
from regard.nn.position import Rotary, RotaryConfig

KINDS = [Rotary(8), Rotary(8, interleaved=True), Rotary(8, theta=100.0), Rotary(8, share=0.5)]


def vectors(seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(seed)
    return torch.randn(1, 2, 1, 8, dtype=torch.float64), torch.randn(1, 2, 1, 8, dtype=torch.float64)


def turned(position: Rotary, x: torch.Tensor, place: int) -> torch.Tensor:
    return position.rotate(x, torch.tensor([[place]]))


@pytest.mark.parametrize("position", KINDS)
@given(st.integers(0, 99), st.integers(0, 50), st.integers(0, 50), st.integers(0, 200))
def test_products_depend_on_the_distance_alone(position: Rotary, seed: int, i: int, j: int, shift: int):
    q, k = vectors(seed)
    here = (turned(position, q, i) * turned(position, k, j)).sum(-1)
    there = (turned(position, q, i + shift) * turned(position, k, j + shift)).sum(-1)
    assert_close(here, there, 1e-4)


@pytest.mark.parametrize("position", KINDS)
@given(st.integers(0, 99), st.integers(0, 500))
def test_length_is_kept_and_place_zero_does_not_turn(position: Rotary, seed: int, place: int):
    q, _ = vectors(seed)
    assert_close(turned(position, q, place).norm(dim=-1), q.norm(dim=-1), 1e-6)
    assert torch.equal(turned(position, q, 0), q)
    if place % 7:
        assert not torch.allclose(turned(position, q, place), q)


@pytest.mark.parametrize("interleaved", [False, True])
@given(st.integers(0, 99), st.integers(0, 200))
def test_pairs_turn_by_the_formula(interleaved: bool, seed: int, place: int):
    q, _ = vectors(seed)
    y = turned(Rotary(8, theta=50.0, interleaved=interleaved), q, place)
    for i in range(4):
        one, other = (2 * i, 2 * i + 1) if interleaved else (i, i + 4)
        angle = place * 50.0 ** (-2 * i / 8)
        a, b = q[..., one], q[..., other]
        assert_close(y[..., one], a * math.cos(angle) - b * math.sin(angle), 1e-4)
        assert_close(y[..., other], a * math.sin(angle) + b * math.cos(angle), 1e-4)


def test_the_rest_of_a_shared_width_stays_as_it_is():
    q, _ = vectors(0)
    y = turned(Rotary(8, share=0.5), q, 5)
    assert torch.equal(y[..., 4:], q[..., 4:])
    assert torch.equal(y[..., :4], turned(Rotary(4), q[..., :4], 5))


def test_the_two_layouts_are_the_same_up_to_order():
    q, _ = vectors(0)
    order = torch.tensor([0, 2, 4, 6, 1, 3, 5, 7])
    assert_close(turned(Rotary(8), q[..., order], 9), turned(Rotary(8, interleaved=True), q, 9)[..., order], 1e-12)


def test_rows_may_stand_at_different_places():
    x = torch.randn(2, 3, 4, 8)
    places = torch.tensor([[0, 1, 2, 3], [7, 8, 0, 1]])
    y = Rotary(8).rotate(x, places)
    for row in range(2):
        assert_close(y[row : row + 1], Rotary(8).rotate(x[row : row + 1], places[row : row + 1]), 1e-6)
    assert y.dtype == x.dtype
    assert Rotary(8).rotate(x.bfloat16(), places).dtype == torch.bfloat16


def test_config_builds_it_without_parameters():
    config = RotaryConfig(theta=5.0, interleaved=True, share=0.5)
    position = config.build(width=16, heads=2, head_width=8, causal=True)
    assert (position.theta, position.interleaved, position.turned) == (5.0, True, 4)
    assert config.num_params(width=16, heads=2, head_width=8) == 0 == len(list(position.parameters()))


@pytest.mark.parametrize(
    ("ask", "sentence"),
    [
        (lambda: Rotary(5), "rotary turns pairs of numbers: expected an even width per head, got 5"),
        (lambda: Rotary(8, share=0.1), "expected an even width per head, got 0 (head width 8 × share 0.1)"),
        (lambda: Rotary(8, share=1.5), "expected an even width per head, got 12 (head width 8 × share 1.5)"),
        (lambda: RotaryConfig(share=1.5), "share: expected less than or equal to 1, got 1.5"),
        (lambda: RotaryConfig(share=0), "share: expected greater than 0, got 0"),
        (lambda: RotaryConfig(theta=0), "theta: expected greater than 0, got 0"),
        (lambda: EncoderConfig(width=10, heads=2, position=RotaryConfig()), "expected an even head width, got 5"),
    ],
)
def test_what_cannot_be_is_refused(ask, sentence: str):
    with pytest.raises(ConfigError) as refused:
        ask()
    assert sentence in str(refused.value)
