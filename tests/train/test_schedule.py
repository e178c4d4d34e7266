"""Schedules rise, peak and fall as their formulas say, whatever the budget is counted in."""

import math
from itertools import pairwise

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from regard.config import Config
from regard.errors import ConfigError
from regard.train.schedule import (
    Constant,
    ConstantConfig,
    Cosine,
    CosineConfig,
    Linear,
    LinearConfig,
    Noam,
    NoamConfig,
    Schedule,
    ScheduleConfig,
)

RATES = st.floats(1e-6, 10)
WARMUPS = st.integers(1, 500)
FLOORS = st.floats(0, 1)


@st.composite
def schedules(draw: st.DrawFn, warmup: int | None = None) -> Schedule:
    lr, warmup = draw(RATES), draw(WARMUPS) if warmup is None else warmup
    kinds = [Cosine(lr, warmup, draw(FLOORS)), Linear(lr, warmup, draw(FLOORS)), Constant(lr, warmup)]
    return draw(st.sampled_from([*kinds, Noam(lr, max(warmup, 1))]))


@given(schedules(), st.integers(1, 2000), FLOORS)
def test_rates_stay_between_zero_and_the_peak(schedule: Schedule, step: int, progress: float):
    assert 0 <= schedule.rate(step, progress) <= schedule.lr * (1 + 1e-12)  # type: ignore[attr-defined]


@given(schedules(), st.integers(1, 500))
def test_warm_up_is_a_straight_rise_to_the_peak(schedule: Schedule, total: int):
    warmup, lr = schedule.warmup, schedule.lr  # type: ignore[attr-defined]
    rates = [schedule.rate(step, min(1, step / total)) for step in range(1, warmup + 1)]
    assert rates == pytest.approx([lr * step / warmup for step in range(1, warmup + 1)])
    assert rates[-1] == pytest.approx(lr)


@given(schedules(), st.lists(st.floats(0, 1), min_size=2, max_size=30).map(sorted))
def test_rates_never_rise_after_warm_up_however_unevenly_the_budget_goes(schedule: Schedule, progress: list[float]):
    warmup = schedule.warmup  # type: ignore[attr-defined]
    rates = [schedule.rate(warmup + 1 + step, used) for step, used in enumerate(progress)]
    assert all(later <= earlier * (1 + 1e-9) for earlier, later in pairwise(rates))


@given(RATES, st.integers(0, 500), st.integers(1, 2000), FLOORS)
def test_decay_ends_at_the_floor(lr: float, warmup: int, after: int, floor: float):
    for schedule in (Cosine(lr, warmup, floor), Linear(lr, warmup, floor)):
        assert schedule.rate(warmup + after, 1.0) == pytest.approx(lr * floor, abs=1e-12 * lr)


@given(schedules(), st.integers(600, 5000))
def test_neighbouring_steps_have_neighbouring_rates(schedule: Schedule, total: int):
    warmup, lr = schedule.warmup, schedule.lr  # type: ignore[attr-defined]
    rates = [schedule.rate(step, step / total) for step in range(1, total + 1)]
    steepest = max(1 / warmup, math.pi / 2 / (total - warmup))
    assert max(abs(a - b) for a, b in pairwise(rates)) <= lr * steepest * 1.001


@given(RATES, st.integers(0, 300), st.integers(1, 2000), FLOORS, st.data())
def test_a_budget_in_steps_gives_the_usual_formulas(
    lr: float, warmup: int, after: int, floor: float, data: st.DataObject
):
    total = warmup + after
    step = data.draw(st.integers(warmup + 1, total))
    done = (step - warmup) / (total - warmup)
    cosine = lr * (floor + (1 - floor) * 0.5 * (1 + math.cos(math.pi * done)))
    assert Cosine(lr, warmup, floor).rate(step, step / total) == pytest.approx(cosine, abs=1e-9 * lr)
    assert Linear(lr, warmup, floor).rate(step, step / total) == pytest.approx(
        lr * (1 - done + floor * done), abs=1e-9 * lr
    )


@given(st.integers(1, 2048), st.integers(1, 10_000), st.integers(1, 100_000), st.floats(0.1, 10))
def test_noam_by_width_is_the_papers(width: int, warmup: int, step: int, factor: float):
    schedule = NoamConfig(lr=factor, warmup=warmup, by_width=True).build(width)
    paper = width**-0.5 * min(step**-0.5, step * warmup**-1.5)
    assert schedule.rate(step, 0.5) == pytest.approx(factor * paper)


def test_the_papers_base_model():
    schedule = NoamConfig(lr=1, warmup=4000, by_width=True).build(width=512)
    assert schedule.rate(4000) == pytest.approx(6.9877e-4, rel=1e-4)
    assert schedule.rate(100_000) == pytest.approx(1.3975e-4, rel=1e-4)


@given(RATES, st.integers(1, 100), st.integers(2, 50))
def test_noam_falls_with_the_root(lr: float, warmup: int, factor: int):
    assert Noam(lr, warmup).rate(warmup * factor**2) == pytest.approx(lr / factor)


@given(RATES, st.integers(1, 1000), FLOORS, FLOORS)
def test_without_warm_up_decay_starts_at_once(lr: float, step: int, progress: float, floor: float):
    assume(progress > 0)
    assert Linear(lr, 0, floor).rate(step, progress) == pytest.approx(lr * (1 - (1 - floor) * progress))
    assert Constant(lr).rate(step, progress) == lr


@pytest.mark.parametrize(
    ("config", "built"),
    [
        (NoamConfig(lr=0.1, warmup=7), Noam(0.1, 7)),
        (CosineConfig(lr=0.1, warmup=7, floor=0.2), Cosine(0.1, 7, 0.2)),
        (LinearConfig(lr=0.1, warmup=7, floor=0.2), Linear(0.1, 7, 0.2)),
        (ConstantConfig(lr=0.1, warmup=7), Constant(0.1, 7)),
    ],
)
def test_configs_build_what_they_say_and_survive_the_recipe(config: Config, built: Schedule):
    class Holder(Config):
        schedule: ScheduleConfig

    assert config.build(width=64) == built  # type: ignore[attr-defined]
    assert Holder.from_tree(Holder(schedule=config).tree()).schedule == config  # type: ignore[arg-type]


def test_a_learning_rate_is_no_factor():
    with pytest.raises(
        ConfigError, match=r"lr: is a factor on the paper's formula when by_width is on, about 1; got 0.001"
    ):
        NoamConfig(by_width=True)


@pytest.mark.parametrize("settings", [{"lr": 0}, {"warmup": -1}, {"floor": 1.5}])
def test_impossible_settings_are_refused(settings: dict[str, float]):
    with pytest.raises(ConfigError):
        CosineConfig.from_tree(settings)
