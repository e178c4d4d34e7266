"""Properties of the functions that narrow a distribution, and of the best few with ties."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from regard.decode.constraints import stable_top_k
from regard.decode.sampling import (
    apply_temperature,
    keep_min_p,
    keep_top_k,
    keep_top_p,
    penalise_repeats,
    sample_tokens,
)

rounded = st.floats(-8, 8).map(lambda value: round(value, 1))  # coarse, so that ties are common
logits = st.integers(1, 12).flatmap(lambda vocab: arrays(np.float32, (3, vocab), elements=rounded))
distributions = logits.map(lambda values: torch.from_numpy(values).log_softmax(-1))
shares = st.floats(0.01, 0.999)


def kept(filtered):
    return filtered > -torch.inf


def check_distribution(before, after):
    """Sums to one, and orders what it keeps as before."""
    assert torch.allclose(after.exp().sum(-1), torch.ones(len(after)), atol=1e-5)
    assert kept(after).any(-1).all()
    for old, new in zip(before, after, strict=True):
        alive = kept(new)
        order = old[alive].sort(stable=True).indices
        assert (new[alive][order].diff() >= -1e-6).all()


def no_dropped_token_beats_a_kept_one(before, after):
    for old, new in zip(before, after, strict=True):
        alive = kept(new)
        if not alive.all():
            dropped, lowest = old[~alive], old[alive].min()
            assert dropped.max() <= lowest
            ties = torch.arange(len(old))[~alive & (old == lowest)]
            if len(ties):
                assert torch.arange(len(old))[alive & (old == lowest)].max() < ties.min()


@given(distributions, st.integers(1, 14))
def test_top_k_keeps_exactly_k(before, k):
    after = keep_top_k(before, k)
    check_distribution(before, after)
    no_dropped_token_beats_a_kept_one(before, after)
    assert (kept(after).sum(-1) == min(k, before.shape[-1])).all()


@given(distributions, shares)
def test_top_p_keeps_the_smallest_set_that_reaches_p(before, p):
    after = keep_top_p(before, p)
    check_distribution(before, after)
    no_dropped_token_beats_a_kept_one(before, after)
    for old, alive in zip(before.double().exp(), kept(after), strict=True):
        assert old[alive].sum() >= p - 1e-6
        if alive.sum() > 1:
            assert old[alive].sum() - old[alive].min() < p + 1e-6


def test_top_p_keeps_one_token_where_one_is_enough():
    before = torch.tensor([[0.9, 0.06, 0.04]]).log()
    assert kept(keep_top_p(before, 0.5)).tolist() == [[True, False, False]]
    assert kept(keep_top_p(before, 0.93)).tolist() == [[True, True, False]]
    assert kept(keep_top_p(before, 1.0)).tolist() == [[True, True, True]]


@given(distributions, st.floats(0.001, 1))
def test_min_p_keeps_what_is_likely_enough(before, p):
    after = keep_min_p(before, p)
    check_distribution(before, after)
    ratio = (before - before.amax(-1, keepdim=True)).double().exp()
    assert torch.equal(kept(after), ratio >= p)


@given(distributions, st.floats(0.05, 20))
def test_temperature_is_a_power(before, temperature):
    after = apply_temperature(before, temperature)
    check_distribution(before, after)
    powers = before.double().exp() ** (1 / temperature)
    assert torch.allclose(after.double().exp(), powers / powers.sum(-1, keepdim=True), atol=1e-5)


@given(distributions, st.sampled_from([1e-3, 1e-10, 1e-40]), st.floats(1e-6, 0.999))
def test_temperature_near_zero_is_greedy(before, temperature, uniform):
    after = apply_temperature(before, temperature)
    best = before.amax(-1)
    drawn = sample_tokens(after, torch.full((3,), uniform))
    assert torch.equal(before.gather(1, drawn[:, None])[:, 0], best)


@given(distributions, st.floats(1, 3), st.data())
def test_repeats_become_rarer(before, penalty, data):
    seen = torch.tensor(data.draw(st.lists(st.booleans(), min_size=before.shape[1], max_size=before.shape[1])))
    after = penalise_repeats(before, seen.expand_as(before), penalty)
    assert torch.allclose(after.exp().sum(-1), torch.ones(3), atol=1e-5)
    if seen.any() and not seen.all():
        assert (after[:, seen].exp().sum(-1) <= before[:, seen].exp().sum(-1) + 1e-6).all()
        gaps = after[:, ~seen] - before[:, ~seen]
        assert torch.allclose(gaps, gaps[:, :1].expand_as(gaps), atol=1e-4)


@given(distributions, st.floats(0, 1, exclude_max=True), st.integers(1, 3))
def test_draw_inverts_the_cumulative_distribution(before, uniform, k):
    narrowed = keep_top_k(before, k)
    drawn = sample_tokens(narrowed, torch.full((3,), uniform, dtype=torch.float64)).tolist()
    for row, token in zip(narrowed.double().exp().numpy(), drawn, strict=True):
        reached = np.cumsum(row) / row.sum()
        assert row[token] > 0
        assert reached[token] > uniform - 1e-9
        assert token == 0 or reached[token - 1] <= uniform + 1e-9


@given(logits, st.integers(1, 12))
def test_top_breaks_ties_by_place(values, count):
    scores = torch.from_numpy(-np.abs(values))
    scores[:, 0] = -torch.inf
    count = min(count, scores.shape[1])
    best, places = stable_top_k(scores, count)
    for row, found, where in zip(scores.tolist(), best.tolist(), places.tolist(), strict=True):
        expected = sorted(range(len(row)), key=lambda place: (-row[place], place))[:count]
        assert where == expected
        assert found == [row[place] for place in expected]


def test_top_sees_the_smallest_differences():
    near = torch.tensor([-5.0]).nextafter(torch.tensor(-6.0)).item()
    assert stable_top_k(torch.tensor([[near, -5.0, -5.0, near]]), 4)[1].tolist() == [[1, 2, 0, 3]]


@pytest.mark.parametrize("k", [1, 3])
def test_top_of_one_is_argmax_on_large_rows(k):
    scores = -torch.randint(0, 50, (20, 30_000)).float()
    assert torch.equal(stable_top_k(scores, k)[1][:, 0], scores.argmax(-1))
