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
from collections.abc import Callable
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
from regard.nn.layout import Layout

Cell = Literal["rnn", "lstm", "gru"]
Direction = Literal["forward", "backward", "both"]
Vectors = Float[Tensor, "batch time width"]

GATES: dict[Cell, int] = {"rnn": 1, "gru": 3, "lstm": 4}
KERNELS: dict[Cell, Callable[..., nn.RNNBase]] = {"rnn": nn.RNN, "gru": nn.GRU, "lstm": nn.LSTM}


@dataclass(frozen=True, eq=False)
class Memory:
    """What a layer carries from one token to the next; a direction each where it reads both ways."""

    output: Float[Tensor, "directions batch width"]
    """h"""
    cell: Float[Tensor, "directions batch width"] | None = None
    """c, which only an LSTM has."""

    def reorder(self, rows: Int[Tensor, " rows"]) -> "Memory":
        """The chosen rows, copied."""
        cell = None if self.cell is None else self.cell.index_select(1, rows)
        return Memory(self.output.index_select(1, rows), cell)

    def where(self, chosen: Bool[Tensor, " batch"], other: "Memory") -> "Memory":
        """This memory in the chosen rows, the other in the rest."""
        chosen = chosen[None, :, None]
        output = torch.where(chosen, self.output, other.output)
        if self.cell is None or other.cell is None:
            return Memory(output)
        return Memory(output, torch.where(chosen, self.cell, other.cell))

    def joined(self) -> "Memory":
        """Both directions side by side, as the memory of one layer of twice the width."""
        output = torch.cat([*self.output], -1)[None]
        return Memory(output, None if self.cell is None else torch.cat([*self.cell], -1)[None])


@dataclass(frozen=True)
class Layer:
    """A recurrent layer before it is built: what it is, how much it learns, what it costs."""

    inputs: int
    width: int
    cell: Cell = "lstm"
    direction: Direction = "forward"

    def build(self, drop: float = 0.0) -> "Recurrence":
        """The module; `drop` is how much of U it forgets while training."""
        return Recurrence(self.inputs, self.width, self.cell, self.direction, drop)

    @property
    def _matrices(self) -> tuple[int, int]:
        """Rows of both matrices together, over all directions, and the width of the memory they are multiplied with."""
        inner = self.width // 2 if self.direction == "both" else self.width
        return GATES[self.cell] * self.width, inner

    def num_params(self) -> int:
        """Learned numbers; torch keeps two biases a gate."""
        rows, inner = self._matrices
        return rows * (self.inputs + inner + 2)

    def flops(self, tokens: int) -> int:
        """Matrix-product FLOPs of one pass over this many tokens."""
        rows, inner = self._matrices
        return 2 * tokens * rows * (self.inputs + inner)


class Recurrence(nn.Module):
    """One recurrent layer that reads forward, backward, or both ways with half the width each.

    Padding never counts: given the rows' lengths, a backward reading starts at each row's last token, the memory is the
    one after it, and what comes out beyond it is zero. Under autocast the layer stays in its weights' own format: what
    is carried from token to token is rounded at each of them otherwise.

    While training, a share `drop` of U is zero, the same numbers at every token (Merity 2018): dropping what is carried
    itself would wipe out the memory within a few tokens.
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

    def blank(self, rows: int) -> Memory:
        """The memory before the first token: zeros."""
        weight = self.kernel.weight_hh_l0
        zeros = weight.new_zeros(1 + self.kernel.bidirectional, rows, self.kernel.hidden_size)  # type: ignore[operator]
        return Memory(zeros, zeros if self.cell == "lstm" else None)

    def forward(
        self,
        x: Float[Tensor, "batch time inputs"],
        lengths: Int[Tensor, " batch"] | None = None,
        memory: Memory | None = None,
    ) -> tuple[Vectors, Memory]:
        """The vectors at all places, and the memory after each row's last token.

        `lengths` are the tokens of each row, all there are when left out; best kept on the processor, where the packing
        of rows wants them.
        """
        memory = memory or self.blank(len(x))
        with _own_format(x):
            x = x.to(self.kernel.weight_hh_l0.dtype)  # type: ignore[arg-type]
            if self.direction != "backward":
                return self._read(x, lengths, memory)
            y, memory = self._read(mirrored(x, lengths), lengths, memory)
            return mirrored(y, lengths), memory

    def _read(self, x: Tensor, lengths: Tensor | None, before: Memory) -> tuple[Tensor, Memory]:
        state = before.output if before.cell is None else (before.output, before.cell)
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


def _memory(state: Tensor | tuple[Tensor, Tensor]) -> Memory:
    return Memory(state) if isinstance(state, Tensor) else Memory(*state)


def mirrored(x: Vectors, lengths: Int[Tensor, " batch"] | None = None) -> Vectors:
    """Each row's tokens from the last to the first; padding stays behind them."""
    if lengths is None:
        return x.flip(1)
    place = torch.arange(x.shape[1], device=x.device)
    other = lengths.to(x.device)[:, None] - 1 - place
    other = torch.where(other < 0, place, other)
    return x.gather(1, other[..., None].expand_as(x))


def row_ends(layout: Layout) -> Int[Tensor, " batch"] | None:
    """The rows' lengths as layers like them; None where no row is padded. A GPU is waited for, once for all layers."""
    return None if layout.whole else layout.lengths.cpu()


def _own_format(x: Tensor) -> AbstractContextManager[object]:
    """Switches autocast off where it is on."""
    device = x.device.type
    on = device in ("cpu", "cuda") and torch.is_autocast_enabled(device)
    return torch.autocast(device, enabled=False) if on else nullcontext()
