"""Recurrent layers: each vector from its own input and from what the layer remembers of the tokens before it.

    rnn    h_t = tanh(W x_t + U h_{t−1} + b)
    gru    r, z = σ(W x_t + U h_{t−1} + b)
           n = tanh(W x_t + b + r ⊙ (U h_{t−1} + b'))        h_t = (1 − z) ⊙ n + z ⊙ h_{t−1}
    lstm   i, f, o = σ(W x_t + U h_{t−1} + b)
           g = tanh(W x_t + U h_{t−1} + b)                   c_t = f ⊙ c_{t−1} + i ⊙ g        h_t = o ⊙ tanh(c_t)

with a W, U and b for each of the gates.

torch's fused kernels compute them, one layer a call: what stands between layers (dropout, residuals, experts) is then
ours, and dropout comes from torch's own generator, so that a resumed run drops what the unbroken one would have.
"""

import warnings
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.functional import dropout
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from regard.errors import ConfigError
from regard.nn.dropout import LockedDropout
from regard.nn.experts import Experts
from regard.nn.layers import Layers
from regard.nn.layout import Layout

Cell = Literal["rnn", "lstm", "gru"]
Direction = Literal["forward", "backward", "both"]
Vectors = Float[Tensor, "batch time width"]

GATES: dict[Cell, int] = {"rnn": 1, "gru": 3, "lstm": 4}
KERNELS: dict[Cell, Callable[..., nn.RNNBase]] = {"rnn": nn.RNN, "gru": nn.GRU, "lstm": nn.LSTM}


@dataclass(frozen=True, eq=False)
class HiddenState:
    """What a layer passes from one token to the next; one row of `directions` each where it is bidirectional."""

    hidden: Float[Tensor, "directions batch width"]
    """h"""
    cell: Float[Tensor, "directions batch width"] | None = None
    """c, in an LSTM"""

    def reorder(self, rows: Int[Tensor, " rows"]) -> "HiddenState":
        cell = None if self.cell is None else self.cell.index_select(1, rows)
        return HiddenState(self.hidden.index_select(1, rows), cell)

    def where(self, chosen: Bool[Tensor, " batch"], other: "HiddenState") -> "HiddenState":
        """This state in the chosen rows, the other in the rest."""
        chosen = chosen[None, :, None]
        hidden = torch.where(chosen, self.hidden, other.hidden)
        if self.cell is None or other.cell is None:
            return HiddenState(hidden)
        return HiddenState(hidden, torch.where(chosen, self.cell, other.cell))

    def concatenated(self) -> "HiddenState":
        """Both directions as the state of one layer of twice the width."""
        hidden = torch.cat([*self.hidden], -1)[None]
        return HiddenState(hidden, None if self.cell is None else torch.cat([*self.cell], -1)[None])


@dataclass(frozen=True)
class LayerSpec:
    """The sizes of a recurrent layer, its parameters and FLOPs."""

    inputs: int
    width: int
    cell: Cell = "lstm"
    direction: Direction = "forward"

    def build(self, drop: float = 0.0) -> "RecurrentLayer":
        """The module; `drop` is how much of U it forgets while training."""
        return RecurrentLayer(self.inputs, self.width, self.cell, self.direction, drop)

    @property
    def _matrices(self) -> tuple[int, int]:
        """Rows of both matrices together, over all directions, and the width of the memory they are multiplied with."""
        inner = self.width // 2 if self.direction == "both" else self.width
        return GATES[self.cell] * self.width, inner

    def num_params(self) -> int:
        """Parameters; torch keeps two biases a gate."""
        rows, inner = self._matrices
        return rows * (self.inputs + inner + 2)

    def flops(self, tokens: int) -> int:
        rows, inner = self._matrices
        return 2 * tokens * rows * (self.inputs + inner)


class RecurrentLayer(nn.Module):
    """One recurrent layer: forward, backward, or bidirectional with half the width each.

    Padding never counts: given the rows' lengths, a backward reading starts at each row's last token, the memory is the
    one after it, and what comes out beyond it is zero. Under autocast the layer stays in its weights' own format: what
    is carried from token to token is rounded at each of them otherwise.

    While training, a share `drop` of U is zero, the same numbers at every token (Merity 2018): dropping what is carried
    itself would wipe out the hidden state within a few tokens.
    """

    def __init__(
        self, inputs: int, width: int, cell: Cell = "lstm", direction: Direction = "forward", drop: float = 0.0
    ) -> None:
        super().__init__()
        both = direction == "both"
        if both and width % 2:
            raise ConfigError(
                "model.width", f"both directions have half of it each: expected an even width, got {width}"
            )
        self.inputs, self.width, self.cell, self.direction, self.drop = inputs, width, cell, direction, drop
        self.kernel = KERNELS[cell](inputs, width // 2 if both else width, batch_first=True, bidirectional=both)

    def initial_state(self, rows: int) -> HiddenState:
        """The hidden state before the first token: zeros."""
        weight = self.kernel.weight_hh_l0
        zeros = weight.new_zeros(1 + self.kernel.bidirectional, rows, self.kernel.hidden_size)  # type: ignore[operator]
        return HiddenState(zeros, zeros if self.cell == "lstm" else None)

    def forward(
        self,
        x: Float[Tensor, "batch time inputs"],
        lengths: Int[Tensor, " batch"] | None = None,
        hidden_state: HiddenState | None = None,
    ) -> tuple[Vectors, HiddenState]:
        """The vectors at all places, and the memory after each row's last token.

        `lengths` are the tokens of each row, all there are when left out; best kept on the processor, where the packing
        of rows wants them.
        """
        hidden_state = hidden_state or self.initial_state(len(x))
        with _own_format(x):
            x = x.to(self.kernel.weight_hh_l0.dtype)  # type: ignore[arg-type]
            if self.direction != "backward":
                return self._read(x, lengths, hidden_state)
            y, hidden_state = self._read(reverse_rows(x, lengths), lengths, hidden_state)
            return reverse_rows(y, lengths), hidden_state

    def _read(self, x: Tensor, lengths: Tensor | None, before: HiddenState) -> tuple[Tensor, HiddenState]:
        state = before.hidden if before.cell is None else (before.hidden, before.cell)
        if lengths is None:
            y, state = self._run(x, state)
            return y, _memory(state)
        lengths = lengths.cpu()
        packed = pack_padded_sequence(x, lengths.clamp(min=1), batch_first=True, enforce_sorted=False)
        packed, state = self._run(packed, state)
        y, _ = pad_packed_sequence(packed, batch_first=True, total_length=x.shape[1])
        if lengths.all():
            return y, _memory(state)
        any_token = (lengths > 0).to(x.device)  # packing wants a token in each row, but those without must not change
        return y * any_token[:, None, None], _memory(state).where(any_token, before)

    def _run(self, x: Tensor | PackedSequence, state: Tensor | tuple[Tensor, Tensor]) -> tuple[Any, Any]:
        """torch's kernel, with some of U at zero while training."""
        if not (self.training and self.drop):
            return self.kernel(x, state)
        fewer = {
            name: dropout(weight, self.drop)
            for name, weight in self.kernel.named_parameters()
            if name.startswith("weight_hh")
        }
        with warnings.catch_warnings():  # cuDNN wants all weights in one piece and copies them there itself otherwise
            warnings.filterwarnings("ignore", "RNN module weights are not part of single contiguous chunk")
            return functional_call(self.kernel, fewer, (x, state))


def _memory(state: Tensor | tuple[Tensor, Tensor]) -> HiddenState:
    return HiddenState(state) if isinstance(state, Tensor) else HiddenState(*state)


def reverse_rows(x: Vectors, lengths: Int[Tensor, " batch"] | None = None) -> Vectors:
    """Each row's tokens reversed, with padding still on the right."""
    if lengths is None:
        return x.flip(1)
    position = torch.arange(x.shape[1], device=x.device)
    other = lengths.to(x.device)[:, None] - 1 - position
    other = torch.where(other < 0, position, other)
    return x.gather(1, other[..., None].expand_as(x))


def row_lengths(layout: Layout) -> Int[Tensor, " batch"] | None:
    """The rows' lengths as layers like them; None where no row is padded. A GPU is waited for, once for all layers."""
    return None if layout.whole else layout.lengths.cpu()


def _own_format(x: Tensor) -> AbstractContextManager[object]:
    """Switches autocast off where it is on."""
    device = x.device.type
    on = device in ("cpu", "cuda") and torch.is_autocast_enabled(device)
    return torch.autocast(device, enabled=False) if on else nullcontext()


class RecurrentStack(nn.Module):
    """Layers that are given to it: x ← layer(x), or x ← x + layer(x) from layer `residual_from` on.

    A mixture of experts stands below the top layer, x ← x + σ(experts(x)), as in Shazeer 2017.
    """

    def __init__(
        self,
        layers: Sequence[RecurrentLayer],
        *,
        residual_from: int | None = None,
        dropout: float = 0.0,
        locked: bool = False,
        experts: Experts | None = None,
    ) -> None:
        super().__init__()
        self.layers = Layers[RecurrentLayer](layers)
        self.residual_from = len(layers) if residual_from is None else residual_from
        self.dropout = LockedDropout(dropout, locked)
        self.experts = experts

    def forward(
        self,
        x: Float[Tensor, "batch time inputs"],
        lengths: Int[Tensor, " batch"] | None = None,
        hidden_states: Sequence[HiddenState | None] | None = None,
        valid: Bool[Tensor, "batch time"] | None = None,
        context: Float[Tensor, "batch time context"] | None = None,
    ) -> tuple[Vectors, tuple[HiddenState, ...]]:
        """The vectors after the top layer, and what each layer remembers.

        `lengths` as a single layer takes them; `valid` says which tokens count for the experts; the `context`, if there
        is one, is put beside every layer's input.
        """
        before = [None] * len(self.layers) if hidden_states is None else hidden_states
        after = []
        for number, layer in enumerate(self.layers):
            if self.experts is not None and number == len(self.layers) - 1:
                x = x + self.dropout(torch.sigmoid(self.experts(x, valid)))
            inputs = x if number == 0 else self.dropout(x)
            inputs = inputs if context is None else torch.cat([inputs, context], -1)
            y, hidden_state = layer(inputs, lengths, before[number])
            x = x + y if number >= self.residual_from else y
            after.append(hidden_state)
        return x, tuple(after)

    def initial_state(self, rows: int) -> tuple[HiddenState, ...]:
        """What the layers remember before the first token."""
        return tuple(layer.initial_state(rows) for layer in self.layers)
