"""The lectures' word windows: stacked convolutions as encoder and as language model.

The receptive field grows by one kernel per layer, so that two tokens T apart interact only after about
T/kernel layers; with dilations that double from layer to layer, after about log T.
"""

from collections.abc import Sequence
from typing import ClassVar, Literal

import torch
from jaxtyping import Bool, Float, Int
from pydantic import PositiveInt, model_validator
from torch import Tensor, nn

from regard.errors import ConfigError
from regard.models.contract import GenerativeModel, Model, ModelConfig
from regard.models.convolutional.base import ConvolutionState, refuse_dropout, refuse_packed
from regard.nn.block import NormPlace, Residual
from regard.nn.convolution import (
    Convolution,
    Window,
    convolution_flops,
    convolution_params,
    dilations,
    receptive_field,
    zero_padding,
)
from regard.nn.dropout import Dropout, DropoutConfig, DropoutSettings, DropWords
from regard.nn.embedding import EmbeddingConfig
from regard.nn.feedforward import Activation, activate
from regard.nn.head import (
    AnyHeadConfig,
    HeadConfig,
    PooledHead,
    PooledHeadConfig,
    VocabularyHeadConfig,
    head_for,
)
from regard.nn.initialise import InitialiseConfig, XavierConfig
from regard.nn.layers import Layers
from regard.nn.layout import Sequences
from regard.nn.norm import LayerNormConfig, NormConfig

Vectors = Float[Tensor, "batch time width"]


class WindowsConfig(ModelConfig):
    """Settings of stacked convolutions: h_t = f(W [window of tokens around t] + b)."""

    width: PositiveInt = 256
    """Width of the model (d): elements of each token's vector."""
    depth: PositiveInt = 6
    """Number of layers."""
    kernel: PositiveInt = 5
    """Kernel size in tokens."""
    dilation: PositiveInt = 1
    """Largest dilation: dilations double from layer to layer up to it, then start again; 1: none."""
    activation: Activation = "relu"
    """The activation f."""
    norm: NormConfig = LayerNormConfig()
    """Normalisation."""
    norm_place: NormPlace = "before"
    """Normalise `before` each layer or `after` it."""
    final_norm: bool | None = None
    """Norm after the last layer; when left out, only with norm_place `before`."""
    residual: bool = True
    """Residual connections; off, to show what happens without."""
    dropout: DropoutConfig = DropoutSettings(embedding=0.1, residual=0.1)
    """Dropout rates while training; one number sets embedding and residual."""
    embedding: EmbeddingConfig = EmbeddingConfig()
    """Embeddings, and whether the output layer shares their matrix."""
    head: HeadConfig | None = None
    """Output layer; when left out, the one the task needs: vocabulary, or pooled where there are classes."""
    initialise: InitialiseConfig = XavierConfig()
    """Initialisation of the parameters."""

    @model_validator(mode="after")
    def _drops_what_there_is(self) -> "WindowsConfig":
        refuse_dropout(self.dropout, "attention", "feedforward")
        return self

    @property
    def dilations(self) -> list[int]:
        return dilations(self.depth, self.dilation)

    @property
    def receptive_field(self) -> int:
        """Tokens that one output depends on."""
        return receptive_field(self.kernel, self.dilations)

    @property
    def has_final_norm(self) -> bool:
        return self.norm_place == "before" if self.final_norm is None else self.final_norm

    def head_for(self, classes: int | None) -> AnyHeadConfig:
        return head_for(self.head, classes)

    def num_params(self, vocab: int, classes: int | None = None) -> int:
        head, width = self.head_for(classes), self.width
        if isinstance(head, VocabularyHeadConfig):
            output = head.num_params(width, vocab, self.embedding.shares_output)
        else:
            output = head.num_params(width, classes or 0)
        norms = self.depth + self.has_final_norm + self.embedding.norm
        layers = self.depth * convolution_params(width, width, self.kernel) + norms * self.norm.num_params(width)
        return self.embedding.num_params(vocab, width) + layers + output

    def flops(self, batch: int, time: int, vocab: int, classes: int | None = None) -> int:
        head, tokens = self.head_for(classes), batch * time
        total = self.depth * convolution_flops(self.width, self.width, self.kernel, tokens)
        total += self.embedding.flops(self.width, tokens)
        if isinstance(head, VocabularyHeadConfig):
            factor = self.embedding.factor if self.embedding.shares_output else None
            return total + head.flops(self.width, vocab, tokens, factor)
        return total + head.flops(self.width, classes or 0, batch if isinstance(head, PooledHeadConfig) else tokens)


class WindowLayer(nn.Module):
    """x + f(W [window of norm(x)] + b), or as `around` is set."""

    def __init__(self, convolution: Convolution, around: Residual, activation: Activation = "relu") -> None:
        super().__init__()
        self.convolution, self.around = convolution, around
        self.activation: Activation = activation

    def forward(
        self, x: Vectors, valid: Bool[Tensor, "batch time"] | None = None, window: Window | None = None
    ) -> Vectors:
        return self.around(x, lambda h: activate(self.convolution(zero_padding(h, valid), window), self.activation))


class WindowModel(Model[WindowsConfig]):
    """Embedding, convolutions, output layer."""

    def __init__(self, config: WindowsConfig, vocab: int, classes: int | None, causal: bool) -> None:
        super().__init__()
        self.config, self.causal = config, causal
        head, norm, drop = config.head_for(classes), config.norm, config.dropout
        self.embedding = config.embedding.build(vocab, config.width)
        self.input_norm = norm.build(config.width) if config.embedding.norm else nn.Identity()
        self.dropout = nn.Sequential(DropWords(drop.word), Dropout(drop.embedding))
        self.layers = Layers[WindowLayer](self._layer(dilation) for dilation in config.dilations)
        self.final_norm = norm.build(config.width) if config.has_final_norm else nn.Identity()
        if isinstance(head, VocabularyHeadConfig):
            shared = self.embedding if config.embedding.shares_output else None
            self.head = head.build(config.width, vocab, shared)
        else:
            self.head = head.build(config.width, classes or 0)
        config.initialise.apply(self, config.depth)

    def _layer(self, dilation: int) -> WindowLayer:
        config, drop = self.config, self.config.dropout
        norm = config.norm.build(config.width)
        convolution = Convolution(config.width, config.width, config.kernel, dilation=dilation, causal=self.causal)
        around = Residual(norm, config.norm_place, config.residual, drop.residual, drop.layer)
        return WindowLayer(convolution, around, config.activation)

    def forward(self, sequences: Sequences, segments: Int[Tensor, "batch time"] | None = None) -> Tensor:
        """Logits over the vocabulary or the classes at each position, or over the classes for each row."""
        x = self.hidden(sequences, segments)
        return self.head(x, sequences.layout.valid) if isinstance(self.head, PooledHead) else self.head(x)

    def hidden(self, sequences: Sequences, segments: Int[Tensor, "batch time"] | None = None) -> Vectors:
        """The vectors of all tokens after the last layer."""
        layout = sequences.layout
        refuse_packed(layout)
        # padding stands on the right: who looks back only never sees it
        return self.slide(sequences.tokens, segments, None if self.causal or layout.whole else layout.valid)

    def slide(
        self,
        tokens: Int[Tensor, "batch time"],
        segments: Int[Tensor, "batch time"] | None = None,
        valid: Bool[Tensor, "batch time"] | None = None,
        windows: Sequence[Window] | None = None,
    ) -> Vectors:
        x = self.dropout(self.input_norm(self.embedding(tokens, segments)))
        for number, layer in enumerate(self.layers):
            x = layer(x, valid, windows[number] if windows is not None else None)
        return self.final_norm(x)


class WindowEncoderConfig(WindowsConfig):
    """Centred convolutions: classification, tagging."""

    kind: Literal["window-encoder"] = "window-encoder"
    shape: ClassVar[str] = "encoder"

    def build(self, vocab: int, classes: int | None = None) -> "WindowEncoder":
        return WindowEncoder(self, vocab, classes)


class WindowEncoder(WindowModel):
    """Every token depends on its neighbours on both sides."""

    def __init__(self, config: WindowEncoderConfig, vocab: int, classes: int | None = None) -> None:
        super().__init__(config, vocab, classes, causal=False)


class WindowDecoderConfig(WindowsConfig):
    """Causal convolutions: a language model with a fixed receptive field."""

    kind: Literal["window-decoder"] = "window-decoder"
    shape: ClassVar[str] = "decoder"

    def build(self, vocab: int, classes: int | None = None) -> "WindowDecoder":
        return WindowDecoder(self, vocab, classes)


class WindowDecoder(WindowModel, GenerativeModel[WindowsConfig, ConvolutionState]):
    """Every token depends on itself and a few before it; a `Stepper`."""

    def __init__(self, config: WindowDecoderConfig, vocab: int, classes: int | None = None) -> None:
        super().__init__(config, vocab, classes, causal=True)

    def start(self, source: Sequences | None, *, rows: int, capacity: int) -> ConvolutionState:
        """The state before the first token; a decoder alone has no source."""
        if source is not None:
            raise ConfigError("model.kind", "a decoder has no source; give the text as a prompt instead")
        convolutions = [layer.convolution for layer in self.layers]
        return ConvolutionState.start(convolutions, self.embedding.table.weight, rows, capacity)

    @torch.no_grad()
    def step(
        self, tokens: Int[Tensor, "batch time"], state: ConvolutionState, lengths: Int[Tensor, " batch"] | None = None
    ) -> tuple[Float[Tensor, "batch time vocab"], ConvolutionState]:
        time = tokens.shape[1]
        windows = state.windows(time, lengths)
        return self.head(self.slide(tokens, windows=windows)), state.after(windows, time, lengths)
