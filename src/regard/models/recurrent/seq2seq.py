"""The sequence-to-sequence model: a recurrent encoder and a recurrent decoder, with or without attention."""

from dataclasses import replace
from typing import Annotated, Literal

import torch
from jaxtyping import Bool, Float, Int
from pydantic import model_validator
from torch import Tensor, nn

from regard.config import BARE_KIND, BY_KIND, Config
from regard.models.recurrent.single_stack import even_width
from regard.models.recurrent.translator import (
    Encoded,
    TranslatorConfig,
    TranslatorDecoder,
    TranslatorEncoder,
    TranslatorState,
)
from regard.nn.attention.seq2seq import AdditiveConfig, DotConfig, GeneralConfig, Seq2SeqAttention
from regard.nn.embedding import EmbeddingConfig
from regard.nn.layout import Layout
from regard.nn.recurrent import Cell, Direction, LayerSpec, RecurrentStack, Vectors, row_lengths


class NoAttentionConfig(Config):
    """No attention: all that the decoder knows of the source is one vector, the encoder's last hidden state."""

    kind: Literal["none"] = "none"


AttentionOrNone = Annotated[DotConfig | GeneralConfig | AdditiveConfig | NoAttentionConfig, BY_KIND, BARE_KIND]


class Seq2SeqConfig(TranslatorConfig):
    """Encodes the source into hidden states that a second stack decodes; with attention to each source token.

    `attention = "none"` is Sutskever 2014: decoder layer k starts from encoder layer k's last state and reads nothing
    else. There the encoder is unidirectional, over reversed sentences: `reading = "backward"`. The lectures' encoder is
    bidirectional, half the width each, and the decoder starts from both last states concatenated. With attention it is
    the lectures' 'old standard': c_i = Σ_j α_ij h_j and P = softmax(W[s_i; c_i] + b). Unlike in Bahdanau 2015, and like
    in Luong 2015 without input feeding, the context does not enter the recurrence: the whole target is trained at once.
    """

    kind: Literal["lstm-seq2seq"] = "lstm-seq2seq"
    cell: Cell = "lstm"
    """Cell of each layer: `rnn`, `gru` or `lstm`."""
    reading: Direction = "both"
    """Direction of the encoder: `both`, `forward`, or `backward` (Sutskever's reversed source)."""
    attention: AttentionOrNone = DotConfig()
    """Attention of the decoder to the source: `dot`, `general`, `additive`, or `none` for one sentence vector."""
    readout: Literal["concat", "tanh"] = "concat"
    """What the output layer is given with attention: [s; c] as in the lectures, or tanh(W[s; c]) of the embedding's
    width as in Luong 2015, which can share the embedding's matrix."""
    embedding: EmbeddingConfig = EmbeddingConfig(share="inputs")
    """Embeddings, and which matrices source, target and output share."""

    @model_validator(mode="after")
    def _two_halves(self) -> "Seq2SeqConfig":
        if self.reading == "both":
            even_width(self.width, "width")
        return self

    @property
    def head_width(self) -> int:
        if isinstance(self.attention, NoAttentionConfig):
            return self.width
        return self.token_width if self.readout == "tanh" else 2 * self.width

    def layers(self, depth: int, direction: Direction) -> list[LayerSpec]:
        """The layers of one stack from the bottom up."""
        inputs = [self.token_width] + [self.width] * (depth - 1)
        return [LayerSpec(size, self.width, self.cell, direction) for size in inputs]

    def build_encoder(self) -> "StackEncoder":
        return StackEncoder(self._stack(self.depth, self.reading))

    def build_decoder(self) -> "AttentionDecoder":
        stack = self._stack(self.target_depth, "forward")
        if isinstance(self.attention, NoAttentionConfig):
            return AttentionDecoder(stack)
        cross = self.attention.build(self.width, self.width, self.dropout.attention)
        readout = nn.Linear(2 * self.width, self.token_width) if self.readout == "tanh" else None
        return AttentionDecoder(stack, cross, readout)

    def _stack(self, depth: int, direction: Direction) -> RecurrentStack:
        layers = [layer.build(self.dropout.memory) for layer in self.layers(depth, direction)]
        return RecurrentStack(layers, dropout=self.dropout.between, locked=self.dropout.locked)

    def stacks_params(self) -> int:
        layers = self.layers(self.depth, self.reading) + self.layers(self.target_depth, "forward")
        total = sum(layer.num_params() for layer in layers)
        if isinstance(self.attention, NoAttentionConfig):
            return total
        total += self.attention.num_params(self.width, self.width)
        return total + ((2 * self.width + 1) * self.token_width if self.readout == "tanh" else 0)

    def stacks_flops(self, batch: int, source: int, target: int) -> int:
        total = sum(layer.flops(batch * source) for layer in self.layers(self.depth, self.reading))
        total += sum(layer.flops(batch * target) for layer in self.layers(self.target_depth, "forward"))
        if isinstance(self.attention, NoAttentionConfig):
            return total
        total += self.attention.flops(self.width, self.width, batch, target, source)
        return total + (4 * batch * target * self.width * self.token_width if self.readout == "tanh" else 0)


class StackEncoder(TranslatorEncoder):
    """A recurrent stack as encoder."""

    def __init__(self, stack: RecurrentStack) -> None:
        super().__init__()
        self.stack = stack

    def forward(self, x: Float[Tensor, "batch time inputs"], layout: Layout) -> Encoded:
        """The top layer's outputs, and all layers' last hidden states."""
        y, hidden_states = self.stack(x, row_lengths(layout), valid=None if layout.whole else layout.valid)
        return Encoded(y, layout, hidden_states)


class AttentionDecoder(TranslatorDecoder):
    """A recurrent stack, and attention whose queries are its top layer's outputs."""

    def __init__(
        self, stack: RecurrentStack, cross: Seq2SeqAttention | None = None, readout: nn.Linear | None = None
    ) -> None:
        super().__init__()
        self.stack, self.cross, self.readout = stack, cross, readout

    def initial_state(self, encoded: Encoded) -> TranslatorState:
        """Layer k starts from encoder layer k's last state; layers beyond its depth from its top layer's."""
        ends = [hidden_state.concatenated() for hidden_state in encoded.hidden_states]
        hidden_states = tuple(ends[min(number, len(ends) - 1)] for number in range(len(self.stack.layers)))
        source_kv = None if self.cross is None else self.cross.project_source(encoded.vectors, encoded.valid)
        return TranslatorState(hidden_states, encoded.source_rows, source_kv)

    def forward(
        self,
        x: Float[Tensor, "batch time inputs"],
        state: TranslatorState,
        lengths: Int[Tensor, " batch"] | None = None,
        valid: Bool[Tensor, "batch time"] | None = None,
    ) -> tuple[Vectors, TranslatorState]:
        """s, or [s; c] with attention, or tanh(W[s; c])."""
        s, hidden_states = self.stack(x, lengths, state.hidden_states, valid)
        state = replace(state, hidden_states=hidden_states)
        if self.cross is None or state.source_kv is None:
            return s, state
        both = torch.cat([s, self.cross(s, state.source_kv)], -1)
        return both if self.readout is None else torch.tanh(self.readout(both)), state
