"""ByteNet (Kalchbrenner 2016): a causal dilated decoder on top of a dilated encoder, without attention."""

from collections.abc import Sequence
from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from pydantic import Field, NonNegativeInt, PositiveInt, model_validator
from torch import Tensor, nn
from typing_extensions import override

from regard.config import refuse
from regard.models.convolutional.base import Seq2Seq, Seq2SeqConfig, refuse_dropout
from regard.nn.convolution import Convolution, Window, convolution_flops, convolution_params, dilations, zero_padding
from regard.nn.dropout import DropLayers, Dropout, DropoutConfig, DropoutSettings, DropWords
from regard.nn.head import VocabularyHeadConfig
from regard.nn.initialise import InitialiseConfig, XavierConfig
from regard.nn.layers import Layers
from regard.nn.layout import Sequences
from regard.nn.norm import LayerNormConfig, NormConfig

Vectors = Float[Tensor, "batch time width"]


class ByteNetConfig(Seq2SeqConfig):
    """ByteNet: dilated convolutions in time linear in the length, without attention.

    As in the paper: residual blocks with norm and ReLU before each of their three convolutions; dilations that double
    and begin again; a masked decoder on top of the encoder, whose place t reads the encoder's column t; dynamic
    unfolding (the encoder works on the source drawn out to a·|s| + b columns, the decoder hears nothing beyond them);
    one more convolution with ReLU before the output layer. The paper's translator: characters, width 1600, depth 30.

    Where we differ: a column and the target's vector are laid side by side and mapped to the width (the paper does not
    say how they meet; `add` adds them); that last convolution is followed by a norm; the multiplicative blocks that the
    paper uses for language models are left out; dropout, which the paper does without, and subwords are possible.
    """

    kind: Literal["bytenet"] = "bytenet"
    depth: PositiveInt = 10
    """Residual blocks of the encoder."""
    inner: PositiveInt | None = None
    """Width inside a block, between its first and last convolution; half the model's width when left out."""
    kernel: PositiveInt = 3
    """Kernel size in tokens."""
    decoder_kernel: PositiveInt | None = None
    """Kernel size of the decoder; the encoder's when left out."""
    dilation: PositiveInt = 16
    """Largest dilation: dilations double from block to block up to it, then start again."""
    stretch: float = Field(1.2, ge=1)
    """a in |t̂| = a·|s| + b, the columns that a source of |s| tokens is drawn out to."""
    extra: NonNegativeInt = 0
    """b in |t̂| = a·|s| + b."""
    join: Literal["concat", "add"] = "concat"
    """How the decoder takes in the source's column: beside the target's vector and mapped, or added to it."""
    norm: NormConfig = LayerNormConfig()
    """Normalisation before each convolution."""
    dropout: DropoutConfig = DropoutSettings(embedding=0.1, residual=0.1)
    """Dropout rates while training; one number sets embedding and residual."""
    head: VocabularyHeadConfig = VocabularyHeadConfig(bias=True, transform="relu")
    """Output layer."""
    initialise: InitialiseConfig = XavierConfig()
    """Initialisation of the parameters."""

    @model_validator(mode="after")
    def _fits_together(self) -> "ByteNetConfig":
        refuse_dropout(self.dropout, "attention", "feedforward")
        if self.inner is None and self.width % 2:
            raise refuse("width", f"expected an even number, as blocks are half as wide inside, got {self.width}")
        return self

    @property
    def inner_width(self) -> int:
        return self.inner or self.width // 2

    @property
    def target_kernel(self) -> int:
        return self.decoder_kernel or self.kernel

    def build(self, source_vocab: int, target_vocab: int | None = None) -> "ByteNet":
        return ByteNet(self, source_vocab, self.embedding.target_vocab(source_vocab, target_vocab))

    def columns(self, source: int) -> int:
        """|t̂| = a·|s| + b, rounded down: how many columns the encoder makes of a source."""
        return int(self.stretch * source) + self.extra

    def num_params(self, source_vocab: int, target_vocab: int | None = None) -> int:
        blocks = self.depth * self._block_params(self.kernel)
        blocks += self.target_depth * self._block_params(self.target_kernel)
        join = 2 * self.width * self.width + self.width if self.join == "concat" else 0
        return self.outer_params(source_vocab, target_vocab) + blocks + join

    def _block_params(self, kernel: int) -> int:
        width, inner = self.width, self.inner_width
        projections = width * inner + inner + inner * width + width
        norms = self.norm.num_params(width) + 2 * self.norm.num_params(inner)
        return projections + convolution_params(inner, inner, kernel) + norms

    def flops(self, batch: int, source: int, target: int, vocab: int) -> int:
        columns, target_tokens = batch * self.columns(source), batch * target
        blocks = self.depth * self._block_flops(self.kernel, columns)
        blocks += self.target_depth * self._block_flops(self.target_kernel, target_tokens)
        join = 4 * target_tokens * self.width * self.width if self.join == "concat" else 0
        return self.outer_flops(batch, source, target, vocab) + blocks + join

    def _block_flops(self, kernel: int, tokens: int) -> int:
        inner = self.inner_width
        return 4 * tokens * self.width * inner + convolution_flops(inner, inner, kernel, tokens)


class ByteNetBlock(nn.Module):
    """x + W₃ f(K ∗ f(W₁ f(x))): project down, convolve, project up; f is a norm, then ReLU."""

    def __init__(self, convolution: Convolution, width: int, norm: NormConfig, dropout: nn.Module) -> None:
        super().__init__()
        inner = convolution.width
        self.norm_down, self.down = norm.build(width), nn.Linear(width, inner)
        self.norm_around, self.convolution = norm.build(inner), convolution
        self.norm_up, self.up = norm.build(inner), nn.Linear(inner, width)
        self.dropout = dropout

    def forward(
        self, x: Vectors, valid: Bool[Tensor, "batch time"] | None = None, window: Window | None = None
    ) -> Vectors:
        """Norms are computed in x's dtype, matmuls perhaps not."""
        h = self.down(F.relu(self.norm_down(x))).to(x.dtype)
        h = zero_padding(F.relu(self.norm_around(h)), valid)
        h = self.convolution(h, window).to(x.dtype)
        return x + self.dropout(self.up(F.relu(self.norm_up(h))))


class ByteNet(Seq2Seq[ByteNetConfig]):
    """decoder(target so far beside encoder(source drawn out)), column by column; a `Stepper`."""

    def __init__(self, config: ByteNetConfig, source_vocab: int, target_vocab: int) -> None:
        super().__init__(config, source_vocab, target_vocab)
        self.config = config
        self.dropout = nn.Sequential(DropWords(config.dropout.word), Dropout(config.dropout.embedding))
        self.encoder = self._blocks(config.depth, config.kernel, causal=False)
        self.join = nn.Linear(2 * config.width, config.width) if config.join == "concat" else None
        self.decoder = self._blocks(config.target_depth, config.target_kernel, causal=True)
        config.initialise.apply(self, config.depth)

    def _blocks(self, depth: int, kernel: int, causal: bool) -> Layers[ByteNetBlock]:
        config, inner, drop = self.config, self.config.inner_width, self.config.dropout
        blocks = Layers[ByteNetBlock]()
        for dilation in dilations(depth, config.dilation):
            convolution = Convolution(inner, inner, kernel, dilation=dilation, causal=causal)
            dropout = nn.Sequential(Dropout(drop.residual), DropLayers(drop.layer))
            blocks.append(ByteNetBlock(convolution, config.width, config.norm, dropout))
        return blocks

    @override
    def decoder_convolutions(self) -> list[Convolution]:
        return [block.convolution for block in self.decoder]

    @override
    def project_source(self, source: Sequences) -> tuple[Tensor, ...]:
        """One vector per column of the stretched source; zero beyond a row's columns, and in one last column."""
        layout, columns = source.layout, self.config.columns(source.tokens.shape[1])
        x = zero_padding(self.source_embedding(source.tokens), None if layout.whole else layout.valid)
        x = self.dropout(F.pad(x, (0, 0, 0, columns - x.shape[1])))
        valid = None if layout.whole else self._columns_of(layout.lengths, columns)
        for block in self.encoder:
            x = block(x, valid)
        return (F.pad(zero_padding(x, valid), (0, 0, 0, 1)),)

    def _columns_of(self, lengths: Int[Tensor, " batch"], columns: int) -> Bool[Tensor, "batch columns"]:
        columns_of_row = (
            lengths.double() * self.config.stretch
        ).long() + self.config.extra  # as `columns` reckons, row by row
        return torch.arange(columns, device=lengths.device) < columns_of_row[:, None]

    @override
    def decode(
        self,
        tokens: Int[Tensor, "batch time"],
        positions: Int[Tensor, "#batch time"],
        source_kv: tuple[Tensor, ...],
        windows: Sequence[Window] | None = None,
    ) -> Float[Tensor, "batch time width"]:
        """Each target position reads the source column of the same index."""
        (encoded,) = source_kv
        column = torch.take_along_dim(encoded, positions.clamp(max=encoded.shape[1] - 1)[..., None], dim=1)
        x = self.dropout(self.target_embedding(tokens))
        # what flows from block to block keeps the embedding's precision, whatever products are computed in
        x = x + column if self.join is None else self.join(torch.cat([x, column], dim=-1)).to(x.dtype)
        for number, block in enumerate(self.decoder):
            x = block(x, None, windows[number] if windows is not None else None)
        return x
