"""Images as sentences of patches: the Vision Transformer (Dosovitskiy 2021)."""

from typing import ClassVar, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.models.patches import PatchConfig, to_patches
from regard.models.stack import Stack
from regard.nn.head import PooledHeadConfig
from regard.nn.layout import Layout
from regard.nn.position import LearnedConfig, PositionConfig


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


class VisionTransformer(nn.Module):
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
