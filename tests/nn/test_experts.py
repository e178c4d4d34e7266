"""Mixture of experts: against a loop over tokens and experts, with and without capacity, and the loss of balance."""

import math

import pytest
import torch
from attention_cases import assert_close
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from regard.errors import ConfigError
from regard.nn.experts import (
    Experts,
    ExpertsConfig,
    balance_loss,
    expected_load,
    gate_sums,
    grouped_matmul,
    load_balance,
    squared_variation,
)

SIZES = st.sampled_from([(4, 8), (8, 4), (3, 5), (1, 1), (4, 6)])  # some that the grouped kernel takes, some not


def make(width: int, hidden: int, experts: int, chosen: int, seed: int, **more) -> Experts:
    torch.manual_seed(seed)
    part = Experts(width, hidden, experts, chosen, **more)
    for parameter in part.parameters():
        nn.init.normal_(parameter)
    return part


def by_loop(part: Experts, x: Tensor, kept: Tensor | None = None) -> Tensor:
    """Each token through each of its experts, one at a time; `kept` says which choices count."""
    tokens = x.flatten(0, 1)
    rows = []
    for number, token in enumerate(tokens):
        scores = part.router.weight @ token
        best = scores.topk(part.chosen)
        y = torch.zeros_like(token)
        for choice, (gate, expert) in enumerate(zip(best.values.softmax(0), best.indices, strict=True)):
            if kept is None or kept[number, choice]:
                y = y + gate * (part.down[expert].T @ torch.relu(part.up[expert].T @ token))
        rows.append(y)
    return torch.stack(rows).view_as(x)


@given(SIZES, st.integers(1, 5), st.integers(1, 3), st.integers(1, 6), st.integers(0, 999))
@settings(max_examples=40)
def test_equals_a_loop_over_experts(sizes, experts: int, chosen: int, time: int, seed: int):
    part = make(*sizes, experts, min(chosen, experts), seed)
    x = torch.randn(2, time, sizes[0], requires_grad=True)
    fast, slow = part(x), by_loop(part, x)
    assert_close(fast, slow, 1e-4)
    learned = [x, *part.parameters()]
    got = torch.autograd.grad(fast.square().sum(), learned)
    wanted = torch.autograd.grad(slow.square().sum(), learned)
    for one, other in zip(got, wanted, strict=True):
        assert_close(one, other, 1e-4)


@pytest.mark.parametrize("sizes", [(4, 8), (3, 5)])
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_other_precisions(sizes, dtype: torch.dtype):
    part = make(*sizes, 4, 2, 0).to(dtype)
    x = torch.randn(2, 5, sizes[0]).to(dtype)
    y = part(x)
    assert y.dtype == dtype
    exact = part.to(torch.float64)
    tolerance = 1e-5 if dtype == torch.float64 else 0.05
    assert_close(y.double(), by_loop(exact, x.double()), tolerance)
    y.float().square().sum().backward()


@given(SIZES, st.lists(st.integers(0, 4), min_size=1, max_size=5), st.integers(0, 99))
def test_a_grouped_product_is_a_product_for_each_group(sizes, counts: list[int], seed: int):
    torch.manual_seed(seed)
    rows, matrices = torch.randn(sum(counts), sizes[0]), torch.randn(len(counts), *sizes)
    ends = torch.tensor(counts).cumsum(0).int()
    start, expected = 0, []
    for count, matrix in zip(counts, matrices, strict=True):
        expected.append(rows[start : start + count] @ matrix)
        start += count
    assert_close(grouped_matmul(rows, matrices, ends), torch.cat(expected), 1e-5)


@given(st.integers(1, 6), st.integers(1, 6), st.integers(1, 12), st.integers(0, 99))
def test_gates_of_the_chosen_sum_to_one(experts: int, chosen: int, tokens: int, seed: int):
    chosen = min(chosen, experts)
    part = make(3, 5, experts, chosen, seed)
    x = torch.randn(tokens, 3)
    gates, expert = part.route(x, torch.ones(tokens, dtype=torch.bool))
    assert_close(gates.sum(-1), torch.ones(tokens), 1e-6)
    assert (gates > 0).all()
    assert all(len(set(row)) == chosen for row in expert.tolist()), "an expert is chosen once"
    scores = part.router(x)
    for row in range(tokens):
        left_out = [scores[row, e].item() for e in range(experts) if e not in expert[row].tolist()]
        assert not left_out or max(left_out) <= scores[row, expert[row]].min().item() + 1e-6


def kept_by_hand(expert: list[list[int]], real: list[bool], limit: int) -> list[list[bool]]:
    """First choices of all tokens in order, then second ones, each as long as its expert has room."""
    room: dict[int, int] = {}
    kept = [[False] * len(row) for row in expert]
    for choice in range(len(expert[0])):
        for token, row in enumerate(expert):
            if real[token] and room.setdefault(row[choice], limit) > 0:
                room[row[choice]] -= 1
                kept[token][choice] = True
    return kept


@given(
    st.integers(2, 5),
    st.integers(1, 2),
    st.lists(st.integers(1, 6), min_size=1, max_size=3),
    st.sampled_from([0.25, 0.5, 1.0, 1.5, 99.0]),
    st.integers(0, 99),
)
@settings(max_examples=40)
def test_capacity_passes_by_exactly_what_finds_no_room(experts, chosen, lengths, capacity, seed):
    part = make(3, 5, experts, chosen, seed, capacity=capacity)
    time = max(lengths) + 1
    x = torch.randn(len(lengths), time, 3)
    valid = torch.arange(time) < torch.tensor(lengths)[:, None]
    y = part(x, valid)
    _, expert = part.route(x.flatten(0, 1), valid.flatten())
    limit = math.ceil(capacity * sum(lengths) * chosen / experts)
    kept = torch.tensor(kept_by_hand(expert.tolist(), valid.flatten().tolist(), limit))
    assert part.dropped_choices is not None
    assert int(part.dropped_choices) == sum(lengths) * chosen - int(kept.sum())
    assert_close(y[valid], by_loop(part, x, kept)[valid], 1e-5)
    if capacity == 99.0:
        assert int(part.dropped_choices) == 0


def test_without_capacity_or_outside_training_no_token_is_lost():
    part = make(3, 5, 4, 2, 0, capacity=0.1)
    x = torch.randn(2, 6, 3)
    trained = part(x)
    assert int(part.dropped_choices) > 0
    assert not torch.allclose(trained, by_loop(part, x))
    assert_close(part.eval()(x), by_loop(part, x), 1e-5)
    free = make(3, 5, 4, 2, 0)
    assert_close(free(x), by_loop(free, x), 1e-5)
    assert free.dropped_choices is None


@pytest.mark.parametrize("capacity", [None, 0.5])
def test_padding_counts_for_nothing(capacity: float | None):
    part = make(3, 5, 4, 2, 1, capacity=capacity)
    x = torch.randn(2, 5, 3)
    alone = part(x)
    assert part.balance_loss is not None
    loss, dropped_choices = part.balance_loss.item(), part.dropped_choices
    wider = torch.cat([x, torch.randn(2, 7, 3)], 1)
    padded = part(wider, torch.arange(12).expand(2, 12) < 5)
    assert_close(padded[:, :5], alone, 1e-5)
    assert part.balance_loss.item() == pytest.approx(loss)
    assert part.dropped_choices == dropped_choices


def test_a_grid_of_padding_alone_is_no_trouble():
    part = make(3, 5, 4, 2, 1, capacity=1.0)
    part(torch.randn(1, 2, 3), torch.zeros(1, 2, dtype=torch.bool))
    assert part.balance_loss is not None
    assert part.balance_loss.item() == 0


@pytest.mark.parametrize("experts", [2, 4, 8])
def test_balance_is_one_when_even_and_larger_when_not(experts: int):
    real = torch.ones(2 * experts, dtype=torch.bool)
    even = (torch.eye(experts).repeat(2, 1) * 50).requires_grad_()
    assert load_balance(even, even.topk(1).indices, real).item() == pytest.approx(1.0)
    one_sided = torch.zeros(2 * experts, experts).index_fill(1, torch.tensor([0]), 50.0)
    assert load_balance(one_sided, one_sided.topk(1).indices, real).item() == pytest.approx(experts)


@given(st.integers(0, 99))
def test_the_gradient_of_balance_pushes_towards_even(seed: int):
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(200, 4, generator=generator) + torch.tensor([2.0, 0.0, 0.0, 0.0])
    scores.requires_grad_()
    real = torch.ones(200, dtype=torch.bool)
    before = load_balance(scores, scores.topk(2).indices, real)
    (slope,) = torch.autograd.grad(before, scores)
    assert before > 1
    assert slope[:, 0].mean() > 0, "less of the one used most"
    after = scores.detach() - 100 * slope
    assert load_balance(after, after.topk(2).indices, real) < before


def test_the_loss_of_balance_is_weighed_and_summed_over_a_model():
    layers = nn.ModuleList([make(3, 5, 4, 2, seed, balance=0.5) for seed in (0, 1)])
    assert balance_loss(layers) is None
    x = torch.randn(2, 5, 3)
    for layer in layers:
        layer(x)
    expected = 0.0
    for layer in layers:
        scores = layer.router(x.flatten(0, 1))
        expected += 0.5 * load_balance(scores, scores.topk(2).indices, torch.ones(10, dtype=torch.bool)).item()
    total = balance_loss(layers)
    assert total is not None
    assert total.item() == pytest.approx(expected, rel=1e-5)
    assert balance_loss(nn.Linear(2, 2)) is None


def test_noise_acts_while_training_only():
    torch.manual_seed(0)
    part = Experts(4, 8, 6, 2, noise=True)
    x = torch.randn(2, 5, 4)
    assert not torch.equal(part(x), part(x))
    part.eval()
    assert torch.equal(part(x), part(x))
    assert_close(part(x), by_loop(part, x), 1e-5)


@given(st.integers(2, 5), st.integers(1, 4), st.integers(1, 6), st.integers(0, 99))
def test_importance_and_load_by_hand(experts: int, chosen: int, tokens: int, seed: int):
    """Shazeer 2017, equations 6 to 11, one token and one expert at a time."""
    chosen = min(chosen, experts)
    torch.manual_seed(seed)
    clean, deviation = torch.randn(tokens, experts), torch.rand(tokens, experts) + 0.1
    noisy = clean + torch.randn(tokens, experts) * deviation
    real = torch.rand(tokens) < 0.8
    importance, load = [0.0] * experts, [0.0] * experts
    best = noisy.topk(chosen)
    for token in [place for place in range(tokens) if real[place]]:
        for gate, expert in zip(best.values[token].softmax(0).tolist(), best.indices[token].tolist(), strict=True):
            importance[expert] += gate
        for expert in range(experts):
            others = sorted((noisy[token, e].item() for e in range(experts) if e != expert), reverse=True)
            if chosen == experts:
                load[expert] += 1
                continue
            z = (clean[token, expert].item() - others[chosen - 1]) / deviation[token, expert].item()
            load[expert] += 0.5 * (1 + math.erf(z / math.sqrt(2)))
    gates = best.values.softmax(-1)
    assert_close(gate_sums(gates, best.indices, experts, real), torch.tensor(importance), 1e-4)
    assert_close(expected_load(clean, noisy, deviation, chosen, real), torch.tensor(load), 1e-4)


def test_expected_load_is_what_noise_does_on_average():
    """Drawn again and again, an expert's noise chooses it about as often as expected."""
    torch.manual_seed(0)
    clean, deviation = torch.randn(1, 4), torch.rand(1, 4) + 0.5
    noisy = clean + torch.randn(1, 4) * deviation
    real = torch.ones(1, dtype=torch.bool)
    expected = expected_load(clean, noisy, deviation, 2, real)
    for expert in range(4):
        again = noisy.repeat(20_000, 1)
        again[:, expert] = clean[0, expert] + torch.randn(20_000) * deviation[0, expert]
        often = (again.topk(2).indices == expert).any(-1).float().mean()
        assert often.item() == pytest.approx(expected[expert].item(), abs=0.02)


@given(st.lists(st.floats(0.1, 9.0), min_size=1, max_size=6), st.floats(0.1, 9.0))
def test_variation_is_zero_when_even_and_knows_no_scale(loads: list[float], factor: float):
    x = torch.tensor(loads)
    mean = sum(loads) / len(loads)
    expected = sum((load - mean) ** 2 for load in loads) / len(loads) / mean**2
    assert squared_variation(x).item() == pytest.approx(expected, abs=1e-5)
    assert squared_variation(x * factor).item() == pytest.approx(expected, abs=1e-5)
    assert squared_variation(torch.full((4,), factor)).item() == pytest.approx(0.0, abs=1e-9)


def test_noisy_gating_comes_into_balance():
    """Training on the two losses alone, from a start at which every token likes the first experts."""
    torch.manual_seed(0)
    part = Experts(4, 8, 6, 2, balance=0.0, noise=True, importance=0.1, load=0.1)
    with torch.no_grad():
        part.router.weight[:2, 0] = 3.0
    x = torch.randn(4, 20, 4)
    x[..., 0] = 1.0

    def shares() -> Tensor:
        expert = part.route(x.flatten(0, 1), torch.ones(80, dtype=torch.bool))[1]
        return torch.bincount(expert.flatten(), minlength=6) / 160

    optimiser, losses = torch.optim.Adam([part.router.weight, part.noise.weight], lr=0.05), []
    assert shares()[:2].sum() > 0.8
    for _ in range(80):
        part(x)
        optimiser.zero_grad()
        part.balance_loss.backward()
        optimiser.step()
        losses.append(part.balance_loss.item())
    assert sum(losses[-5:]) < 0.2 * sum(losses[:5])
    assert shares().max() < 0.3


def test_padding_counts_for_nothing_in_importance_and_load():
    part = make(3, 5, 4, 2, 1, balance=0.0, noise=True, importance=0.1, load=0.1)
    valid = torch.tensor([[True] * 5, [True, False, False, False, False]])
    x, losses = torch.randn(2, 5, 3), []
    for place in (0, 1):  # what changes is first a token, then padding
        for value in (0.0, 9.0):
            torch.manual_seed(0)
            part(x.index_put((torch.tensor(1), torch.tensor(place)), torch.tensor(value)), valid)
            losses.append(part.balance_loss.item())
    assert losses[0] != losses[1]
    assert losses[2] == losses[3]


def grouped_flops(rows, matrices, *_, **__) -> int:
    """What torch's counter does not know yet."""
    return 2 * rows[0] * rows[1] * matrices[-1]


@pytest.mark.parametrize("config", [ExpertsConfig(), ExpertsConfig(experts=3, chosen=1, hidden=4, noise=True)])
def test_config_counts_what_the_built_part_has_and_costs(config: ExpertsConfig):
    part = config.build(8).eval()
    assert config.num_params(8) == sum(p.numel() for p in part.parameters())
    with FlopCounterMode(display=False, custom_mapping={torch.ops.aten._grouped_mm: grouped_flops}) as counted:
        part(torch.randn(2, 5, 8))
    assert counted.get_total_flops() == config.flops(8, tokens=10)


@pytest.mark.parametrize(
    ("ask", "sentence"),
    [
        (lambda: ExpertsConfig(experts=2, chosen=3), "chosen: expected at most experts = 2, got 3"),
        (lambda: ExpertsConfig(chosen=0), "chosen: expected greater than 0, got 0"),
        (lambda: ExpertsConfig(capacity=0), "capacity: expected greater than 0, got 0"),
        (lambda: Experts(4, 8, 2, 3), "model.feedforward.chosen: expected at most experts = 2, got 3"),
        (
            lambda: ExpertsConfig(load=0.1),
            "load: what an expert is expected to get is known only under noise; set noise",
        ),
        (lambda: Experts(4, 8, 2, 1, load=0.1), "model.feedforward.load: what an expert is expected to get"),
    ],
)
def test_what_cannot_be_is_refused(ask, sentence: str):
    with pytest.raises(ConfigError) as refused:
        ask()
    assert str(refused.value).startswith(sentence)
