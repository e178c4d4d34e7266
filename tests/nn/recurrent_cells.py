"""The recurrent cells as equations, one token at a time: what the tests hold the fused kernels to."""

import torch
from torch import Tensor

from regard.nn.recurrent import RecurrentLayer

State = tuple[Tensor, Tensor]


def next_state(layer: RecurrentLayer, x: Tensor, state: State, suffix: str = "") -> State:
    """h and c after one token; c is zero where the cell has none."""
    kernel, (h, c) = layer.kernel, state
    from_input = kernel.get_parameter(f"weight_ih_l0{suffix}") @ x + kernel.get_parameter(f"bias_ih_l0{suffix}")
    from_memory = kernel.get_parameter(f"weight_hh_l0{suffix}") @ h + kernel.get_parameter(f"bias_hh_l0{suffix}")
    if layer.cell == "rnn":
        return torch.tanh(from_input + from_memory), c
    if layer.cell == "gru":
        (r_x, z_x, n_x), (r_h, z_h, n_h) = from_input.chunk(3), from_memory.chunk(3)
        r, z = torch.sigmoid(r_x + r_h), torch.sigmoid(z_x + z_h)
        n = torch.tanh(n_x + r * n_h)
        return (1 - z) * n + z * h, c
    i, f, g, o = (from_input + from_memory).chunk(4)
    c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(c), c


def read_by_hand(
    layer: RecurrentLayer, xs: list[Tensor], start: list[State] | None = None
) -> tuple[list[Tensor], list[State]]:
    """One row through a layer in its direction: the vector at each token, and the last state of each direction."""
    ways = {"forward": ["forward"], "backward": ["backward"], "both": ["forward", "backward"]}[layer.direction]
    size = layer.kernel.hidden_size
    found, last = [], []
    for number, way in enumerate(ways):
        state = start[number] if start else (torch.zeros(size), torch.zeros(size))
        outputs = []
        for x in xs if way == "forward" else reversed(xs):
            state = next_state(layer, x, state, "_reverse" if layer.direction == "both" and way == "backward" else "")
            outputs.append(state[0])
        found.append(outputs if way == "forward" else outputs[::-1])
        last.append(state)
    return [torch.cat(vectors) for vectors in zip(*found, strict=True)], last
