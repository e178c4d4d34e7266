"""Images cut into patches, which a Transformer reads like words: what all models of images share."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from pydantic import PositiveInt, model_validator
from torch import Tensor

from regard.config import refuse
from regard.errors import ShapeError
from regard.models.stack import StackConfig
from regard.nn.layout import Layout, Sequences

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
