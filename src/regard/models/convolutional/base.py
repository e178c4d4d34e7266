"""What convolutional models share: settings, decoding state, and the encoder-decoder around both sides."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, TypeVar

import torch
from jaxtyping import Float, Int
from pydantic import PositiveInt, model_validator
from torch import Tensor

from regard.config import refuse
from regard.errors import ConfigError, ShapeError
from regard.models.contract import GenerativeModel, ModelConfig
from regard.models.stepper import padded_source
from regard.nn.cache import CacheLengths
from regard.nn.convolution import Convolution, Window
from regard.nn.dropout import DropoutSettings
from regard.nn.embedding import EmbeddingConfig
from regard.nn.head import VocabularyHeadConfig
from regard.nn.layout import Layout, Sequences


def refuse_packed(*layouts: Layout) -> None:
    """Raises for packed rows, where a convolution would mix neighbouring sequences."""
    if any(layout.packed for layout in layouts):
        raise ConfigError(
            "data.batching",
            "a convolution would look from one packed sequence into its neighbour; choose 'bucketed' batches",
        )


def refuse_dropout(dropout: DropoutSettings, *unknown: str) -> None:
    """Raises for dropout of parts that the model does not have."""
    for part in unknown:
        if getattr(dropout, part):
            raise refuse(f"dropout.{part}", "this model has no such part; leave it out")


@dataclass(frozen=True, eq=False)
class ConvolutionState:
    """The decoding state of a convolutional model: each layer's last inputs, and the encoded source."""

    cache_lengths: CacheLengths
    layer_inputs: tuple[Float[Tensor, "batch _ _"], ...]
    source_kv: tuple[Tensor, ...] = ()
    """The encoded source of each row."""
    source_rows: Int[Tensor, " batch"] | None = None
    """Which source each row decodes; the rows of a beam share one."""

    @classmethod
    def start(cls, convolutions: Iterable[Convolution], like: Tensor, rows: int, capacity: int) -> "ConvolutionState":
        layer_inputs = tuple(convolution.initial_past(rows, like) for convolution in convolutions)
        return cls(CacheLengths.empty(rows, capacity, like.device), layer_inputs)

    def windows(self, time: int, lengths: Int[Tensor, " batch"] | None) -> list[Window]:
        """The cached inputs of each layer, for `time` more tokens."""
        end = self.cache_lengths.longest + time
        if end > self.cache_lengths.capacity:
            raise ShapeError(
                f"the state has room for {self.cache_lengths.capacity} tokens, got {end}; ask for more capacity"
            )
        return [Window(past, lengths) for past in self.layer_inputs]

    def after(self, windows: Sequence[Window], time: int, lengths: Int[Tensor, " batch"] | None) -> "ConvolutionState":
        """The state after these tokens."""
        return replace(
            self,
            cache_lengths=self.cache_lengths.advance(time, lengths),
            layer_inputs=tuple(window.past for window in windows),
        )

    def reorder(self, rows: Int[Tensor, " rows"]) -> "ConvolutionState":
        """The chosen rows; the source is copied only where rows change their source."""
        source_kv, source_rows = self.source_kv, self.source_rows
        if source_rows is not None and not torch.equal(source_rows[rows], source_rows):
            source_kv, source_rows = tuple(part[rows] for part in source_kv), source_rows[rows]
        return ConvolutionState(
            self.cache_lengths.reorder(rows), tuple(past[rows] for past in self.layer_inputs), source_kv, source_rows
        )


class Seq2SeqConfig(ModelConfig):
    """Settings of convolutional encoder-decoders."""

    shape: ClassVar[str] = "encoder-decoder"
    width: PositiveInt = 256
    """Width of each token's vector between the layers."""
    depth: PositiveInt = 6
    """Layers of the encoder."""
    decoder_depth: PositiveInt | None = None
    """Layers of the decoder; as many as the encoder's when left out."""
    embedding: EmbeddingConfig = EmbeddingConfig(share="none")
    """Embeddings, and which matrices source, target and output share."""
    head: VocabularyHeadConfig = VocabularyHeadConfig(bias=True)
    """Output layer."""

    @model_validator(mode="after")
    def _no_norm_of_inputs(self) -> "Seq2SeqConfig":
        if self.embedding.norm:
            raise refuse(
                "embedding.norm", "only Transformers and word windows have a norm on their inputs; leave it out"
            )
        return self

    @property
    def target_depth(self) -> int:
        return self.decoder_depth or self.depth

    def outer_params(self, source_vocab: int, target_vocab: int | None) -> int:
        """Parameters of embeddings and output layer."""
        target_vocab = self.embedding.target_vocab(source_vocab, target_vocab)
        total = self.embedding.num_params(target_vocab, self.width)
        total += 0 if self.embedding.shares_inputs else self.embedding.num_params(source_vocab, self.width)
        return total + self.head.num_params(self.width, target_vocab, shared=self.embedding.shares_output)

    def outer_flops(self, batch: int, source: int, target: int, vocab: int) -> int:
        """Matmul FLOPs of embeddings and output layer."""
        factor = self.embedding.factor if self.embedding.shares_output else None
        total = self.embedding.flops(self.width, batch * (source + target))
        return total + self.head.flops(self.width, vocab, batch * target, factor)


AnySeq2SeqConfig = TypeVar("AnySeq2SeqConfig", bound=Seq2SeqConfig)


class Seq2Seq(GenerativeModel[AnySeq2SeqConfig, ConvolutionState]):
    """Embeddings and output layer around `project_source` and `decode`; a `Stepper`."""

    def __init__(self, config: Seq2SeqConfig, source_vocab: int, target_vocab: int) -> None:
        super().__init__()
        embedding = config.embedding
        self.target_embedding = embedding.build(target_vocab, config.width)
        separate = None if embedding.shares_inputs else embedding.build(source_vocab, config.width)
        self.source_embedding = separate or self.target_embedding
        shared = self.target_embedding if embedding.shares_output else None
        self.head = config.head.build(config.width, target_vocab, shared)

    def project_source(self, source: Sequences) -> tuple[Tensor, ...]:
        """The encoded source as the decoder reads it."""
        raise TypeError(f"{type(self).__name__} must say what it hears")

    def decode(
        self,
        tokens: Int[Tensor, "batch time"],
        positions: Int[Tensor, "#batch time"],
        source_kv: tuple[Tensor, ...],
        windows: Sequence[Window] | None = None,
    ) -> Float[Tensor, "batch time width"]:
        """The vectors of the target's tokens at these positions; with windows, of new tokens only."""
        raise TypeError(f"{type(self).__name__} must say how it writes")

    def decoder_convolutions(self) -> list[Convolution]:
        """The decoder's convolutions, one per window."""
        raise TypeError(f"{type(self).__name__} must name its convolutions")

    def forward(self, source: Sequences, target: Sequences) -> Float[Tensor, "batch time vocab"]:
        return self.head(self.hidden(source, target))

    def hidden(self, source: Sequences, target: Sequences) -> Float[Tensor, "batch time width"]:
        refuse_packed(source.layout, target.layout)
        return self.decode(target.tokens, target.layout.positions, self.project_source(source))

    @torch.no_grad()
    def start(self, source: Sequences | None, *, rows: int, capacity: int) -> ConvolutionState:
        source = padded_source(source, rows)
        state = ConvolutionState.start(self.decoder_convolutions(), self.target_embedding.table.weight, rows, capacity)
        source_rows = torch.arange(rows, device=source.tokens.device)
        return replace(state, source_kv=self.project_source(source), source_rows=source_rows)

    @torch.no_grad()
    def step(
        self, tokens: Int[Tensor, "batch time"], state: ConvolutionState, lengths: Int[Tensor, " batch"] | None = None
    ) -> tuple[Float[Tensor, "batch time vocab"], ConvolutionState]:
        time = tokens.shape[1]
        windows = state.windows(time, lengths)
        x = self.decode(tokens, state.cache_lengths.next_positions(time), state.source_kv, windows)
        return self.head(x), state.after(windows, time, lengths)
