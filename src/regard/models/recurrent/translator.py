"""What all recurrent encoder-decoders have in common: they differ in their two stacks only.

The decoder is computed in the same way in training and in writing: from a state and some tokens to vectors and the next
state. In training the tokens are the whole target at once. That asks for attention that stands beside or above a
recurrent layer and never inside its loop, which is where these models depart from some of their papers.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Bool, Float, Int
from pydantic import PositiveInt, model_validator
from torch import Tensor, nn

from regard.config import refuse
from regard.models.contract import GenerativeModel
from regard.models.recurrent.single_stack import RecurrentConfig, refuse_packed
from regard.models.stepper import padded_source
from regard.nn.attention.seq2seq import SourceKV
from regard.nn.dropout import LockedDropout
from regard.nn.head import VocabularyHeadConfig
from regard.nn.layout import Layout, Sequences
from regard.nn.recurrent import HiddenState, Vectors


@dataclass(frozen=True, eq=False)
class Encoded:
    """An encoded source: a vector per token, and the layers' last hidden states."""

    vectors: Vectors
    layout: Layout
    hidden_states: tuple[HiddenState, ...] = ()

    @property
    def valid(self) -> Bool[Tensor, "batch time"] | None:
        """False for padding; None: no padding."""
        return None if self.layout.whole else self.layout.valid

    @property
    def source_rows(self) -> Int[Tensor, " batch"]:
        return torch.arange(len(self.vectors), device=self.vectors.device)


@dataclass(frozen=True, eq=False)
class TranslatorState:
    """The decoding state: one hidden state per layer, and the source's keys and values."""

    hidden_states: tuple[HiddenState, ...]
    source_rows: Int[Tensor, " batch"]
    """Which source each row decodes; the rows of a beam share one."""
    source_kv: SourceKV | None = None

    def reorder(self, rows: Int[Tensor, " rows"]) -> "TranslatorState":
        """The chosen rows; the source is copied only where rows change their source."""
        hidden_states, source_rows = (
            tuple(hidden_state.reorder(rows) for hidden_state in self.hidden_states),
            self.source_rows[rows],
        )
        source_kv = self.source_kv
        if source_kv is not None and not torch.equal(source_rows, self.source_rows):
            source_kv = source_kv.reorder(rows)
        return TranslatorState(hidden_states, source_rows, source_kv)


class TranslatorEncoder(nn.Module, ABC):
    """The encoder of a recurrent translator."""

    @abstractmethod
    def forward(self, x: Float[Tensor, "batch time inputs"], layout: Layout) -> Encoded:
        """What the encoder has to say about each token."""


class TranslatorDecoder(nn.Module, ABC):
    """The decoder of a recurrent translator."""

    @abstractmethod
    def initial_state(self, encoded: Encoded) -> TranslatorState:
        """The state before the first token."""

    @abstractmethod
    def forward(
        self,
        x: Float[Tensor, "batch time inputs"],
        state: TranslatorState,
        lengths: Int[Tensor, " batch"] | None = None,
        valid: Bool[Tensor, "batch time"] | None = None,
    ) -> tuple[Vectors, TranslatorState]:
        """The output layer's inputs, and the state after these tokens."""


class TranslatorConfig(RecurrentConfig):
    """Settings that every recurrent encoder-decoder has."""

    shape: ClassVar[str] = "encoder-decoder"
    decoder_depth: PositiveInt | None = None
    """Layers of the decoder; as many as the encoder's when left out."""
    head: VocabularyHeadConfig = VocabularyHeadConfig(bias=True)
    """Output layer."""

    @model_validator(mode="after")
    def _output_fits(self) -> "TranslatorConfig":
        if self.embedding.shares_output and self.head_width != self.token_width:
            raise refuse(
                "embedding.share",
                f"'{self.embedding.share}' lets the output layer use tokens' vectors of {self.token_width} numbers, "
                f"but it is given {self.head_width}; share 'inputs' or 'none'",
            )
        return self

    @property
    def target_depth(self) -> int:
        return self.decoder_depth or self.depth

    @property
    def head_width(self) -> int:
        return self.width

    def build_encoder(self) -> TranslatorEncoder:
        raise TypeError(f"{type(self).__name__} must build its encoder")

    def build_decoder(self) -> TranslatorDecoder:
        raise TypeError(f"{type(self).__name__} must build its decoder")

    def stacks_params(self) -> int:
        raise TypeError(f"{type(self).__name__} must count its parameters")

    def stacks_flops(self, batch: int, source: int, target: int) -> int:
        raise TypeError(f"{type(self).__name__} must count its FLOPs")

    def build(self, source_vocab: int, target_vocab: int | None = None) -> "RecurrentTranslator":
        return RecurrentTranslator(self, source_vocab, self.embedding.target_vocab(source_vocab, target_vocab))

    def num_params(self, source_vocab: int, target_vocab: int | None = None) -> int:
        target_vocab, embedding = self.embedding.target_vocab(source_vocab, target_vocab), self.embedding
        total = embedding.num_params(target_vocab, self.token_width) + self.stacks_params()
        total += 0 if embedding.shares_inputs else embedding.num_params(source_vocab, self.token_width)
        return total + self.head.num_params(self.head_width, target_vocab, shared=embedding.shares_output)

    def flops(self, batch: int, source: int, target: int, vocab: int) -> int:
        factor = self.embedding.factor if self.embedding.shares_output else None
        total = self.embedding.flops(self.token_width, batch * (source + target))
        total += self.stacks_flops(batch, source, target)
        return total + self.head.flops(self.head_width, vocab, batch * target, factor)


class RecurrentTranslator(GenerativeModel[TranslatorConfig, TranslatorState]):
    """decoder(target so far, encoder(source)); a `Stepper`."""

    def __init__(self, config: TranslatorConfig, source_vocab: int, target_vocab: int) -> None:
        super().__init__()
        self.config = config
        embedding = config.embedding
        self.target_embedding = embedding.build(target_vocab, config.token_width)
        separate = None if embedding.shares_inputs else embedding.build(source_vocab, config.token_width)
        self.source_embedding = separate or self.target_embedding
        self.input_dropout = config.dropout.on_inputs()
        self.encoder, self.decoder = config.build_encoder(), config.build_decoder()
        self.output_dropout = LockedDropout(config.dropout.output, config.dropout.locked)
        shared = self.target_embedding if embedding.shares_output else None
        self.head = config.head.build(config.head_width, target_vocab, shared)
        config.initialise.apply(self, config.depth)

    def forward(self, source: Sequences, target: Sequences) -> Float[Tensor, "batch time vocab"]:
        return self.head(self.hidden(source, target))

    def hidden(self, source: Sequences, target: Sequences) -> Float[Tensor, "batch time width"]:
        refuse_packed(target.layout)
        valid = None if target.layout.whole else target.layout.valid
        x = self.input_dropout(self.target_embedding(target.tokens))
        y, _ = self.decoder(x, self.decoder.initial_state(self.encode(source)), valid=valid)
        return self.output_dropout(y)

    def encode(self, source: Sequences) -> Encoded:
        refuse_packed(source.layout)
        return self.encoder(self.input_dropout(self.source_embedding(source.tokens)), source.layout)

    @torch.no_grad()
    def start(self, source: Sequences | None, *, rows: int, capacity: int) -> TranslatorState:
        """Encodes the source; the state's size does not depend on `capacity`."""
        source = padded_source(source, rows)
        return self.decoder.initial_state(self.encode(source))

    @torch.no_grad()
    def step(
        self, tokens: Int[Tensor, "batch time"], state: TranslatorState, lengths: Int[Tensor, " batch"] | None = None
    ) -> tuple[Float[Tensor, "batch time vocab"], TranslatorState]:
        ends = None if lengths is None else lengths.cpu()
        y, state = self.decoder(self.input_dropout(self.target_embedding(tokens)), state, ends)
        return self.head(self.output_dropout(y)), state
