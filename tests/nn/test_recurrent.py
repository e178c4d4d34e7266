"""Recurrent layers against the cells' equations, token by token, and against torch's own stacks with copied weights."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from recurrent_cells import read_by_hand
from torch import nn

from regard.errors import ConfigError
from regard.nn.layout import Layout
from regard.nn.recurrent import HiddenState, LayerSpec, RecurrentLayer, RecurrentStack, reverse_rows, row_lengths

CELLS = ["rnn", "gru", "lstm"]
DIRECTIONS = ["forward", "backward", "both"]
LENGTHS = st.lists(st.integers(1, 6), min_size=1, max_size=4)


def close(actual: torch.Tensor, expected: torch.Tensor, tolerance: float = 1e-5) -> None:
    torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance)


def made(
    cell: str = "lstm", direction: str = "forward", seed: int = 0, inputs: int = 3, width: int = 4
) -> RecurrentLayer:
    torch.manual_seed(seed)
    return RecurrentLayer(inputs, width, cell, direction)


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("direction", DIRECTIONS)
@given(lengths=LENGTHS, seed=st.integers(0, 99))
def test_equals_the_equations(cell: str, direction: str, lengths: list[int], seed: int):
    layer = made(cell, direction, seed)
    x = torch.randn(len(lengths), max(lengths) + 1, 3)
    y, hidden_state = layer(x, torch.tensor(lengths))
    for row, length in enumerate(lengths):
        expected, last = read_by_hand(layer, [*x[row, :length]])
        close(y[row, :length], torch.stack(expected))
        assert (y[row, length:] == 0).all()
        close(hidden_state.hidden[:, row], torch.stack([h for h, _ in last]))
        if cell == "lstm":
            close(hidden_state.cell[:, row], torch.stack([c for _, c in last]))
        else:
            assert hidden_state.cell is None


@pytest.mark.parametrize("cell", CELLS)
def test_goes_on_from_a_memory(cell: str):
    layer = made(cell)
    x = torch.randn(3, 7, 3)
    whole, at_the_end = layer(x)
    first, hidden_state = layer(x[:, :3])
    rest, hidden_state = layer(x[:, 3:], hidden_state=hidden_state)
    close(torch.cat([first, rest], 1), whole)
    close(hidden_state.hidden, at_the_end.hidden)


@pytest.mark.parametrize("cell", CELLS)
def test_rows_advance_by_their_own_lengths_and_those_without_a_token_stay_as_they_were(cell: str):
    layer = made(cell)
    x = torch.randn(4, 5, 3)
    _, before = layer(torch.randn(4, 2, 3))
    y, after = layer(x, torch.tensor([5, 0, 2, 1]), before)
    for row, length in enumerate([5, 0, 2, 1]):
        alone = before.reorder(torch.tensor([row]))
        expected = torch.zeros(1, 0, 4)
        if length:
            expected, alone = layer(x[row : row + 1, :length], hidden_state=alone)
        close(y[row : row + 1, :length], expected)
        assert (y[row, length:] == 0).all()
        close(after.hidden[:, row], alone.hidden[:, 0])
        if cell == "lstm":
            close(after.cell[:, row], alone.cell[:, 0])


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_padding_is_never_read(direction: str):
    layer = made(direction=direction)
    x = torch.randn(2, 5, 3, requires_grad=True)
    y, hidden_state = layer(x, torch.tensor([3, 5]))
    (slope,) = torch.autograd.grad(y.sum() + hidden_state.hidden.sum() + hidden_state.cell.sum(), x)
    assert (slope[0, 3:] == 0).all()
    assert (slope[0, :3] != 0).all()


def test_forward_sees_the_past_only_backward_the_future_only_both_everything():
    for direction, seen in [("forward", [0, 1, 2]), ("backward", [2, 3, 4]), ("both", [0, 1, 2, 3, 4])]:
        x = torch.randn(1, 5, 3, requires_grad=True)
        (slope,) = torch.autograd.grad(made(direction=direction)(x)[0][0, 2].sum(), x)
        assert [place for place in range(5) if slope[0, place].abs().max() > 0] == seen


@given(LENGTHS, st.integers(0, 99))
def test_mirrored_twice_is_the_same(lengths: list[int], seed: int):
    torch.manual_seed(seed)
    x, ends = torch.randn(len(lengths), max(lengths), 2), torch.tensor(lengths)
    once = reverse_rows(x, ends)
    for row, length in enumerate(lengths):
        assert torch.equal(once[row, :length], x[row, :length].flip(0))
    assert torch.equal(reverse_rows(once, ends), x)
    assert torch.equal(reverse_rows(x), reverse_rows(x, torch.full_like(ends, x.shape[1])))


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("both", [False, True])
def test_a_stack_equals_torchs_own_with_copied_weights(cell: str, both: bool):
    torch.manual_seed(0)
    theirs = {"rnn": nn.RNN, "gru": nn.GRU, "lstm": nn.LSTM}[cell](3, 4, 3, batch_first=True, bidirectional=both)
    direction, width = ("both", 8) if both else ("forward", 4)
    stack = RecurrentStack([RecurrentLayer(inputs, width, cell, direction) for inputs in (3, width, width)])
    with torch.no_grad():
        for number, layer in enumerate(stack.layers):
            for name, weight in layer.kernel.named_parameters():
                weight.copy_(theirs.get_parameter(name.replace("_l0", f"_l{number}")))
    x = torch.randn(2, 6, 3)
    y, hidden_states = stack(x)
    expected, state = theirs(x)
    close(y, expected)
    h = state[0] if cell == "lstm" else state
    close(torch.cat([hidden_state.hidden for hidden_state in hidden_states]), h)
    if cell == "lstm":
        close(torch.cat([hidden_state.cell for hidden_state in hidden_states]), state[1])


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_a_layer_is_counted_as_it_is_built(cell: str, direction: str):
    layer = LayerSpec(3, 4, cell, direction)
    built = layer.build()
    assert layer.num_params() == sum(weight.numel() for weight in built.parameters())
    matrices = sum(weight.numel() for name, weight in built.named_parameters() if "weight" in name)
    assert layer.flops(10) == 2 * 10 * matrices


def test_under_autocast_a_layer_keeps_its_own_format():
    layer = made()
    x = torch.randn(2, 5, 3)
    with torch.autocast("cpu", torch.bfloat16):
        y, hidden_state = layer(x.bfloat16(), torch.tensor([5, 2]))
    assert y.dtype == hidden_state.hidden.dtype == torch.float32
    close(y, layer(x.bfloat16().float(), torch.tensor([5, 2]))[0])
    assert layer.double()(x)[0].dtype == torch.float64


def test_memories_of_both_directions_side_by_side():
    layer = made(direction="both")
    _, hidden_state = layer(torch.randn(2, 5, 3))
    joined = hidden_state.concatenated()
    assert torch.equal(joined.hidden[0], torch.cat([hidden_state.hidden[0], hidden_state.hidden[1]], -1))
    assert torch.equal(joined.cell[0], torch.cat([hidden_state.cell[0], hidden_state.cell[1]], -1))
    assert HiddenState(hidden_state.hidden).concatenated().cell is None


def test_row_ends_are_none_where_nothing_is_padded():
    assert row_lengths(Layout.full(2, 3)) is None
    assert row_lengths(Layout.padded(torch.tensor([1, 3]), 3).to("cpu")).tolist() == [1, 3]


def test_an_odd_width_has_no_halves():
    with pytest.raises(ConfigError, match=r"model\.width: both directions have half of it each: .* got 5"):
        RecurrentLayer(3, 5, direction="both")


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("lengths", [None, [5, 2]])
def test_weights_between_memories_are_dropped_for_a_whole_row_while_training(
    cell: str, direction: str, lengths: list[int] | None
):
    layer, x = made(cell, direction), torch.randn(2, 5, 3)
    ends = None if lengths is None else torch.tensor(lengths)
    plain, _ = layer(x, ends)
    layer.drop = 0.5
    torch.manual_seed(7)
    dropped, _ = layer(x, ends)
    dropped.sum().backward()
    torch.manual_seed(7)
    between = {name: weight for name, weight in layer.kernel.named_parameters() if name.startswith("weight_hh")}
    for weight in between.values():
        gone = nn.functional.dropout(weight, 0.5) == 0
        assert gone.any()
        assert not gone.all()
        assert (weight.grad[gone] == 0).all()
        assert (weight.grad[~gone] != 0).any()
    torch.manual_seed(7)
    with torch.no_grad():
        for weight in between.values():
            weight.copy_(nn.functional.dropout(weight, 0.5))
    layer.drop = 0.0
    close(dropped, layer(x, ends)[0])
    assert not torch.allclose(dropped, plain)


def test_nothing_is_dropped_when_not_training():
    layer, x = made().eval(), torch.randn(2, 5, 3)
    plain, _ = layer(x)
    layer.drop = 0.9
    assert torch.equal(layer(x)[0], plain)
