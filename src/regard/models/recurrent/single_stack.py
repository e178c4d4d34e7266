"""Recurrent models of one stack, language models and encoders, and the settings of all recurrent models."""

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import torch
from jaxtyping import Float, Int
from pydantic import PositiveInt, model_validator
from torch import Tensor

from regard.config import refuse
from regard.errors import ConfigError
from regard.models.contract import GenerativeModel, Model, ModelConfig
from regard.nn.dropout import LockedDropout, RecurrentDropoutConfig, RecurrentDropoutSettings
from regard.nn.embedding import EmbeddingConfig
from regard.nn.experts import ExpertsConfig
from regard.nn.head import (
    AnyHeadConfig,
    HeadConfig,
    PooledHead,
    PooledHeadConfig,
    VocabularyHeadConfig,
    head_for,
)
from regard.nn.initialise import OrthogonalConfig, RecurrentInitialiseConfig
from regard.nn.layout import Layout, Sequences
from regard.nn.recurrent import Cell, Direction, HiddenState, LayerSpec, RecurrentStack, row_lengths


class RecurrentConfig(ModelConfig):
    """Settings that every recurrent model has, whatever its shape."""

    width: PositiveInt = 256
    """Width of the layers' outputs."""
    depth: PositiveInt = 2
    """Number of layers."""
    embedding_width: PositiveInt | None = None
    """Width of the embeddings; `width` when left out."""
    embedding: EmbeddingConfig = EmbeddingConfig()
    """Embeddings, and which matrices source, target and output share."""
    dropout: RecurrentDropoutConfig = RecurrentDropoutSettings(embedding=0.2, between=0.2, output=0.2)
    """Dropout rates while training; one number sets embedding, between and output."""
    initialise: RecurrentInitialiseConfig = OrthogonalConfig()
    """Initialisation of the parameters."""

    @model_validator(mode="after")
    def _plain_inputs(self) -> "RecurrentConfig":
        if self.embedding.norm:
            raise refuse("embedding.norm", "recurrent layers take their inputs as they are; leave it out")
        return self

    @property
    def token_width(self) -> int:
        """Width of the embeddings."""
        return self.embedding_width or self.width


def even_width(width: int, setting: str) -> None:
    """Bidirectional layers have half the width per direction."""
    if width % 2:
        raise refuse(setting, f"both directions have half of it each: expected an even number, got {width}")


def refuse_packed(layout: Layout) -> None:
    """Raises for packed rows: a hidden state runs through its whole row."""
    if layout.packed:
        raise ConfigError(
            "data.batching", "recurrent models read one sequence a row, got packed batches; use 'bucketed' ones"
        )


class SingleRecurrentConfig(RecurrentConfig):
    """Settings of recurrent models with one stack."""

    direction: ClassVar[Direction]
    cell: Cell = "lstm"
    """Cell of each layer: `rnn`, `gru` or `lstm`."""
    residual: bool = False
    """Add each layer's input to its output, from the second layer on."""
    experts: ExpertsConfig | None = None
    """A mixture of experts below the top layer (Shazeer 2017: noise = true, balance = 0, importance = load = 0.1)."""
    head: HeadConfig | None = None
    """Output layer; when left out, the one the task needs: vocabulary, or pooled where there are classes."""

    @model_validator(mode="after")
    def _layers_fit(self) -> "SingleRecurrentConfig":
        if self.experts is not None and self.depth < 2:
            raise refuse("experts", "they stand between two layers: expected depth of at least 2, got 1")
        if self.residual and self.embedding.shares_output and self.token_width != self.width:
            raise refuse("residual", "needs layers of one width; leave embedding_width out or share no output matrix")
        return self

    def head_for(self, classes: int | None) -> AnyHeadConfig:
        return head_for(self.head, classes, VocabularyHeadConfig(bias=True))

    def layers(self, classes: int | None = None) -> list[LayerSpec]:
        """The layers from the bottom up; an output layer that shares the embedding makes the top one as wide as it."""
        tied = classes is None and self.embedding.shares_output
        widths = [self.width] * (self.depth - 1) + [self.token_width if tied else self.width]
        inputs = [self.token_width, *widths[:-1]]
        return [LayerSpec(*sizes, self.cell, self.direction) for sizes in zip(inputs, widths, strict=True)]

    def num_params(self, vocab: int, classes: int | None = None) -> int:
        head, layers = self.head_for(classes), self.layers(classes)
        total = self.embedding.num_params(vocab, self.token_width) + sum(layer.num_params() for layer in layers)
        total += 0 if self.experts is None else self.experts.num_params(self.width)
        if isinstance(head, VocabularyHeadConfig):
            return total + head.num_params(layers[-1].width, vocab, self.embedding.shares_output)
        return total + head.num_params(layers[-1].width, classes or 0)

    def flops(self, batch: int, time: int, vocab: int, classes: int | None = None) -> int:
        head, layers, tokens = self.head_for(classes), self.layers(classes), batch * time
        total = self.embedding.flops(self.token_width, tokens) + sum(layer.flops(tokens) for layer in layers)
        total += 0 if self.experts is None else self.experts.flops(self.width, tokens)
        if isinstance(head, VocabularyHeadConfig):
            factor = self.embedding.factor if self.embedding.shares_output else None
            return total + head.flops(layers[-1].width, vocab, tokens, factor)
        positions = batch if isinstance(head, PooledHeadConfig) else tokens
        return total + head.flops(layers[-1].width, classes or 0, positions)


class SingleRecurrent(Model[SingleRecurrentConfig]):
    """Embedding, recurrent layers, output layer."""

    def __init__(self, config: SingleRecurrentConfig, vocab: int, classes: int | None = None) -> None:
        super().__init__()
        self.config = config
        head, layers, drop = config.head_for(classes), config.layers(classes), config.dropout
        self.embedding = config.embedding.build(vocab, config.token_width)
        self.input_dropout = drop.on_inputs()
        self.stack = RecurrentStack(
            [layer.build(drop.memory) for layer in layers],
            residual_from=1 if config.residual else None,
            dropout=drop.between,
            locked=drop.locked,
            experts=config.experts.build(config.width) if config.experts is not None else None,
        )
        self.output_dropout = LockedDropout(drop.output, drop.locked)
        if isinstance(head, VocabularyHeadConfig):
            shared = self.embedding if config.embedding.shares_output else None
            self.head = head.build(layers[-1].width, vocab, shared)
        else:
            self.head = head.build(layers[-1].width, classes or 0)
        config.initialise.apply(self, config.depth)

    def forward(self, sequences: Sequences, segments: Int[Tensor, "batch time"] | None = None) -> Tensor:
        """Logits over the vocabulary or the classes at each position, or over the classes for each row."""
        x = self.hidden(sequences, segments)
        return self.head(x, sequences.layout.valid) if isinstance(self.head, PooledHead) else self.head(x)

    def hidden(
        self, sequences: Sequences, segments: Int[Tensor, "batch time"] | None = None
    ) -> Float[Tensor, "batch time width"]:
        """The vectors of all tokens after the top layer."""
        layout = sequences.layout
        refuse_packed(layout)
        x = self.input_dropout(self.embedding(sequences.tokens, segments))
        x, _ = self.stack(x, self._lengths(layout), valid=None if layout.whole else layout.valid)
        return self.output_dropout(x)

    def _lengths(self, layout: Layout) -> Int[Tensor, " batch"] | None:
        """Lengths of the rows; a forward layer never reads padding before a token and needs none."""
        return None if self.config.direction == "forward" else row_lengths(layout)


class RecurrentDecoderConfig(SingleRecurrentConfig):
    """The language model before the Transformer: an RNN, GRU or LSTM reads forward and predicts what follows.

    Strong settings of the time (Zaremba 2014, Merity 2018): two or three LSTM layers, heavy dropout, `dropout.locked`,
    `dropout.memory`, an output layer that shares the embedding. Where we differ: every row starts with an empty state,
    none is carried over from the batch before.
    """

    kind: Literal["recurrent"] = "recurrent"
    shape: ClassVar[str] = "decoder"
    direction: ClassVar[Direction] = "forward"

    def build(self, vocab: int, classes: int | None = None) -> "RecurrentDecoder":
        return RecurrentDecoder(self, vocab, classes)


@dataclass(frozen=True, eq=False)
class RecurrentDecoderState:
    """The decoding state: one hidden state per layer."""

    hidden_states: tuple[HiddenState, ...]

    def reorder(self, rows: Int[Tensor, " rows"]) -> "RecurrentDecoderState":
        return replace(self, hidden_states=tuple(hidden_state.reorder(rows) for hidden_state in self.hidden_states))


class RecurrentDecoder(SingleRecurrent, GenerativeModel[SingleRecurrentConfig, RecurrentDecoderState]):
    """Every token depends on those before it through the hidden states; a `Stepper`."""

    def start(self, source: Sequences | None, *, rows: int, capacity: int) -> RecurrentDecoderState:
        """The state before the first token; its size does not depend on `capacity`."""
        if source is not None:
            raise ConfigError(
                "model.kind", "a recurrent language model has no source; give the text as a prompt instead"
            )
        return RecurrentDecoderState(self.stack.initial_state(rows))

    @torch.no_grad()
    def step(
        self,
        tokens: Int[Tensor, "batch time"],
        state: RecurrentDecoderState,
        lengths: Int[Tensor, " batch"] | None = None,
    ) -> tuple[Float[Tensor, "batch time vocab"], RecurrentDecoderState]:
        ends = None if lengths is None else lengths.cpu()
        x, hidden_states = self.stack(self.input_dropout(self.embedding(tokens)), ends, state.hidden_states)
        return self.head(self.output_dropout(x)), replace(state, hidden_states=hidden_states)


class RecurrentEncoderConfig(SingleRecurrentConfig):
    """Bidirectional recurrent layers, half the width per direction: classification, tagging, masked language models."""

    kind: Literal["recurrent-encoder"] = "recurrent-encoder"
    shape: ClassVar[str] = "encoder"
    direction: ClassVar[Direction] = "both"

    @model_validator(mode="after")
    def _two_halves(self) -> "RecurrentEncoderConfig":
        even_width(self.width, "width")
        even_width(self.token_width, "embedding_width")
        return self

    def build(self, vocab: int, classes: int | None = None) -> "RecurrentEncoder":
        return RecurrentEncoder(self, vocab, classes)


class RecurrentEncoder(SingleRecurrent):
    """Every token depends on all others through the hidden states."""
