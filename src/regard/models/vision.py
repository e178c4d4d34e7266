"""Images as sequences of patches: the Vision Transformer (Dosovitskiy 2021), and image descriptions (Xu 2015)."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from jaxtyping import Float
from pydantic import PositiveInt, model_validator
from torch import Tensor, nn

from regard.config import refuse
from regard.errors import ShapeError
from regard.models.contract import Model
from regard.models.encoder_decoder import EncoderDecoder
from regard.models.stack import Stack, StackConfig
from regard.models.transformer import refuse_tree
from regard.nn.embedding import EmbeddingConfig
from regard.nn.head import PooledHeadConfig, VocabularyHeadConfig
from regard.nn.layout import Layout, Sequences
from regard.nn.position import LearnedConfig, PositionConfig, SinusoidalConfig

Images = Float[Tensor, "batch channels height width"]


class PatchConfig(StackConfig):
    """Settings of models that read images."""

    image: PositiveInt = 32
    """Height and width of the images in pixels."""
    patch: PositiveInt = 4
    """Height and width of a patch in pixels."""
    channels: PositiveInt = 3
    """Colours: 3, or 1 for grey."""

    @model_validator(mode="after")
    def _patches_fit(self) -> "PatchConfig":
        if self.image % self.patch:
            raise refuse("patch", f"expected a divisor of image = {self.image}, got {self.patch}")
        if self.position.longest is not None and self.position.longest < self.tokens:
            raise refuse(
                "position.length", f"expected at least {self.tokens}, one place a patch, got {self.position.longest}"
            )
        if self.position.needs_tree:
            raise refuse("position", "patches have no dependency tree; choose another kind")
        if self.attention.strict:
            raise refuse("attention.strict", "an encoder hides no token, so there is nothing to be strict about")
        return self

    @property
    def patches(self) -> int:
        """Patches of an image."""
        return (self.image // self.patch) ** 2

    @property
    def tokens(self) -> int:
        """What the encoder reads of an image."""
        return self.patches

    @property
    def pixels(self) -> int:
        """Numbers of a patch."""
        return self.patch**2 * self.channels

    def check_images(self, images: Images) -> None:
        """Refuses images of another shape than the model takes."""
        expected = (self.channels, self.image, self.image)
        if images.shape[1:] != expected:
            raise ShapeError(f"images: expected {expected} (channels, height, width), got {tuple(images.shape[1:])}")


@dataclass(frozen=True, eq=False)
class Patches(Sequences):
    """Images as the source of a model that writes: a token for each patch, its number, and the pixels of all."""

    images: Images

    @classmethod
    def of(cls, images: Images, patch: int) -> "Patches":
        """The patches of images, row by row."""
        layout = Layout.full(len(images), (images.shape[2] // patch) * (images.shape[3] // patch), images.device)
        return cls(layout.index, layout, images)

    def twice(self) -> "Patches":
        """Every image two times: all of them, then all again."""
        doubled = Sequences(self.tokens, self.layout).twice()
        return Patches(doubled.tokens, doubled.layout, self.images.repeat(2, 1, 1, 1))

    def to(self, device: torch.device | str) -> "Patches":
        """The same images on another device."""
        return Patches(self.tokens.to(device), self.layout.to(device), self.images.to(device))


def to_patches(images: Images, patch: int) -> Float[Tensor, "batch patches pixels"]:
    """The image cut up, row by row; each patch one vector, channel by channel."""
    cut = images.unfold(2, patch, patch).unfold(3, patch, patch)
    return cut.permute(0, 2, 3, 1, 4, 5).flatten(3).flatten(1, 2)


class VisionConfig(PatchConfig):
    """Cuts an image into patches and reads them like words: image classification."""

    kind: Literal["vision"] = "vision"
    shape: ClassVar[str] = "vision"
    class_token: bool = True
    """Put a learned token first, whose vector stands for the image."""
    position: PositionConfig = LearnedConfig(length=65)
    """How the model knows where a patch stands; a learned table needs a place for each patch and the class token."""
    head: PooledHeadConfig | None = None
    """Output layer; when left out, over the class token if there is one, else over the mean of the patches."""

    @property
    def tokens(self) -> int:
        """Patches and the class token."""
        return self.patches + self.class_token

    @property
    def head_config(self) -> PooledHeadConfig:
        """The output layer's config."""
        return self.head or PooledHeadConfig(pooling="first" if self.class_token else "mean")

    def build(self, classes: int) -> "VisionTransformer":
        """The model for this many classes."""
        return VisionTransformer(self, classes)

    def num_params(self, classes: int) -> int:
        """Learned numbers of the whole model."""
        embedding = self.pixels * self.width + self.width + self.width * self.class_token
        stack = self.stack_params(self.depth, self.position)
        return embedding + stack + self.head_config.num_params(self.width, classes)

    def flops(self, batch: int, classes: int) -> int:
        """Matrix-product FLOPs of one forward pass; training costs three times as much."""
        embedding = 2 * batch * self.patches * self.pixels * self.width
        stack = self.stack_flops(self.depth, self.position, batch, self.tokens)
        return embedding + stack + self.head_config.flops(self.width, classes, batch)


class VisionTransformer(Model[VisionConfig]):
    """Patches → vectors → encoder → class."""

    def __init__(self, config: VisionConfig, classes: int) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Linear(config.pixels, config.width)
        self.class_token = nn.Parameter(torch.randn(config.width) * 0.02) if config.class_token else None
        self.stack = Stack(config, config.depth, config.position)
        self.head = config.head_config.build(config.width, classes)
        config.initialise.apply(self, config.depth)

    def forward(self, images: Float[Tensor, "batch channels height width"]) -> Float[Tensor, "batch classes"]:
        """Scores of every class."""
        x = self.encode(images)
        return self.head(x, torch.ones(x.shape[:2], dtype=torch.bool, device=x.device))

    def encode(self, images: Float[Tensor, "batch channels height width"]) -> Float[Tensor, "batch time model"]:
        """The vectors of all patches after the last block, the class token first."""
        self.config.check_images(images)
        x = self.embedding(to_patches(images, self.config.patch))
        if self.class_token is not None:
            x = torch.cat([self.class_token.expand(len(x), 1, -1), x], dim=1)
        return self.stack(x, self.stack.context(Layout.full(len(x), x.shape[1], x.device)))


class VisionEncoderDecoderConfig(PatchConfig):
    """Reads an image and writes a text about it: image description."""

    kind: Literal["vision-encoder-decoder"] = "vision-encoder-decoder"
    shape: ClassVar[str] = "vision-encoder-decoder"
    position: PositionConfig = LearnedConfig(length=64)
    """How the model knows where a patch stands; a learned table needs a place for each patch."""
    embedding: EmbeddingConfig = EmbeddingConfig()
    """How the tokens of the text become vectors, and whether the output layer shares them."""
    decoder_depth: PositiveInt | None = None
    """Blocks of the decoder; as many as the encoder's when left out."""
    decoder_position: PositionConfig = SinusoidalConfig()
    """Position kind of the decoder."""
    head: VocabularyHeadConfig = VocabularyHeadConfig()
    """Output layer."""

    @model_validator(mode="after")
    def _decoder_writes_left_to_right(self) -> "VisionEncoderDecoderConfig":
        refuse_tree(self.decoder_position, "decoder_position")
        self.attention.refuse_causal("attention")
        self.attention.refuse_position(self.decoder_position.kind)
        return self

    @property
    def longest(self) -> int | None:
        """Most tokens of a text, where the decoder's positions have an end."""
        return self.decoder_position.longest

    @property
    def target_depth(self) -> int:
        """Blocks of the decoder."""
        return self.decoder_depth or self.depth

    def build(self, vocab: int) -> "VisionEncoderDecoder":
        """The model for a vocabulary."""
        return VisionEncoderDecoder(self, vocab)

    def num_params(self, vocab: int) -> int:
        """Learned numbers of the whole model."""
        total = self.pixels * self.width + self.width + self.embedding.num_params(vocab, self.width)
        total += self.stack_params(self.depth, self.position)
        total += self.stack_params(self.target_depth, self.decoder_position, True, self.embedding.norm)
        return total + self.head.num_params(self.width, vocab, shared=self.embedding.shares_output)

    def flops(self, batch: int, target: int, vocab: int) -> int:
        """Matrix-product FLOPs of one forward pass over full grids; training costs three times as much."""
        factor = self.embedding.factor if self.embedding.shares_output else None
        total = 2 * batch * self.patches * self.pixels * self.width
        total += self.stack_flops(self.depth, self.position, batch, self.patches)
        total += self.stack_flops(self.target_depth, self.decoder_position, batch, target, self.patches)
        total += self.embedding.flops(self.width, batch * target)
        return total + self.head.flops(self.width, vocab, batch * target, factor)


class VisionEncoderDecoder(EncoderDecoder):
    """decoder(text so far, encoder(patches)); a Stepper."""

    def __init__(self, config: VisionEncoderDecoderConfig, vocab: int) -> None:
        nn.Module.__init__(self)  # the encoder-decoder of texts would make an embedding of tokens for the source
        self.config = config
        norm = config.embedding.norm
        self.patch_embedding = nn.Linear(config.pixels, config.width)
        self.target_embedding = config.embedding.build(vocab, config.width)
        self.encoder = Stack(config, config.depth, config.position)
        self.decoder = Stack(
            config, config.target_depth, config.decoder_position, causal=True, cross=True, input_norm=norm
        )
        shared = self.target_embedding if config.embedding.shares_output else None
        self.head = config.head.build(config.width, vocab, shared)
        config.initialise.apply(self, config.depth)

    def encode(self, source: Sequences) -> Float[Tensor, "batch time width"]:
        """What the encoder has to say about each patch."""
        assert isinstance(source, Patches)
        assert isinstance(self.config, PatchConfig)
        self.config.check_images(source.images)
        x = self.patch_embedding(to_patches(source.images, self.config.patch))
        return self.encoder(x, self.encoder.context(source.layout))
