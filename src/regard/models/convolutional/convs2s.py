"""ConvS2S (Gehring 2017): gated convolutions on both sides, and attention in every decoder layer."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from pydantic import BeforeValidator, PositiveFloat, PositiveInt, model_validator
from torch import Tensor, nn
from typing_extensions import override

from regard.config import BARE_KIND, BY_KIND, Config, refuse
from regard.errors import ConfigError
from regard.models.convolutional.base import ConvolutionState, Seq2Seq, Seq2SeqConfig
from regard.nn.attention.reference import AttentionSteps, reference_attention
from regard.nn.context import AttentionContext
from regard.nn.convolution import (
    Convolution,
    Window,
    convolution_flops,
    convolution_params,
    linear_map,
    linear_params,
    match_gains,
    zero_padding,
)
from regard.nn.dropout import Dropout, DropWords, Rate
from regard.nn.embedding import Embedding, EmbeddingConfig
from regard.nn.initialise import KeepConfig, NormalConfig, XavierConfig
from regard.nn.layers import Layers
from regard.nn.layout import Sequences
from regard.nn.pattern import Padding
from regard.nn.position import LearnedConfig, NoPositionConfig, Position, SinusoidalConfig

ROOT_HALF = math.sqrt(0.5)


@dataclass(frozen=True, eq=False)
class SourceKV:
    """Keys and values of the encoded source."""

    keys: Float[Tensor, "batch key width"]
    """z_j: the encoder's output"""
    values: Float[Tensor, "batch key width"]
    """(z_j + e_j)√½: with the token's embedding"""
    lengths: Int[Tensor, " batch"]
    """Tokens of each source."""


class MultiStepAttention(nn.Module):
    """c_i = √m Σ_j softmax_j(d_i·z_j)(z_j + e_j)√½ with d_i = (W h_i + b + g_i)√½, projected back to the layer's width.

    g_i is the embedding of the last token, m the number of source tokens: m·√(1/m) undoes what averaging
    does to the variance.
    """

    def __init__(self, hidden: int, width: int, weight_norm: bool = False) -> None:
        super().__init__()
        self.query = linear_map(hidden, width, weight_norm=weight_norm)
        self.output = linear_map(width, hidden, weight_norm=weight_norm)
        self.recorder: Callable[[AttentionSteps], None] | None = None

    def forward(
        self, h: Float[Tensor, "batch time hidden"], target: Float[Tensor, "batch time width"], source_kv: SourceKV
    ) -> Float[Tensor, "batch time hidden"]:
        """What the source has to say to each token of the target."""
        query = (self.query(h) + target) * ROOT_HALF
        # one head as wide as the model: wider than fused kernels take, so the reference is also the fast way
        steps = reference_attention(
            query[:, None],
            source_kv.keys[:, None],
            source_kv.values[:, None],
            Padding(keys=source_kv.lengths),
            scale=1.0,
        )
        if self.recorder is not None:
            self.recorder(steps)
        context = steps.output[:, 0]
        return self.output(context * source_kv.lengths[:, None, None].to(context.dtype).sqrt())


@dataclass(frozen=True)
class LayerShape:
    """The sizes of one layer."""

    into: int
    out: int
    kernel: int

    @property
    def needs_projection(self) -> bool:
        """Whether the residual connection needs a projection."""
        return self.into != self.out

    def num_params(self, weight_norm: bool, source_width: int | None = None) -> int:
        """Parameters, with those of the attention where there is a source."""
        total = convolution_params(self.into, 2 * self.out, self.kernel, weight_norm=weight_norm)
        total += linear_params(self.into, self.out, weight_norm=weight_norm) if self.needs_projection else 0
        if source_width is not None:
            total += linear_params(self.out, source_width, weight_norm=weight_norm)
            total += linear_params(source_width, self.out, weight_norm=weight_norm)
        return total

    def flops(self, tokens: int, source_width: int | None = None, source: int = 0) -> int:
        """FLOPs over this many tokens, each of which attends to `source` others."""
        total = convolution_flops(self.into, 2 * self.out, self.kernel, tokens)
        total += 2 * tokens * self.into * self.out if self.needs_projection else 0
        return total if source_width is None else total + 4 * tokens * source_width * (self.out + source)


class GatedLayer(nn.Module):
    """(GLU(K ∗ x) + x)√½, GLU([a; b]) = a ⊗ σ(b): one half gates the other."""

    def __init__(
        self, shape: LayerShape, *, causal: bool = False, dropout: float = 0.0, weight_norm: bool = False
    ) -> None:
        super().__init__()
        self.dropout = Dropout(dropout)
        self.convolution = Convolution(shape.into, 2 * shape.out, shape.kernel, causal=causal, weight_norm=weight_norm)
        self.shortcut = (
            linear_map(shape.into, shape.out, weight_norm=weight_norm) if shape.needs_projection else nn.Identity()
        )

    def gated(
        self,
        x: Float[Tensor, "batch time into"],
        valid: Bool[Tensor, "batch time"] | None = None,
        window: Window | None = None,
    ) -> Float[Tensor, "batch time out"]:
        return F.glu(self.convolution(zero_padding(self.dropout(x), valid), window), dim=-1)

    def forward(
        self, x: Float[Tensor, "batch time into"], valid: Bool[Tensor, "batch time"] | None = None
    ) -> Float[Tensor, "batch time out"]:
        return (self.gated(x, valid) + self.shortcut(x)) * ROOT_HALF


class GatedAttentionLayer(GatedLayer):
    """((h + attention(h))√½ + x)√½ with h = GLU(K ∗ x): a masked layer that attends to the source."""

    def __init__(self, shape: LayerShape, width: int, *, dropout: float = 0.0, weight_norm: bool = False) -> None:
        super().__init__(shape, causal=True, dropout=dropout, weight_norm=weight_norm)
        self.cross = MultiStepAttention(shape.out, width, weight_norm)

    def forward(  # type: ignore[override]
        self,
        x: Float[Tensor, "batch time into"],
        target: Float[Tensor, "batch time width"],
        source_kv: SourceKV,
        window: Window | None = None,
    ) -> Float[Tensor, "batch time out"]:
        """Each token with those before it and with the source."""
        h = self.gated(x, None, window)
        h = (h + self.cross(h, target, source_kv)) * ROOT_HALF
        return (h + self.shortcut(x)) * ROOT_HALF


def scale_gradient(x: Float[Tensor, "batch time width"], factor: float) -> Float[Tensor, "batch time width"]:
    """x itself, but its gradient is multiplied by a factor."""
    return x.detach() + factor * (x - x.detach())


class GatedNormalConfig(Config):
    """Normal with the variance that keeps activations as they are: 4p/n before a gate, 1/n elsewhere (Gehring 2017).

    n counts a matrix's inputs, p is the share of them that dropout leaves.
    """

    kind: Literal["gated-normal"] = "gated-normal"
    embedding: PositiveFloat = 0.1
    """Standard deviation of the vectors of tokens and places."""

    def apply(self, model: nn.Module, depth: int) -> None:
        for part in model.modules():
            if isinstance(part, nn.Embedding):
                nn.init.normal_(part.weight, std=self.embedding)
            elif isinstance(part, nn.Linear):
                nn.init.normal_(part.weight, std=part.in_features**-0.5)
                if part.bias is not None:
                    nn.init.zeros_(part.bias)
        for part in model.modules():
            if isinstance(part, GatedLayer):
                into = part.convolution.linear
                nn.init.normal_(into.weight, std=math.sqrt(4 * (1 - part.dropout.p) / into.in_features))


Vectors = Float[Tensor, "batch time width"]
InputPositionConfig = Annotated[LearnedConfig | SinusoidalConfig | NoPositionConfig, BY_KIND, BARE_KIND]
GatedInitialiseConfig = Annotated[GatedNormalConfig | XavierConfig | NormalConfig | KeepConfig, BY_KIND, BARE_KIND]


class ConvolutionDropoutSettings(Config):
    """Dropout rates while training."""

    embedding: Rate = 0.0
    """Elements of the input vectors, positions included."""
    convolution: Rate = 0.0
    """Elements of each convolution's input."""
    output: Rate = 0.0
    """Elements of the output layer's input."""
    word: Rate = 0.0
    """Whole input tokens."""


ConvolutionDropoutConfig = Annotated[
    ConvolutionDropoutSettings,
    BeforeValidator(
        lambda rate: (
            dict.fromkeys(("embedding", "convolution", "output"), rate) if isinstance(rate, int | float) else rate
        )
    ),
]
"""`dropout = 0.2` is short for that rate in all three places, as in Gehring 2017."""


class Stage(Config):
    """Consecutive layers of one size."""

    layers: PositiveInt
    """How many."""
    hidden: PositiveInt
    """Width inside these layers."""
    kernel: PositiveInt = 3
    """Kernel size in tokens."""


class ConvS2SConfig(Seq2SeqConfig):
    """ConvS2S: gated convolutions with multi-step attention.

    As in the paper: learned positions on both sides; gated linear units; sums scaled by √½; attention in every layer of
    the decoder, from the layer's state and the last token's vector g to the encoder's output z, which fetches z + e;
    the encoder's gradients scaled down, as every attention adds to them; weight normalisation of all layers; weights
    drawn so that variance is kept. The authors' en-de system: width 768, stages 9 × 512, 4 × 1024 (kernel 3) and
    2 × 2048 (kernel 1).

    Where we differ: the output layer has the model's width and no weight normalisation; before layers without a gate,
    the drawn variance takes no account of dropout.
    """

    kind: Literal["convs2s"] = "convs2s"
    hidden: PositiveInt | None = None
    """Width inside the layers; `width` when left out."""
    kernel: PositiveInt = 3
    """Kernel size in tokens."""
    stages: tuple[Stage, ...] = ()
    """Groups of layers of different sizes, for both sides, instead of `depth` layers of `hidden` and `kernel`."""
    position: InputPositionConfig = LearnedConfig(length=1024)
    """Position encoding."""
    weight_norm: bool = True
    """Learn the length of each row of a matrix apart from its direction."""
    scale_gradients: bool = True
    """Divide the encoder's gradients by twice the number of attentions, each of which reads it as key and value."""
    embedding: EmbeddingConfig = EmbeddingConfig(share="none", scale=False)
    """Embeddings, and which matrices source, target and output share."""
    dropout: ConvolutionDropoutConfig = ConvolutionDropoutSettings(embedding=0.1, convolution=0.1, output=0.1)
    """Dropout rates while training; one number sets embedding, convolution and output."""
    initialise: GatedInitialiseConfig = GatedNormalConfig()
    """Initialisation of the parameters."""

    @model_validator(mode="after")
    def _fits_together(self) -> "ConvS2SConfig":
        layers = sum(stage.layers for stage in self.stages)
        if self.stages and layers != self.depth:
            raise refuse("depth", f"expected {layers}, the layers of all stages, got {self.depth}")
        if self.stages and (self.hidden or self.decoder_depth):
            raise refuse("stages", "they give both sides their layers; leave hidden and decoder_depth out")
        if self.position.every_layer:
            raise refuse("position.layers", "this model places its tokens once, at the first layer")
        if self.position.in_heads:
            raise refuse("position.combine", "this model has no queries, keys and values of its tokens; add or concat")
        return self

    def shapes(self, depth: int) -> list[LayerShape]:
        """The sizes of each layer of a side, bottom first."""
        sizes = [(stage.hidden, stage.kernel) for stage in self.stages for _ in range(stage.layers)]
        sizes = sizes or [(self.hidden or self.width, self.kernel)] * depth
        below = [sizes[0], *sizes]
        return [LayerShape(into, out, kernel) for (into, _), (out, kernel) in zip(below, sizes, strict=False)]

    @property
    @override
    def longest(self) -> int | None:
        return self.position.longest

    def build(self, source_vocab: int, target_vocab: int | None = None) -> "ConvS2S":
        return ConvS2S(self, source_vocab, self.embedding.target_vocab(source_vocab, target_vocab))

    def num_params(self, source_vocab: int, target_vocab: int | None = None) -> int:
        positions = 2 * self.position.num_params(width=self.width, heads=1, head_width=self.width)
        layers = self._layers_params(self.depth, None) + self._layers_params(self.target_depth, self.width)
        return self.outer_params(source_vocab, target_vocab) + positions + layers

    def _layers_params(self, depth: int, source_width: int | None) -> int:
        shapes = self.shapes(depth)
        total = linear_params(self.width, shapes[0].into, weight_norm=self.weight_norm)
        total += linear_params(shapes[-1].out, self.width, weight_norm=self.weight_norm)
        return total + sum(shape.num_params(self.weight_norm, source_width) for shape in shapes)

    def flops(self, batch: int, source: int, target: int, vocab: int) -> int:
        total = self.outer_flops(batch, source, target, vocab)
        for depth, time, source_width in ((self.depth, source, None), (self.target_depth, target, self.width)):
            shapes, tokens = self.shapes(depth), batch * time
            total += 2 * tokens * self.width * (shapes[0].into + shapes[-1].out)
            total += sum(shape.flops(tokens, source_width, source) for shape in shapes)
            total += self.position.input_flops(width=self.width, batch=batch, time=time)
        return total


class GatedInputs(nn.Module):
    """Embeddings plus positions, with dropout."""

    def __init__(self, config: ConvS2SConfig) -> None:
        super().__init__()
        width = config.width
        self.longest = config.position.longest
        self.position: Position = config.position.build(width=width, heads=1, head_width=width, causal=False)
        self.dropout = nn.Sequential(DropWords(config.dropout.word), Dropout(config.dropout.embedding))

    def forward(
        self, embedding: Embedding, tokens: Int[Tensor, "batch time"], positions: Int[Tensor, "#batch time"]
    ) -> Vectors:
        """e = w + p."""
        return self.dropout(self.position.embed(embedding(tokens), AttentionContext(None, positions, positions)))

    def require_positions(self, length: int) -> None:
        """Raises for a sequence longer than the position table."""
        if self.longest is not None and length > self.longest:
            raise ConfigError(
                "model.position.length",
                f"learned positions reach {self.longest} tokens, got a sequence of {length}; "
                "train with a larger table, shorten the sequence, or choose 'sinusoidal'",
            )


class GatedEncoder(nn.Module):
    """Gated layers between projections to their width and back."""

    def __init__(self, config: ConvS2SConfig) -> None:
        super().__init__()
        shapes, norm = config.shapes(config.depth), config.weight_norm
        self.into = linear_map(config.width, shapes[0].into, weight_norm=norm)
        self.layers = Layers[GatedLayer](
            GatedLayer(shape, dropout=config.dropout.convolution, weight_norm=norm) for shape in shapes
        )
        self.back = linear_map(shapes[-1].out, config.width, weight_norm=norm)
        self.share = 1 / (2 * config.target_depth) if config.scale_gradients else 1.0

    def forward(self, e: Vectors, sequences: Sequences) -> SourceKV:
        """What there is to attend to."""
        layout = sequences.layout
        valid = None if layout.whole else layout.valid
        x = self.into(e).to(e.dtype)  # layers add to it in full precision, whatever products are computed in
        for layer in self.layers:
            x = layer(x, valid)
        z = scale_gradient(self.back(x), self.share)
        return SourceKV(z, (z + e) * ROOT_HALF, layout.lengths)


class GatedDecoder(nn.Module):
    """Masked gated layers, each with attention to the source, between projections to their width and back."""

    def __init__(self, config: ConvS2SConfig) -> None:
        super().__init__()
        shapes, norm = config.shapes(config.target_depth), config.weight_norm
        self.into = linear_map(config.width, shapes[0].into, weight_norm=norm)
        self.layers = Layers[GatedAttentionLayer](
            GatedAttentionLayer(shape, config.width, dropout=config.dropout.convolution, weight_norm=norm)
            for shape in shapes
        )
        self.back = linear_map(shapes[-1].out, config.width, weight_norm=norm)
        self.dropout = Dropout(config.dropout.output)

    def forward(self, target: Vectors, source_kv: SourceKV, windows: Sequence[Window] | None = None) -> Vectors:
        """The vectors that predict what follows each token."""
        x = self.into(target).to(target.dtype)
        for number, layer in enumerate(self.layers):
            x = layer(x, target, source_kv, windows[number] if windows is not None else None)
        return self.dropout(self.back(x))


class ConvS2S(Seq2Seq[ConvS2SConfig]):
    """decoder(target so far, encoder(source)), both of gated convolutions; a `Stepper`."""

    def __init__(self, config: ConvS2SConfig, source_vocab: int, target_vocab: int) -> None:
        super().__init__(config, source_vocab, target_vocab)
        self.config = config
        self.source_inputs, self.target_inputs = GatedInputs(config), GatedInputs(config)
        self.encoder, self.decoder = GatedEncoder(config), GatedDecoder(config)
        config.initialise.apply(self, config.depth)
        match_gains(self)

    @override
    def decoder_convolutions(self) -> list[Convolution]:
        return [layer.convolution for layer in self.decoder.layers]

    @override
    def project_source(self, source: Sequences) -> tuple[Tensor, ...]:
        """Keys, values and lengths of the source."""
        self.source_inputs.require_positions(source.tokens.shape[1])
        e = self.source_inputs(self.source_embedding, source.tokens, source.layout.positions)
        source_kv = self.encoder(e, source)
        return source_kv.keys, source_kv.values, source_kv.lengths

    @override
    def decode(
        self,
        tokens: Int[Tensor, "batch time"],
        positions: Int[Tensor, "#batch time"],
        source_kv: tuple[Tensor, ...],
        windows: Sequence[Window] | None = None,
    ) -> Vectors:
        self.target_inputs.require_positions(tokens.shape[1])
        target = self.target_inputs(self.target_embedding, tokens, positions)
        return self.decoder(target, SourceKV(*source_kv), windows)

    @override
    def start(self, source: Sequences | None, *, rows: int, capacity: int) -> ConvolutionState:
        """Reads the source; refused where positions cannot reach that far."""
        self.target_inputs.require_positions(capacity)
        return super().start(source, rows=rows, capacity=capacity)
