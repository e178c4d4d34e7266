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
    """Settings of models of images."""

    image: PositiveInt = 32
    """Height and width of the images in pixels."""
    patch: PositiveInt = 4
    """Height and width of a patch in pixels."""
    channels: PositiveInt = 3
    """Colour channels: 3, or 1 for grey."""

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
        return (self.image // self.patch) ** 2

    @property
    def tokens(self) -> int:
        """Tokens of the encoder's input."""
        return self.patches

    @property
    def pixels(self) -> int:
        """Elements of a patch."""
        return self.patch**2 * self.channels

    def check_images(self, images: Images) -> None:
        """Raises for images of another shape."""
        expected = (self.channels, self.image, self.image)
        if images.shape[1:] != expected:
            raise ShapeError(f"images: expected {expected} (channels, height, width), got {tuple(images.shape[1:])}")


@dataclass(frozen=True, eq=False)
class Patches(Sequences):
    """Images as a source: one token per patch, and the pixels."""

    images: Images

    @classmethod
    def of(cls, images: Images, patch: int) -> "Patches":
        """The patches of images, row by row."""
        layout = Layout.full(len(images), (images.shape[2] // patch) * (images.shape[3] // patch), images.device)
        return cls(layout.index, layout, images)

    def twice(self) -> "Patches":
        """The batch repeated twice."""
        doubled = Sequences(self.tokens, self.layout).twice()
        return Patches(doubled.tokens, doubled.layout, self.images.repeat(2, 1, 1, 1))

    def to(self, device: torch.device | str) -> "Patches":
        return Patches(self.tokens.to(device), self.layout.to(device), self.images.to(device))


def to_patches(images: Images, patch: int) -> Float[Tensor, "batch patches pixels"]:
    """The patches row by row, each flattened to one vector."""
    cut = images.unfold(2, patch, patch).unfold(3, patch, patch)
    return cut.permute(0, 2, 3, 1, 4, 5).flatten(3).flatten(1, 2)


class VisionConfig(PatchConfig):
    """Encodes an image as a sequence of patches: image classification."""

    kind: Literal["vision"] = "vision"
    shape: ClassVar[str] = "vision"
    class_token: bool = True
    """Prepend a learned class token, whose vector represents the image."""
    position: PositionConfig = LearnedConfig(length=65)
    """Position encoding of the patches; a learned table needs a row for each patch and the class token."""
    head: PooledHeadConfig | None = None
    """Output layer; when left out, over the class token if there is one, else over the mean of the patches."""

    @property
    def tokens(self) -> int:
        """Patches and the class token."""
        return self.patches + self.class_token

    @property
    def head_config(self) -> PooledHeadConfig:
        return self.head or PooledHeadConfig(pooling="first" if self.class_token else "mean")

    def build(self, classes: int) -> "VisionTransformer":
        return VisionTransformer(self, classes)

    def num_params(self, classes: int) -> int:
        embedding = self.pixels * self.width + self.width + self.width * self.class_token
        stack = self.stack_params(self.depth, self.position)
        return embedding + stack + self.head_config.num_params(self.width, classes)

    def flops(self, batch: int, classes: int) -> int:
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
    """Encodes an image and decodes a text: image description."""

    kind: Literal["vision-encoder-decoder"] = "vision-encoder-decoder"
    shape: ClassVar[str] = "vision-encoder-decoder"
    position: PositionConfig = LearnedConfig(length=64)
    """Position encoding of the patches; a learned table needs a row for each patch."""
    embedding: EmbeddingConfig = EmbeddingConfig()
    """Embeddings of the text, and whether the output layer shares their matrix."""
    decoder_depth: PositiveInt | None = None
    """Blocks of the decoder; as many as the encoder's when left out."""
    decoder_position: PositionConfig = SinusoidalConfig()
    """Position encoding of the decoder."""
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
        return self.decoder_position.longest

    @property
    def target_depth(self) -> int:
        return self.decoder_depth or self.depth

    def build(self, vocab: int) -> "VisionEncoderDecoder":
        return VisionEncoderDecoder(self, vocab)

    def num_params(self, vocab: int) -> int:
        total = self.pixels * self.width + self.width + self.embedding.num_params(vocab, self.width)
        total += self.stack_params(self.depth, self.position)
        total += self.stack_params(self.target_depth, self.decoder_position, True, self.embedding.norm)
        return total + self.head.num_params(self.width, vocab, shared=self.embedding.shares_output)

    def flops(self, batch: int, target: int, vocab: int) -> int:
        factor = self.embedding.factor if self.embedding.shares_output else None
        total = 2 * batch * self.patches * self.pixels * self.width
        total += self.stack_flops(self.depth, self.position, batch, self.patches)
        total += self.stack_flops(self.target_depth, self.decoder_position, batch, target, self.patches)
        total += self.embedding.flops(self.width, batch * target)
        return total + self.head.flops(self.width, vocab, batch * target, factor)


class VisionEncoderDecoder(EncoderDecoder):
    """decoder(text so far, encoder(patches)); a `Stepper`."""

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
        assert isinstance(source, Patches)
        assert isinstance(self.config, PatchConfig)
        self.config.check_images(source.images)
        x = self.patch_embedding(to_patches(source.images, self.config.patch))
        return self.encoder(x, self.encoder.context(source.layout))
