"""Recurrent models of one stack: the language model, which reads forward and writes on, and the two-way encoder."""

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import torch
from jaxtyping import Float, Int
from pydantic import model_validator
from torch import Tensor, nn

from regard.config import refuse
from regard.errors import ConfigError
from regard.models.recurrent.settings import RecurrentConfig, even_width, refuse_packed
from regard.nn.experts import ExpertsConfig
from regard.nn.head import (
    AnyHeadConfig,
    HeadConfig,
    PooledHead,
    PooledHeadConfig,
    VocabularyHeadConfig,
    head_for,
)
from regard.nn.layout import Layout, Sequences
from regard.nn.recurrent.dropout import Drop
from regard.nn.recurrent.layers import Cell, Direction, Layer, Memory, row_ends
from regard.nn.recurrent.stack import RecurrentStack


class SingleRecurrentConfig(RecurrentConfig):
    """Settings of recurrent models with one stack."""

    direction: ClassVar[Direction]
    cell: Cell = "lstm"
    """What each layer computes: plain `rnn`, `gru` or `lstm`."""
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
        """The output layer's config, checked against what is asked of it."""
        return head_for(self.head, classes, VocabularyHeadConfig(bias=True))

    def layers(self, classes: int | None = None) -> list[Layer]:
        """The layers from the bottom up; an output layer that shares the embedding makes the top one as wide as it."""
        tied = classes is None and self.embedding.shares_output
        widths = [self.width] * (self.depth - 1) + [self.token_width if tied else self.width]
        inputs = [self.token_width, *widths[:-1]]
        return [Layer(*sizes, self.cell, self.direction) for sizes in zip(inputs, widths, strict=True)]

    def num_params(self, vocab: int, classes: int | None = None) -> int:
        """Learned numbers of the whole model."""
        head, layers = self.head_for(classes), self.layers(classes)
        total = self.embedding.num_params(vocab, self.token_width) + sum(layer.num_params() for layer in layers)
        total += 0 if self.experts is None else self.experts.num_params(self.width)
        if isinstance(head, VocabularyHeadConfig):
            return total + head.num_params(layers[-1].width, vocab, self.embedding.shares_output)
        return total + head.num_params(layers[-1].width, classes or 0)

    def flops(self, batch: int, time: int, vocab: int, classes: int | None = None) -> int:
        """Matrix-product FLOPs of one forward pass over a full grid; training costs three times as much."""
        head, layers, tokens = self.head_for(classes), self.layers(classes), batch * time
        total = self.embedding.flops(self.token_width, tokens) + sum(layer.flops(tokens) for layer in layers)
        total += 0 if self.experts is None else self.experts.flops(self.width, tokens)
        if isinstance(head, VocabularyHeadConfig):
            factor = self.embedding.factor if self.embedding.shares_output else None
            return total + head.flops(layers[-1].width, vocab, tokens, factor)
        places = batch if isinstance(head, PooledHeadConfig) else tokens
        return total + head.flops(layers[-1].width, classes or 0, places)


class SingleRecurrent(nn.Module):
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
        self.output_dropout = Drop(drop.output, drop.locked)
        if isinstance(head, VocabularyHeadConfig):
            shared = self.embedding if config.embedding.shares_output else None
            self.head: nn.Module = head.build(layers[-1].width, vocab, shared)
        else:
            self.head = head.build(layers[-1].width, classes or 0)
        config.initialise.apply(self, config.depth)

    def forward(self, sequences: Sequences, segments: Int[Tensor, "batch time"] | None = None) -> Tensor:
        """Scores over the vocabulary or the classes at each place, or over the classes for each row."""
        x = self.hidden(sequences, segments)
        return self.head(x, sequences.layout.valid) if isinstance(self.head, PooledHead) else self.head(x)

    def hidden(
        self, sequences: Sequences, segments: Int[Tensor, "batch time"] | None = None
    ) -> Float[Tensor, "batch time width"]:
        """The vectors of all tokens after the top layer: what the output layer is given."""
        layout = sequences.layout
        refuse_packed(layout)
        x = self.input_dropout(self.embedding(sequences.tokens, segments))
        x, _ = self.stack(x, self._lengths(layout), valid=None if layout.whole else layout.valid)
        return self.output_dropout(x)

    def _lengths(self, layout: Layout) -> Int[Tensor, " batch"] | None:
        """Where rows end; who reads forward only never comes from padding to a token and need not know."""
        return None if self.config.direction == "forward" else row_ends(layout)


class RecurrentDecoderConfig(SingleRecurrentConfig):
    """The language model before the Transformer: an RNN, GRU or LSTM reads forward and predicts what follows.

    Strong settings of the time (Zaremba 2014, Merity 2018): two or three LSTM layers, heavy dropout, `dropout.locked`,
    `dropout.memory`, an output layer that shares the embedding. Where we differ: every row starts with an empty memory,
    none is carried over from the batch before.
    """

    kind: Literal["recurrent"] = "recurrent"
    shape: ClassVar[str] = "decoder"
    direction: ClassVar[Direction] = "forward"

    def build(self, vocab: int, classes: int | None = None) -> "RecurrentDecoder":
        """The model for a vocabulary, and for classes if it is to tell them apart."""
        return RecurrentDecoder(self, vocab, classes)


@dataclass(frozen=True, eq=False)
class Read:
    """What a recurrent decoder knows of all it has read or written: one memory a layer, however long the text."""

    memories: tuple[Memory, ...]

    def reorder(self, rows: Int[Tensor, " rows"]) -> "Read":
        """The chosen rows, copied."""
        return replace(self, memories=tuple(memory.reorder(rows) for memory in self.memories))


class RecurrentDecoder(SingleRecurrent):
    """Every token knows those before it through the layers' memories; a Stepper."""

    def start(self, source: Sequences | None, *, rows: int, capacity: int) -> Read:
        """Nothing read yet; memories need no room for what is to come."""
        if source is not None:
            raise ConfigError(
                "model.kind", "a recurrent language model has no source; give the text as a prompt instead"
            )
        return Read(self.stack.blank(rows))

    @torch.no_grad()
    def step(
        self, tokens: Int[Tensor, "batch time"], state: Read, lengths: Int[Tensor, " batch"] | None = None
    ) -> tuple[Float[Tensor, "batch time vocab"], Read]:
        """Appends tokens to each row; the logits of what follows them."""
        ends = None if lengths is None else lengths.cpu()
        x, memories = self.stack(self.input_dropout(self.embedding(tokens)), ends, state.memories)
        return self.head(self.output_dropout(x)), replace(state, memories=memories)

    def reorder(self, state: Read, rows: Int[Tensor, " rows"]) -> Read:
        """The state of the chosen rows."""
        return state.reorder(rows)


class RecurrentEncoderConfig(SingleRecurrentConfig):
    """Recurrent layers that read both ways, half the width each: classification, tagging, masked language models."""

    kind: Literal["recurrent-encoder"] = "recurrent-encoder"
    shape: ClassVar[str] = "encoder"
    direction: ClassVar[Direction] = "both"

    @model_validator(mode="after")
    def _two_halves(self) -> "RecurrentEncoderConfig":
        even_width(self.width, "width")
        even_width(self.token_width, "embedding_width")
        return self

    def build(self, vocab: int, classes: int | None = None) -> "RecurrentEncoder":
        """The model for a vocabulary, and for classes if it is to tell them apart."""
        return RecurrentEncoder(self, vocab, classes)


class RecurrentEncoder(SingleRecurrent):
    """Every token knows all others, through memories that passed all those between."""
