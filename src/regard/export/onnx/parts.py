"""The parts of a model in the form that can be traced: recurrent layers as ONNX operators, experts without sorting."""

import copy
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from regard.export.onnx.attention import rewrite_attention
from regard.models.convolutional.convs2s import GatedInputs
from regard.models.stack import Stack
from regard.nn.convolution import Convolution
from regard.nn.experts import Experts
from regard.nn.layout import PADDING, Layout
from regard.nn.recurrent import HiddenState, RecurrentLayer

GATE_ORDER: dict[str, tuple[int, ...]] = {"rnn": (0,), "gru": (1, 0, 2), "lstm": (0, 3, 1, 2)}
"""Which of torch's gates stands where in ONNX: of an LSTM i, o, f, c, where torch has i, f, c, o."""
DIRECTIONS = {"forward": "forward", "backward": "reverse", "both": "bidirectional"}


def for_graph(model: nn.Module, room: int) -> Any:  # noqa: ANN401
    """A copy of a model whose parts can all be traced."""
    twin = copy.deepcopy(model).float().cpu().eval()
    for part in list(twin.modules()):
        for name, child in list(part.named_children()):
            if isinstance(child, RecurrentLayer):
                part._modules[name] = GraphRecurrence(child)
        rewrite_attention(part, room)
        for kind, rewrite in REWRITES.items():
            if isinstance(part, kind):
                rewrite(part)
    return twin


class GraphRecurrence(RecurrentLayer):
    """One recurrent layer as the operator that ONNX has for it; lengths say where rows end, as packing does here."""

    def __init__(self, layer: RecurrentLayer) -> None:
        nn.Module.__init__(self)
        self.inputs, self.width, self.cell, self.direction = layer.inputs, layer.width, layer.cell, layer.direction
        self.kernel = layer.kernel
        self.order = GATE_ORDER[layer.cell]
        self.maps: Tensor
        self.recurrent: Tensor
        self.biases: Tensor
        self.register_buffer("maps", self._sides("weight_ih_l0"))
        self.register_buffer("recurrent", self._sides("weight_hh_l0"))
        self.register_buffer("biases", torch.cat([self._sides("bias_ih_l0"), self._sides("bias_hh_l0")], 1))

    def _sides(self, name: str) -> Tensor:
        """A weight of each direction, its gates in the operator's order."""
        names = [name, f"{name}_reverse"] if self.kernel.bidirectional else [name]
        gates = [self.kernel.get_parameter(one).detach().split(self.kernel.hidden_size) for one in names]
        return torch.stack([torch.cat([side[gate] for gate in self.order]) for side in gates])

    def forward(
        self, x: Tensor, lengths: Tensor | None = None, hidden_state: HiddenState | None = None
    ) -> tuple[Tensor, HiddenState]:
        """The vectors at all places, and the memory after each row's last token."""
        time, rows, sides, width = x.shape[1], x.shape[0], len(self.maps), self.kernel.hidden_size
        given = [x.transpose(0, 1), self.maps, self.recurrent, self.biases]
        given += [None if lengths is None else lengths.int(), None if hidden_state is None else hidden_state.hidden]
        settings: dict[str, Any] = {"hidden_size": width, "direction": DIRECTIONS[self.direction]}
        shapes: list[list[Any]] = [[time, sides, rows, width], [sides, rows, width]]
        if self.cell == "lstm":
            given.append(None if hidden_state is None else hidden_state.cell)
            shapes.append([sides, rows, width])
        if self.cell == "gru":
            settings["linear_before_reset"] = 1
        types = [torch.float32] * len(shapes)
        y, *state = torch.onnx.ops.symbolic_multi_out(self.cell.upper(), given, settings, dtypes=types, shapes=shapes)
        return y.permute(2, 0, 1, 3).flatten(2), HiddenState(*state)


def all_experts(part: Experts, x: Tensor, valid: Tensor | None = None) -> Tensor:
    """Every token through every expert; the gates of those that were not chosen are zero."""
    best, expert = part.router(x).topk(part.chosen, dim=-1)
    gates = torch.zeros_like(part.router(x)).scatter(-1, expert, best.softmax(-1))
    if valid is not None:
        gates = gates * valid[..., None]
    said = torch.relu(x[:, None] @ part.up) @ part.down
    return (said * gates.transpose(1, 2)[..., None]).sum(1)


def side_by_side(part: Convolution, seen: Tensor, time: Any) -> Tensor:  # noqa: ANN401
    """The vectors of each window, whatever the number of windows."""
    starts = range(0, part.reach + 1, part.dilation)
    return torch.cat([seen[:, start : start + time] for start in starts], dim=-1)


def lift_added(part: Stack) -> None:
    """Added tokens are put in front by whoever calls the stack: a stack itself counts rows in Python."""
    part.lifted, part.added = part.added, None  # type: ignore[assignment]


def _experts(part: Any) -> None:  # noqa: ANN401
    part.forward = partial(all_experts, part)


def _convolution(part: Any) -> None:  # noqa: ANN401
    part._side_by_side = partial(side_by_side, part)


def _inputs(part: Any) -> None:  # noqa: ANN401
    part.expect_room = lambda length: None  # sizes are symbols, and the graph's own limits say how far it reaches


REWRITES: dict[type, Callable[[Any], None]] = {
    Experts: _experts,
    Convolution: _convolution,
    GatedInputs: _inputs,
    Stack: lift_added,
}


def padded_layout(lengths: Tensor, time: Any, room: int) -> Layout:  # noqa: ANN401
    """One sequence a row, padding on the right, whatever the sizes are."""
    index = torch.arange(time)[None].expand(lengths.shape[0], time)
    document = torch.where(index < lengths[:, None], 0, PADDING)
    return Layout(document, index, lengths, longest=room, packed=False)
