"""What the tasks that read images share: settings, the store of pixels, and pixels as the numbers a model takes."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, UInt8
from torch import Tensor

from regard.data.examples import DescribedPicture, Example, LabelledPicture, Picture
from regard.data.fields import AnyField
from regard.data.images.augment import AugmentConfig
from regard.data.images.decoding import Canvas, Resample, Resize
from regard.data.images.files import read_image
from regard.data.images.store import ImageStore, open_image_store
from regard.data.settings import DataConfig
from regard.errors import ConfigError
from regard.nn.device import to_device
from regard.tasks.base import Task, TaskBase

TOKENS_AT_ONCE = 1 << 15
"""Patches that a model is given at once when it is used."""
GREY_AND_COLOURS = (1, 3)

AnyImage = str | bytes | Picture
"""The name of a file, an encoded image, or an image of a data set."""


class ImageTaskBase(TaskBase):
    """What the configs of tasks that read images have."""

    resize: Resize = "refuse"
    """Images of another size than the model's: refuse them, cut out the middle (crop), or stretch them."""
    resample: Resample = "bicubic"
    """Filter by which images of another size are resized."""
    mean: tuple[float, ...] = (0.5,)
    """Taken off each colour, which is between 0 and 1: one number for all, or one for each."""
    deviation: tuple[float, ...] = (0.5,)
    """What each colour is divided by after that."""
    augment: AugmentConfig | None = None
    """How images are changed at random while training."""

    def canvas(self, model: Any) -> Canvas:  # noqa: ANN401
        """The form in which a model takes its images."""
        return Canvas(model.image, model.channels, self.resize, self.resample)

    def check(self, model: Any, data: DataConfig) -> None:  # noqa: ANN401
        """Refuses colours that do not fit, and batches without padding."""
        super().check(model, data)
        if data.batching is not None and data.batching.kind != "bucketed":
            raise ConfigError("data.batching", f"images need 'bucketed' batches, got '{data.batching.kind}'")
        if model.channels not in GREY_AND_COLOURS:
            raise ConfigError("model.channels", f"images are read in grey (1) or in colours (3), got {model.channels}")
        for name, numbers in (("mean", self.mean), ("deviation", self.deviation)):
            if len(numbers) not in (1, model.channels):
                raise ConfigError(f"task.{name}", f"expected 1 or {model.channels} numbers, got {len(numbers)}")
        if self.resize == "refuse" and self.resample != "bicubic":
            raise ConfigError(
                "task.resample", "no image is resized with task.resize = 'refuse'; choose 'crop' or 'stretch'"
            )
        if min(self.deviation) <= 0:
            raise ConfigError("task.deviation", f"expected numbers above 0, got {min(self.deviation)}")


class ImageTask(Task):
    """A task whose examples have an image each."""

    config: ImageTaskBase

    def open_store(
        self,
        examples: Callable[[], Iterable[Example]],
        fields: Mapping[str, AnyField],
        model: Any,  # noqa: ANN401
        training: bool,
        **where: Any,  # noqa: ANN401
    ) -> ImageStore:
        """The store of a split, with its pixels; only while training they change from epoch to epoch."""
        return open_image_store(
            lambda: pictured(examples()),
            self.row,
            fields,
            self.config.labels,
            canvas=self.config.canvas(model),
            patches=model.tokens,
            augment=self.config.augment if training else None,
            **where,
        )

    def numbers(
        self, pixels: UInt8[np.ndarray, "batch height width channels"], device: torch.device
    ) -> Float[Tensor, "batch channels height width"]:
        """Pixels as a model takes them: around zero, colour by colour."""
        x = to_device(torch.from_numpy(np.ascontiguousarray(pixels)), device).permute(0, 3, 1, 2).float() / 255
        mean, deviation = (torch.tensor(part, device=device) for part in (self.config.mean, self.config.deviation))
        return ((x - mean[:, None, None]) / deviation[:, None, None]).contiguous()

    def read(self, images: Sequence[AnyImage], model: Any) -> UInt8[np.ndarray, "batch height width channels"]:  # noqa: ANN401
        """The pixels of images in the form that a model takes."""
        canvas = self.config.canvas(model)
        return np.stack([read_any(image, canvas) for image in images])


def pictured(examples: Iterable[Example]) -> Iterable[LabelledPicture | DescribedPicture]:
    """The same examples, known to have images."""
    for example in examples:
        assert isinstance(example, LabelledPicture | DescribedPicture)
        yield example


def read_any(image: AnyImage, canvas: Canvas) -> UInt8[np.ndarray, "height width channels"]:
    """The pixels of an image, wherever it comes from."""
    if isinstance(image, Picture):
        return canvas.picture(image)
    if isinstance(image, bytes):
        return canvas.pixels(image, "image")
    return canvas.pixels(read_image(Path(image).expanduser()), image)


def given(image: AnyImage) -> bool:
    """Whether there is an image at all: a blank line names none."""
    return not isinstance(image, str) or bool(image.strip())


def rows_at_once(model: Any) -> int:  # noqa: ANN401
    """How many images a model is given at once."""
    return max(1, TOKENS_AT_ONCE // model.tokens)
