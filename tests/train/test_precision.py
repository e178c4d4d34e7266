"""The format is chosen by measurement and says why; clipping is torch's and tells sound numbers from others."""

import math
from collections.abc import Iterable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from regard.errors import ConfigError
from regard.train import precision
from regard.train.precision import choose_precision, machine_peak
from regard.train.step_statistics import (
    PendingStatistics,
    StepStatistics,
    clip_gradients,
    grad_scale,
    gradient_norm,
    non_finite_gradients,
)


@pytest.fixture
def sound_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precision, "_no_bfloat16", lambda device: "")


@pytest.fixture
def broken_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precision, "has_amx", lambda: True)
    monkeypatch.setattr(precision, "_survives_bfloat16", lambda: False)
    precision._no_bfloat16.cache_clear()
    yield
    precision._no_bfloat16.cache_clear()


def test_float32_changes_nothing():
    chosen = choose_precision("float32", "cpu")
    with chosen.autocast():
        assert nn.Linear(2, 2)(torch.ones(1, 2)).dtype is torch.float32
    assert (chosen.name, chosen.reason) == ("float32", "float32, as set")


@pytest.mark.usefixtures("sound_processor")
def test_bfloat16_computes_products_in_bfloat16_and_keeps_weights():
    chosen, linear = choose_precision("bfloat16", "cpu"), nn.Linear(2, 2)
    with chosen.autocast():
        y = linear(torch.ones(1, 2))
    y.sum().backward()
    assert chosen.name == "bfloat16"
    assert y.dtype is torch.bfloat16
    assert linear.weight.grad is not None
    assert linear.weight.grad.dtype is torch.float32


@pytest.mark.usefixtures("sound_processor")
@pytest.mark.parametrize(("gain", "name"), [(0.5, "float32"), (1.1, "float32"), (2.0, "bfloat16")])
def test_auto_takes_bfloat16_only_where_it_is_clearly_faster(monkeypatch: pytest.MonkeyPatch, gain: float, name: str):
    monkeypatch.setattr(precision, "_gain", lambda device: gain)
    chosen = choose_precision("auto", "cpu")
    assert chosen.name == name
    assert chosen.reason == f"{name}, as bfloat16 computes matrix products {gain} times as fast as float32 here"


@pytest.mark.usefixtures("sound_processor")
def test_the_gain_is_measured_once(monkeypatch: pytest.MonkeyPatch):
    precision._gain.cache_clear()
    threads = torch.get_num_threads()
    first = choose_precision("auto", "cpu")
    monkeypatch.setattr(precision, "_fastest", lambda *_: pytest.fail("measured again"))
    assert choose_precision("auto", "cpu") == first
    assert torch.get_num_threads() == threads


@pytest.mark.usefixtures("broken_processor")
def test_instructions_that_are_announced_and_refused_are_never_used():
    assert choose_precision("auto", "cpu").name == "float32"
    assert "announces AMX instructions and then refuses them" in choose_precision("auto", "cpu").reason
    with pytest.raises(ConfigError, match=r"train.precision: bfloat16 cannot be used: this processor announces AMX"):
        choose_precision("bfloat16", "cpu")
    machine_peak.cache_clear()
    with pytest.raises(ConfigError, match=r"train.precision: bfloat16 cannot be measured"):
        machine_peak("cpu", torch.bfloat16)


def test_a_trial_process_that_dies_is_noticed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(precision.sys, "executable", "/bin/false")
    assert not precision._survives_bfloat16()
    monkeypatch.setattr(precision.sys, "executable", "/bin/true")
    assert precision._survives_bfloat16()


def test_the_peak_is_measured_once(monkeypatch: pytest.MonkeyPatch):
    machine_peak.cache_clear()
    peak = machine_peak("cpu", torch.float32)
    assert 1e8 < peak < 1e15
    monkeypatch.setattr(precision, "_fastest", lambda *_: pytest.fail("measured again"))
    assert machine_peak("cpu", torch.float32) == peak


def test_the_peak_counts_two_flops_a_product_term_in_every_thread(monkeypatch: pytest.MonkeyPatch):
    machine_peak.cache_clear()
    monkeypatch.setattr(precision, "_fastest", lambda *_: 0.01)
    assert machine_peak("cpu", torch.float32) == pytest.approx(torch.get_num_threads() * 2 * 256**3 / 0.01)
    machine_peak.cache_clear()


def with_gradients(*sizes: int, scale: float = 1.0, seed: int = 0) -> list[nn.Parameter]:
    torch.manual_seed(seed)
    parameters = [nn.Parameter(torch.zeros(size)) for size in sizes]
    for parameter in parameters:
        parameter.grad = torch.randn_like(parameter) * scale
    return [*parameters, nn.Parameter(torch.zeros(3))]  # one without a gradient


def pending_of(parameters: Iterable[nn.Parameter], loss: float = 1.0) -> PendingStatistics:
    norm = gradient_norm([p for p in parameters if p.grad is not None])
    return PendingStatistics(torch.stack([torch.tensor(loss), norm]))


def statistics_of(parameters: Iterable[nn.Parameter], loss: float = 1.0) -> StepStatistics:
    return pending_of(parameters, loss).read()


@given(st.floats(0.01, 100), st.floats(0.01, 100), st.integers(0, 100))
def test_a_device_is_told_what_clipping_divides_by(limit: float, scale: float, seed: int):
    parameters = with_gradients(5, 7, scale=scale, seed=seed)
    pending, before = pending_of(parameters), parameters[0].grad.clone()
    divisor = grad_scale(torch.tensor(pending.read().norm), limit)
    clip_gradients(parameters, limit, pending.read())
    torch.testing.assert_close(before / divisor, parameters[0].grad, rtol=1e-5, atol=0)
    assert pending.found_inf() == 0


@given(st.floats(0.01, 100), st.floats(0.01, 100), st.integers(0, 100))
def test_clipping_is_torchs(limit: float, scale: float, seed: int):
    ours, theirs = (with_gradients(5, 7, scale=scale, seed=seed) for _ in range(2))
    statistics = statistics_of(ours, 1.5)
    clip_gradients(ours, limit, statistics)
    norm = nn.utils.clip_grad_norm_(theirs, limit)
    assert statistics.finite
    assert statistics.loss == 1.5
    assert statistics.norm == norm.item()
    for a, b in zip(ours[:-1], theirs[:-1], strict=True):
        torch.testing.assert_close(a.grad, b.grad, rtol=2e-4, atol=0)  # torch clips a hair below the limit too


def test_without_a_limit_gradients_stay():
    parameters = with_gradients(5, scale=1000.0)
    before = parameters[0].grad.clone()
    assert statistics_of(parameters).norm > 1000
    clip_gradients(parameters, None, statistics_of(parameters))
    assert torch.equal(parameters[0].grad, before)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_one_bad_gradient_is_noticed_and_found(bad: float):
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    model(torch.ones(2, 3)).sum().backward()
    assert statistics_of(model.parameters()).finite
    assert non_finite_gradients(model) == []
    model[1].weight.grad[1, 2] = bad
    before = model[0].weight.grad.clone()
    clip_gradients(model.parameters(), 0.01, statistics_of(model.parameters()))
    assert not statistics_of(model.parameters()).finite
    assert torch.equal(model[0].weight.grad, before)
    assert non_finite_gradients(model) == ["1.weight"]


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_bad_loss_is_noticed(bad: float):
    assert pending_of(with_gradients(2), bad).found_inf() == 1
    assert not statistics_of(with_gradients(2), bad).finite


@pytest.mark.gpu
def test_a_gpu_computes_faster_in_bfloat16_and_says_so():
    chosen = choose_precision("auto", "cuda")
    assert chosen.name == "bfloat16"
    assert machine_peak("cuda", torch.bfloat16) > machine_peak("cuda", torch.float32) > 1e12
