"""What the tasks that read images share: settings, the store of pixels, and normalised pixels."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Unpack, cast

import numpy as np
import torch
from jaxtyping import Float, UInt8
from torch import Tensor

from regard.data.examples import DescribedPicture, Example, LabelledPicture, Picture
from regard.data.fields import AnyField
from regard.data.images.decoding import Canvas, Resample, Resize
from regard.data.images.files import read_image
from regard.data.images.store import AugmentConfig, ImageStore, open_image_store
from regard.data.settings import DataConfig
from regard.errors import ConfigError
from regard.nn.device import to_device
from regard.tasks.base import StorePlace, Task, TaskConfig
from regard.tasks.contract import ImageModelConfig, ModelConfig
from regard.tasks.generation import AnyInput

TOKENS_AT_ONCE = 1 << 15
"""Patches that a model is given at once when it is used."""
GREY_AND_COLOURS = (1, 3)


class ImageTaskConfig(TaskConfig):
    """What the configs of tasks that read images have."""

    resize: Resize = "refuse"
    """Images of another size than the model's: refuse them, cut out the middle (crop), or stretch them."""
    resample: Resample = "bicubic"
    """Filter by which images of another size are resized."""
    mean: tuple[float, ...] = (0.5,)
    """Subtracted from each colour, which is between 0 and 1: one number for all, or one for each."""
    deviation: tuple[float, ...] = (0.5,)
    """What each colour is divided by after that."""
    augment: AugmentConfig | None = None
    """How images are changed at random while training."""

    def canvas(self, model: ImageModelConfig) -> Canvas:
        """The form in which a model takes its images."""
        return Canvas(model.image, model.channels, self.resize, self.resample)

    def check(self, model: ModelConfig, data: DataConfig) -> None:
        super().check(model, data)
        channels = image_config(model).channels
        if data.batching is not None and data.batching.kind != "bucketed":
            raise ConfigError("data.batching", f"images need 'bucketed' batches, got '{data.batching.kind}'")
        if channels not in GREY_AND_COLOURS:
            raise ConfigError("model.channels", f"images are read in grey (1) or in colours (3), got {channels}")
        for name, numbers in (("mean", self.mean), ("deviation", self.deviation)):
            if len(numbers) not in (1, channels):
                raise ConfigError(f"task.{name}", f"expected 1 or {channels} numbers, got {len(numbers)}")
        if self.resize == "refuse" and self.resample != "bicubic":
            raise ConfigError(
                "task.resample", "no image is resized with task.resize = 'refuse'; choose 'crop' or 'stretch'"
            )
        if min(self.deviation) <= 0:
            raise ConfigError("task.deviation", f"expected numbers above 0, got {min(self.deviation)}")


class ImageTask(Task):
    """A task whose examples have an image each."""

    config: ImageTaskConfig

    def open_store(
        self,
        examples: Callable[[], Iterable[Example]],
        fields: Mapping[str, AnyField],
        model: ModelConfig | None,
        training: bool,
        **where: Unpack[StorePlace],
    ) -> ImageStore:
        """The store of a split, with its pixels; only while training they change from epoch to epoch."""
        assert model is not None
        images = image_config(model)
        return open_image_store(
            lambda: with_pictures(examples()),
            self.row,
            fields,
            self.config.labels,
            canvas=self.config.canvas(images),
            patches=images.tokens,
            augment=self.config.augment if training else None,
            **where,
        )

    def normalise(
        self, pixels: UInt8[np.ndarray, "batch height width channels"], device: torch.device
    ) -> Float[Tensor, "batch channels height width"]:
        """Pixels minus mean, divided by deviation, colour by colour."""
        x = to_device(torch.from_numpy(np.ascontiguousarray(pixels)), device).permute(0, 3, 1, 2).float() / 255
        mean, deviation = (torch.tensor(part, device=device) for part in (self.config.mean, self.config.deviation))
        return ((x - mean[:, None, None]) / deviation[:, None, None]).contiguous()

    def read(
        self, images: Sequence[AnyInput], model: ImageModelConfig
    ) -> UInt8[np.ndarray, "batch height width channels"]:
        """The pixels of images in the form that a model takes."""
        canvas = self.config.canvas(model)
        return np.stack([read_any(image, canvas) for image in images])


def with_pictures(examples: Iterable[Example]) -> Iterable[LabelledPicture | DescribedPicture]:
    """The same examples, known to have images."""
    for example in examples:
        assert isinstance(example, LabelledPicture | DescribedPicture)
        yield example


def read_any(image: AnyInput, canvas: Canvas) -> UInt8[np.ndarray, "height width channels"]:
    """The pixels of an image, wherever it comes from."""
    if isinstance(image, Picture):
        return canvas.picture(image)
    if isinstance(image, bytes):
        return canvas.pixels(image, "image")
    file = str(image)
    return canvas.pixels(read_image(Path(file).expanduser()), file)


def is_image(image: AnyInput) -> bool:
    """Whether an input names an image: a blank line does not."""
    return not isinstance(image, str) or bool(image.strip())


def images_at_once(model: ImageModelConfig) -> int:
    """How many images a model is given at once."""
    return max(1, TOKENS_AT_ONCE // model.tokens)


def image_config(model: ModelConfig) -> ImageModelConfig:
    """The settings of a model, known to read images."""
    return cast(ImageModelConfig, model)
