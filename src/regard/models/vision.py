"""Images as sentences of patches: the Vision Transformer (Dosovitskiy 2021)."""

from typing import ClassVar, Literal

import torch
from jaxtyping import Float
from pydantic import PositiveInt, model_validator
from torch import Tensor, nn

from regard.config import refuse
from regard.errors import ShapeError
from regard.models.stack import Stack, StackConfig
from regard.nn.head import PooledHeadConfig
from regard.nn.layout import Layout
from regard.nn.position import LearnedConfig, PositionConfig


class VisionConfig(StackConfig):
    """Cuts an image into patches and reads them like words: image classification."""

    kind: Literal["vision"] = "vision"
    shape: ClassVar[str] = "vision"
    image: PositiveInt = 32
    """Height and width of the images in pixels."""
    patch: PositiveInt = 4
    """Height and width of a patch in pixels."""
    channels: PositiveInt = 3
    """Colours: 3, or 1 for grey."""
    class_token: bool = True
    """Put a learned token first, whose vector stands for the image."""
    position: PositionConfig = LearnedConfig(length=65)
    """How the model knows where a patch stands; a learned table needs a place for each patch and the class token."""
    head: PooledHeadConfig | None = None
    """Output layer; when left out, over the class token if there is one, else over the mean of the patches."""

    @model_validator(mode="after")
    def _patches_fit(self) -> "VisionConfig":
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
        pixels = self.patch**2 * self.channels
        embedding = pixels * self.width + self.width + self.width * self.class_token
        stack = self.stack_params(self.depth, self.position)
        return embedding + stack + self.head_config.num_params(self.width, classes)

    def flops(self, batch: int, classes: int) -> int:
        """Matrix-product FLOPs of one forward pass; training costs three times as much."""
        embedding = 2 * batch * self.patches * self.patch**2 * self.channels * self.width
        stack = self.stack_flops(self.depth, self.position, batch, self.tokens)
        return embedding + stack + self.head_config.flops(self.width, classes, batch)


class VisionTransformer(nn.Module):
    """Patches → vectors → encoder → class."""

    def __init__(self, config: VisionConfig, classes: int) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Linear(config.patch**2 * config.channels, config.width)
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
        config = self.config
        expected = (config.channels, config.image, config.image)
        if images.shape[1:] != expected:
            raise ShapeError(f"images: expected {expected} (channels, height, width), got {tuple(images.shape[1:])}")
        x = self.embedding(to_patches(images, config.patch))
        if self.class_token is not None:
            x = torch.cat([self.class_token.expand(len(x), 1, -1), x], dim=1)
        return self.stack(x, self.stack.sight(Layout.full(len(x), x.shape[1], x.device)))


def to_patches(
    images: Float[Tensor, "batch channels height width"], patch: int
) -> Float[Tensor, "batch patches pixels"]:
    """The image cut up, row by row; each patch one vector, channel by channel."""
    cut = images.unfold(2, patch, patch).unfold(3, patch, patch)
    return cut.permute(0, 2, 3, 1, 4, 5).flatten(3).flatten(1, 2)
