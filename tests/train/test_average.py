"""Averages are those of an explicit loop, and go on to the bit from what was saved of them."""

import contextlib
import json

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load, save
from torch import nn

from regard.errors import RunError
from regard.train.average import MovingAverage, MovingAverageConfig, average


def small_model(seed: int = 0) -> nn.Sequential:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))


def disturb(model: nn.Module, seed: int) -> None:
    torch.manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter))


@given(st.floats(0.01, 0.9999), st.booleans(), st.integers(1, 30))
def test_the_moving_average_is_that_of_an_explicit_loop(decay: float, warmup: bool, steps: int):
    model = small_model()
    moving = MovingAverageConfig(decay=decay, warmup=warmup).build(model)
    expected = {name: p.detach().double() for name, p in model.named_parameters()}
    for step in range(steps):
        disturb(model, step)
        moving.update()
        keep = min(decay, (1 + step) / (10 + step)) if warmup else decay
        for name, parameter in model.named_parameters():
            expected[name] = keep * expected[name] + (1 - keep) * parameter.detach().double()
    for name, value in moving.tensors().items():
        torch.testing.assert_close(value.double(), expected[name], rtol=1e-4, atol=1e-5)


def test_resuming_is_exact_to_the_bit():
    whole, first, second = small_model(), small_model(), small_model(9)
    moving, before, after = MovingAverage(whole, 0.9), MovingAverage(first, 0.9), MovingAverage(second, 0.9)
    for step in range(10):
        disturb(whole, step)
        moving.update()
    for step in range(5):
        disturb(first, step)
        before.update()
    second.load_state_dict(first.state_dict())
    after.restore(load(save(before.tensors())), json.loads(json.dumps(before.scalars())))
    for step in range(5, 10):
        disturb(second, step)
        after.update()
    for name, value in moving.tensors().items():
        assert torch.equal(after.tensors()[name], value)


def test_the_average_takes_the_place_of_the_weights_for_a_while():
    model = small_model()
    moving = MovingAverage(model, 0.5, warmup=False)
    disturb(model, 1)
    moving.update()
    own = {name: value.clone() for name, value in model.state_dict().items()}
    with contextlib.suppress(KeyboardInterrupt), moving.in_place():
        for name, parameter in model.named_parameters():
            assert torch.equal(parameter, moving.tensors()[name])
        raise KeyboardInterrupt
    assert all(torch.equal(value, own[name]) for name, value in model.state_dict().items())
    weights = moving.weights()
    assert weights.keys() == own.keys()
    assert torch.equal(weights["0.weight"], moving.tensors()["0.weight"])
    assert torch.equal(weights["1.running_var"], own["1.running_var"])


def test_bfloat16_weights_are_averaged_in_float32():
    model = small_model().bfloat16()
    moving = MovingAverage(model, 0.999, warmup=False)
    start = moving.tensors()["0.weight"].clone()
    with torch.no_grad():
        model[0].weight.add_(1)
    for _ in range(100):
        moving.update()
    grown = moving.tensors()["0.weight"] - start
    assert grown.mean() == pytest.approx(1 - 0.999**100, rel=0.02)  # lost altogether in eight bits
    assert moving.weights()["0.weight"].dtype is torch.bfloat16


def test_another_models_average_is_refused():
    moving = MovingAverage(small_model())
    tensors = moving.tensors()
    with pytest.raises(RunError, match=r"the saved average lacks '1.weight'"):
        moving.restore({name: value for name, value in tensors.items() if name != "1.weight"}, {"updates": 1})
    with pytest.raises(RunError, match=r"the saved average has 'other' too"):
        moving.restore({**tensors, "other": torch.zeros(1)}, {"updates": 1})
    with pytest.raises(RunError, match=r"'0.weight': expected \(4, 3\), got \(3, 4\)"):
        moving.restore({**tensors, "0.weight": torch.zeros(3, 4)}, {"updates": 1})


@given(st.integers(1, 8), st.sampled_from([torch.float32, torch.float64, torch.bfloat16]))
def test_the_mean_of_states(count: int, dtype: torch.dtype):
    states = [{"weight": torch.randn(3, 2).to(dtype), "steps": torch.tensor(step)} for step in range(count)]
    mean = average(iter(states))
    exact = torch.stack([state["weight"].double() for state in states]).mean(0)
    torch.testing.assert_close(mean["weight"], exact.to(dtype))
    assert mean["weight"].dtype is dtype
    assert mean["steps"] == count - 1


def test_the_mean_is_summed_in_float32():
    states = [{"weight": torch.tensor([258.0], dtype=torch.bfloat16)}] * 1000
    assert average(states)["weight"] == 258
    assert sum(state["weight"] for state in states) / 1000 != 258  # eight bits do not hold the sum


def test_the_mean_leaves_its_states_alone():
    states = [{"weight": torch.zeros(2)}, {"weight": torch.ones(2)}]
    average(states)
    assert states[0]["weight"].tolist() == [0, 0]


def test_states_of_different_models_are_refused():
    with pytest.raises(RunError, match="there is no checkpoint to average"):
        average([])
    with pytest.raises(RunError, match="state 2 lacks 'a'"):
        average([{"a": torch.zeros(1)}, {"b": torch.zeros(1)}])
    with pytest.raises(RunError, match=r"state 2, 'a': expected \(1,\), got \(2,\)"):
        average([{"a": torch.zeros(1)}, {"a": torch.zeros(2)}])
