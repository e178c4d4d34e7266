"""Power laws: planted exponents are found again, intervals cover, the front is optimal."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.compare.laws import fit, front
from regard.errors import DataError

SIZES = np.geomspace(1e4, 1e7, 7)


@given(floor=st.floats(0.1, 3), share=st.floats(0.3, 3), exponent=st.floats(0.1, 0.9))
def test_a_planted_law_is_found(floor: float, share: float, exponent: float):
    factor = share * floor * SIZES[0] ** exponent
    law = fit([[size] for size in SIZES], floor + factor * SIZES**-exponent, samples=5)
    assert law.exponents[0] == pytest.approx(exponent, rel=1e-3)
    assert law.floor == pytest.approx(floor, rel=1e-2)
    assert law.factors[0] == pytest.approx(factor, rel=2e-2)
    assert law(2e7) == pytest.approx(floor + factor * 2e7**-exponent, rel=1e-4)


@given(alpha=st.floats(0.2, 0.8), beta=st.floats(0.2, 0.8))
def test_a_planted_law_of_two_is_found(alpha: float, beta: float):
    points = [[n, d] for n in np.geomspace(1e4, 1e6, 5) for d in np.geomspace(1e5, 1e7, 5)]
    losses = [1.0 + 1e4**alpha * n**-alpha + 0.7 * 1e5**beta * d**-beta for n, d in points]
    law = fit(points, losses, samples=5)
    assert law.exponents == pytest.approx((alpha, beta), rel=1e-2)
    assert law(3e6, 3e7) == pytest.approx(1 + 1e4**alpha * 3e6**-alpha + 0.7 * 1e5**beta * 3e7**-beta, rel=1e-3)


def test_no_floor_is_found_as_well():
    law = fit([[size] for size in SIZES], 5 * SIZES**-0.2, samples=5)
    assert law.exponents[0] == pytest.approx(0.2, rel=1e-2)


def test_intervals_cover_the_truth_about_as_often_as_they_say():
    covered = forecast = 0
    for seed in range(25):
        noise = np.exp(np.random.default_rng(seed).normal(0, 0.01, len(SIZES) + 1))
        truth = 1 + 40 * np.array([*SIZES, 3e7]) ** -0.35
        law = fit([[size] for size in SIZES], truth[:-1] * noise[:-1], samples=60)
        low, high = law.exponent_interval()
        covered += low <= 0.35 <= high
        low, high = law.forecast_interval(3e7)
        forecast += low <= truth[-1] * noise[-1] <= high
    assert covered >= 21
    assert forecast >= 21


def test_too_few_runs_are_refused():
    with pytest.raises(DataError, match="at least 4 runs"):
        fit([[1.0], [2.0]], [3.0, 2.0])
    with pytest.raises(DataError, match="3 different sizes"):
        fit([[1.0], [2.0], [1.0], [2.0]], [3.0, 2.0, 3.0, 2.0])
    with pytest.raises(DataError, match="finite and above zero"):
        fit([[1.0], [2.0], [3.0], [4.0]], [3.0, float("nan"), 1.0, 1.0])


@given(st.lists(st.tuples(st.floats(1, 1e6), st.floats(0.1, 9)), min_size=1, max_size=30))
def test_the_front_holds_exactly_the_runs_that_nothing_cheaper_beats(runs: list[tuple[float, float]]):
    compute, losses = [flops for flops, _ in runs], [loss for _, loss in runs]
    chosen = front(compute, losses)
    best = [losses[number] for number in chosen]
    assert best == sorted(best, reverse=True)
    for flops, loss in runs:
        assert any(compute[number] <= flops and losses[number] <= loss for number in chosen)
