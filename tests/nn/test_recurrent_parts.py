"""What stands around recurrent layers: residuals, contexts and experts of a stack, dropout, initialisation."""

import pytest
import torch
from torch import nn

from regard.nn.dropout import LockedDropout, RecurrentDropoutSettings
from regard.nn.experts import Experts
from regard.nn.initialise import OrthogonalConfig, UniformConfig
from regard.nn.recurrent import RecurrentLayer, RecurrentStack


def close(actual: torch.Tensor, expected: torch.Tensor, tolerance: float = 1e-6) -> None:
    torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance)


def layers(count: int, inputs: int = 4, width: int = 4) -> list[RecurrentLayer]:
    torch.manual_seed(0)
    return [RecurrentLayer(inputs, width) for _ in range(count)]


def test_residuals_begin_where_they_are_told():
    parts = layers(3)
    x = torch.randn(2, 5, 4)
    y, _ = RecurrentStack(parts, residual_from=1)(x)
    first = parts[0](x)[0]
    second = first + parts[1](first)[0]
    close(y, second + parts[2](second)[0])


def test_a_context_stands_beside_every_input():
    parts = layers(2, inputs=6)
    x, context = torch.randn(2, 5, 4), torch.randn(2, 5, 2)
    y, _ = RecurrentStack(parts)(x, context=context)
    first = parts[0](torch.cat([x, context], -1))[0]
    close(y, parts[1](torch.cat([first, context], -1))[0])


@pytest.mark.parametrize("count", [1, 2, 3])
def test_experts_stand_below_the_top_layer(count: int):
    parts, experts = layers(count), Experts(4, 8, 3).eval()
    x = torch.randn(2, 5, 4)
    y, _ = RecurrentStack(parts, experts=experts)(x)
    for layer in parts[:-1]:
        x = layer(x)[0]
    close(y, parts[-1](x + torch.sigmoid(experts(x)))[0])


def test_padding_counts_for_nothing_in_the_balance_of_experts():
    experts = Experts(4, 8, 3)
    stack = RecurrentStack(layers(2), experts=experts)
    x = torch.randn(2, 5, 4)
    stack(x[:, :3])
    alone = experts.balance_loss.item()
    stack(x, valid=torch.arange(5).expand(2, 5) < 3)
    assert experts.balance_loss.item() == pytest.approx(alone)


@pytest.mark.parametrize("locked", [True, False])
def test_dropout_keeps_the_mean_and_acts_while_training_only(locked: bool):
    torch.manual_seed(0)
    drop, x = LockedDropout(0.3, locked), torch.ones(50, 20, 30)
    y = drop(x)
    assert sorted(y.unique().tolist()) == pytest.approx([0.0, 1 / 0.7])
    assert y.mean() == pytest.approx(1.0, abs=0.05)
    rows = [len({tuple(token) for token in row}) for row in (y[:5] != 0).tolist()]
    assert all(kinds == 1 for kinds in rows) if locked else all(kinds > 1 for kinds in rows)
    assert len({tuple(row[0]) for row in (y != 0).tolist()}) > 40, "each row drops its own numbers"
    assert torch.equal(drop.eval()(x), x)


def test_a_stack_drops_between_layers_and_nowhere_else():
    torch.manual_seed(0)
    x = torch.randn(2, 5, 4)
    one = RecurrentStack(layers(1), dropout=0.9)
    assert torch.equal(one(x)[0], one.eval()(x)[0])
    two = RecurrentStack(layers(2), dropout=0.9)
    assert not torch.equal(two(x)[0], two(x)[0])


def test_inputs_lose_words_and_numbers():
    torch.manual_seed(0)
    x = torch.ones(20, 20, 8)
    words = RecurrentDropoutSettings(word=0.5).on_inputs()(x)
    assert set(words.sum(-1).unique().tolist()) == {0.0, 8.0}
    numbers = RecurrentDropoutSettings(embedding=0.5).on_inputs()(x)
    assert set(numbers.unique().tolist()) == {0.0, 2.0}


class Small(nn.Module):
    """One of everything that is drawn."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.map = nn.Embedding(9, 8), nn.Linear(8, 8)
        self.layers = nn.ModuleList(
            [RecurrentLayer(8, 8, "lstm", "both"), RecurrentLayer(8, 8, "gru"), RecurrentLayer(8, 8, "rnn")]
        )
        self.experts, self.noisy = Experts(8, 4, 3), Experts(8, 4, 3, noise=True)


def test_orthogonal_gates_and_a_forget_bias_of_one():
    model = Small()
    OrthogonalConfig().apply(model, 1)
    for layer in model.layers:
        size = layer.kernel.hidden_size
        for name, weight in layer.kernel.named_parameters():
            for number, gate in enumerate(weight.split(size)):
                if "weight_hh" in name:
                    close(gate @ gate.T, torch.eye(size), 1e-5)
                elif "weight_ih" in name:
                    assert gate.abs().max() <= (6 / (8 + size)) ** 0.5
                else:
                    forget = layer.cell == "lstm" and number == 1 and "bias_ih" in name
                    assert (gate == (1.0 if forget else 0.0)).all()


def test_uniform_stays_within_reach():
    torch.manual_seed(0)
    model = Small()
    UniformConfig(reach=0.05, forget=0.5).apply(model, 1)
    for name, weight in model.named_parameters():
        if name in ("noisy.router.weight", "noisy.noise.weight"):
            assert (weight == 0).all()
            continue
        inside = weight.abs() <= 0.05
        if name.startswith("layers.0.kernel.bias"):
            gates = weight.split(4)
            assert (gates[1] == (0.5 if "bias_ih" in name else 0.0)).all()
            inside = torch.cat([gates[0], *gates[2:]]).abs() <= 0.05
        assert inside.all(), name
        assert weight.std() > 0.01


@pytest.mark.parametrize("scheme", [OrthogonalConfig(), UniformConfig()])
def test_noisy_routers_start_even(scheme):
    model = Small()
    scheme.apply(model, 1)
    assert (model.noisy.router.weight == 0).all()
    assert (model.noisy.noise.weight == 0).all()
    assert (model.experts.router.weight != 0).any()
