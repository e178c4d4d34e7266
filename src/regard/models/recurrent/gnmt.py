"""Google's translation system of 2016: deep, residual, with attention from the decoder's bottom layer."""

from dataclasses import replace
from typing import Literal

from jaxtyping import Bool, Float, Int
from pydantic import PositiveInt, model_validator
from torch import Tensor

from regard.config import refuse
from regard.models.recurrent.seq2seq import StackEncoder
from regard.models.recurrent.single_stack import even_width
from regard.models.recurrent.translator import Encoded, TranslatorConfig, TranslatorDecoder, TranslatorState
from regard.nn.attention.seq2seq import AdditiveConfig, AnySeq2SeqAttentionConfig, Seq2SeqAttention
from regard.nn.experts import Experts, ExpertsConfig
from regard.nn.recurrent import LayerSpec, RecurrentLayer, RecurrentStack, Vectors

FIRST_RESIDUAL = 2
"""The layer, counted from zero, from which on inputs are added to outputs: the third, as in the paper."""


class GnmtConfig(TranslatorConfig):
    """GNMT (Wu 2016): deep residual LSTM stacks; the bottom decoder layer attends, all others read its context.

    As in the paper, the encoder's bottom layer is bidirectional and all others forward, residuals begin at the third
    layer, attention is `additive`, and the context is concatenated to the decoder layers' inputs.
    Where we differ: the paper's query is the bottom layer's state of the token before, and that layer reads the context
    too; here it is the state of the token itself and only the layers above read it, so that the whole target is trained
    at once, layer by layer. Both directions of the bottom layer have half the width each, and the decoder starts from
    zero states. With `experts` it is the system of Shazeer 2017, a mixture below the top layer of each side: there
    the encoder has 3 layers and the decoder 2.
    """

    kind: Literal["gnmt"] = "gnmt"
    depth: PositiveInt = 4
    """Layers of the encoder; 8 in the paper."""
    attention: AnySeq2SeqAttentionConfig = AdditiveConfig()
    """Attention of the decoder to the source: `additive`, `dot` or `general`."""
    experts: ExpertsConfig | None = None
    """Mixtures of experts (Shazeer 2017: noise = true, balance = 0, importance = load = 0.01)."""

    @model_validator(mode="after")
    def _layers_fit(self) -> "GnmtConfig":
        even_width(self.width, "width")
        for setting, depth in (("depth", self.depth), ("decoder_depth", self.target_depth)):
            if depth < 2:
                raise refuse(setting, f"others stand above the bottom layer: expected at least 2, got {depth}")
        return self

    def encoder_layers(self) -> list[LayerSpec]:
        """The encoder's layers from the bottom up."""
        return [LayerSpec(self.token_width, self.width, direction="both"), *self._layers(self.width, self.depth - 1)]

    def decoder_layers(self) -> list[LayerSpec]:
        """The decoder's layers from the bottom up."""
        return [LayerSpec(self.token_width, self.width), *self._layers(2 * self.width, self.target_depth - 1)]

    def _layers(self, inputs: int, count: int) -> list[LayerSpec]:
        return [LayerSpec(inputs, self.width) for _ in range(count)]

    def build_encoder(self) -> StackEncoder:
        return StackEncoder(self._stack(self.encoder_layers(), FIRST_RESIDUAL))

    def build_decoder(self) -> "GnmtDecoder":
        bottom, *others = self.decoder_layers()
        cross = self.attention.build(self.width, self.width, self.dropout.attention)
        return GnmtDecoder(bottom.build(self.dropout.memory), cross, self._stack(others, FIRST_RESIDUAL - 1))

    def _stack(self, layers: list[LayerSpec], residual_from: int) -> RecurrentStack:
        experts: Experts | None = self.experts.build(self.width) if self.experts is not None else None
        return RecurrentStack(
            [layer.build(self.dropout.memory) for layer in layers],
            residual_from=residual_from,
            dropout=self.dropout.between,
            locked=self.dropout.locked,
            experts=experts,
        )

    def stacks_params(self) -> int:
        total = sum(layer.num_params() for layer in self.encoder_layers() + self.decoder_layers())
        total += 0 if self.experts is None else 2 * self.experts.num_params(self.width)
        return total + self.attention.num_params(self.width, self.width)

    def stacks_flops(self, batch: int, source: int, target: int) -> int:
        total = sum(layer.flops(batch * source) for layer in self.encoder_layers())
        total += sum(layer.flops(batch * target) for layer in self.decoder_layers())
        total += 0 if self.experts is None else self.experts.flops(self.width, batch * (source + target))
        return total + self.attention.flops(self.width, self.width, batch, target, source)


class GnmtDecoder(TranslatorDecoder):
    """s = bottom(y);  c = cross(s);  others(s, c): the bottom layer is the query, those above read the context."""

    def __init__(self, bottom: RecurrentLayer, cross: Seq2SeqAttention, others: RecurrentStack) -> None:
        super().__init__()
        self.bottom, self.cross, self.others = bottom, cross, others

    def initial_state(self, encoded: Encoded) -> TranslatorState:
        rows = len(encoded.vectors)
        hidden_states = (self.bottom.initial_state(rows), *self.others.initial_state(rows))
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
        assert state.source_kv is not None
        s, first = self.bottom(x, lengths, state.hidden_states[0])
        context = self.cross(s, state.source_kv)
        y, others = self.others(s, lengths, state.hidden_states[1:], valid, context)
        return y, replace(state, hidden_states=(first, *others))
