"""Deep-Att (Zhou 2016): stacked LSTMs joined by fast-forward connections, a linear way from the bottom to the top.

A recurrent layer is two things: what it computes of its input, f, which is linear, and the recurrence r:

    f_k = W_k [half(f_{k−1}); h_{k−1}]        h_k = r(f_k)

f_k are the inputs of all gates; half of them go to the next layer, past the recurrence and its activations.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from pydantic import PositiveInt, model_validator
from torch import Tensor, nn

from regard.config import refuse
from regard.models.recurrent.translator import (
    Encoded,
    TranslatorConfig,
    TranslatorDecoder,
    TranslatorEncoder,
    TranslatorState,
)
from regard.nn.attention.seq2seq import AdditiveConfig, AnySeq2SeqAttentionConfig, Seq2SeqAttention
from regard.nn.dropout import LockedDropout
from regard.nn.layers import Layers
from regard.nn.layout import Layout
from regard.nn.recurrent import Direction, HiddenState, LayerSpec, RecurrentLayer, Vectors, row_lengths


class DeepAttConfig(TranslatorConfig):
    """Deep-Att (Zhou 2016): two columns of LSTM layers, alternating in direction, joined by fast-forward connections.

    As in the paper, one column begins forward and the other backward, nothing joins the two, h and half of f of both
    tops are projected to the keys and values, half of each layer's f and all of its h feed the next, and only the
    top h is given to the output layer. Where we differ: the paper's query is the first decoder layer's state of the
    token before, whose context enters that layer; here with the state of the token itself, and the second layer, so
    that the whole target is trained at once. The paper has peephole gates, unlike any fused kernel. The linear path has
    no activation: deep stacks need small learning rates.
    """

    kind: Literal["deep-att"] = "deep-att"
    depth: PositiveInt = 4
    """Layers of each of the encoder's columns; 9 in the paper, and 7 in the decoder."""
    attention: AnySeq2SeqAttentionConfig = AdditiveConfig()
    """Attention of the decoder to the source: `additive`, `dot` or `general`."""

    @model_validator(mode="after")
    def _layers_fit(self) -> "DeepAttConfig":
        if self.target_depth < 2:
            raise refuse(
                "decoder_depth",
                f"the second layer reads the context of the first: expected at least 2, got {self.target_depth}",
            )
        return self

    def column(self, first: Literal["forward", "backward"]) -> list[LayerSpec]:
        """The layers of one column of the encoder from the bottom up, every other one in the other direction."""
        second: Direction = "backward" if first == "forward" else "forward"
        return [
            LayerSpec(self._inputs(number), self.width, direction=second if number % 2 else first)
            for number in range(self.depth)
        ]

    def decoder_layers(self) -> list[LayerSpec]:
        """The decoder's layers from the bottom up; the second also takes the context."""
        return [
            LayerSpec(self._inputs(number) + (self.width if number == 1 else 0), self.width)
            for number in range(self.target_depth)
        ]

    def _inputs(self, number: int) -> int:
        return 3 * self.width if number else self.token_width

    def build_encoder(self) -> "DeepAttEncoder":
        return DeepAttEncoder(self._column(self.column("forward")), self._column(self.column("backward")), self.width)

    def build_decoder(self) -> "DeepAttDecoder":
        cross = self.attention.build(self.width, self.width, self.dropout.attention)
        return DeepAttDecoder(self._column(self.decoder_layers()), cross)

    def _column(self, layers: list[LayerSpec]) -> "FastForward":
        built = [layer.build(self.dropout.memory) for layer in layers]
        return FastForward(built, self.dropout.between, self.dropout.locked)

    def stacks_params(self) -> int:
        layers = self.column("forward") + self.column("backward") + self.decoder_layers()
        joined = (6 * self.width + 1) * self.width
        return sum(layer.num_params() for layer in layers) + joined + self.attention.num_params(self.width, self.width)

    def stacks_flops(self, batch: int, source: int, target: int) -> int:
        """Matmul FLOPs of encoder and decoder; the half of f that the next layer reads is computed twice."""
        sides = [(2 * self.column("forward"), batch * source, 0), (self.decoder_layers(), batch * target, 1)]
        total = 0
        for layers, tokens, last in sides:
            total += sum(layer.flops(tokens) for layer in layers)
            total += sum(4 * tokens * self.width * layer.inputs for layer in layers[: len(layers) - last])
        total += 12 * batch * source * self.width * self.width
        return total + self.attention.flops(self.width, self.width, batch, target, source)


class FastForward(nn.Module):
    """Stacked LSTM layers; each reads half of the gate inputs of the one below, and its output."""

    def __init__(self, layers: Sequence[RecurrentLayer], dropout: float = 0.0, locked: bool = False) -> None:
        super().__init__()
        self.layers = Layers[RecurrentLayer](layers)
        self.dropout = LockedDropout(dropout, locked)

    def forward(
        self,
        x: Float[Tensor, "batch time inputs"],
        lengths: Int[Tensor, " batch"] | None = None,
        hidden_states: Sequence[HiddenState | None] | None = None,
        attend: Callable[[Vectors], Vectors] | None = None,
    ) -> tuple[Vectors, Float[Tensor, "batch time top_inputs"], tuple[HiddenState, ...]]:
        """The top layer's outputs, its inputs, and each layer's hidden state.

        `attend` gives the context of the bottom layer's outputs, which is concatenated to the second layer's input.
        """
        before = [None] * len(self.layers) if hidden_states is None else hidden_states
        after, h = [], x
        for number, layer in enumerate(self.layers):
            if number:
                context = [attend(h)] if attend is not None and number == 1 else []
                x = torch.cat([half(self.layers[number - 1], x), self.dropout(h), *context], -1)
            h, hidden_state = layer(x, lengths, before[number])
            after.append(hidden_state)
        return h, x, tuple(after)


def half(layer: RecurrentLayer, x: Float[Tensor, "batch time inputs"]) -> Float[Tensor, "batch time half"]:
    """The first half of f = W x + b, which the fused kernel does not return, so it is computed again."""
    weight, bias = layer.kernel.get_parameter("weight_ih_l0"), layer.kernel.get_parameter("bias_ih_l0")
    count = len(weight) // 2
    return F.linear(x, weight[:count], bias[:count])


class DeepAttEncoder(TranslatorEncoder):
    """e = W [h; half(f); h'; half(f')] of the tops of two columns of opposite direction."""

    def __init__(self, forward: FastForward, backward: FastForward, width: int) -> None:
        super().__init__()
        self.columns = Layers[FastForward]([forward, backward])
        self.join = nn.Linear(6 * width, width)

    def forward(self, x: Float[Tensor, "batch time inputs"], layout: Layout) -> Encoded:
        lengths, outputs = row_lengths(layout), []
        for column in self.columns:
            h, inputs, _ = column(x, lengths)
            outputs += [h, half(column.layers[-1], inputs)]
        return Encoded(self.join(torch.cat(outputs, -1)), layout)


class DeepAttDecoder(TranslatorDecoder):
    """A forward column; the output of its bottom layer is the query, the context enters the second layer."""

    def __init__(self, column: FastForward, cross: Seq2SeqAttention) -> None:
        super().__init__()
        self.column, self.cross = column, cross

    def initial_state(self, encoded: Encoded) -> TranslatorState:
        hidden_states = tuple(layer.initial_state(len(encoded.vectors)) for layer in self.column.layers)
        return TranslatorState(
            hidden_states, encoded.source_rows, self.cross.project_source(encoded.vectors, encoded.valid)
        )

    def forward(
        self,
        x: Float[Tensor, "batch time inputs"],
        state: TranslatorState,
        lengths: Int[Tensor, " batch"] | None = None,
        valid: Bool[Tensor, "batch time"] | None = None,
    ) -> tuple[Vectors, TranslatorState]:
        source_kv = state.source_kv
        assert source_kv is not None
        h, _, hidden_states = self.column(x, lengths, state.hidden_states, lambda s: self.cross(s, source_kv))
        return h, replace(state, hidden_states=hidden_states)
