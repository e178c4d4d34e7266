"""How images become a model's input: size, channels, normalisation. No torch."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from regard.data.examples import Picture
from regard.data.images.decoding import Canvas, Resample, Resize
from regard.data.images.files import read_image

if TYPE_CHECKING:
    from regard.tasks.images import ImageModelConfig, ImageTaskConfig


@dataclass(frozen=True)
class ImageForm:
    """Size and normalisation of a model's images."""

    size: int
    """Height and width in pixels."""
    channels: int
    resize: Resize
    """What becomes of images of another size."""
    mean: tuple[float, ...]
    """Subtracted from each channel, whose values are between 0 and 1."""
    deviation: tuple[float, ...]
    """By which each channel is divided after that."""
    resample: Resample = "bicubic"
    """The filter that resizes images."""

    @classmethod
    def of(cls, task: "ImageTaskConfig", model: "ImageModelConfig") -> "ImageForm":
        return cls(model.image, model.channels, task.resize, tuple(task.mean), tuple(task.deviation), task.resample)

    def tree(self) -> dict[str, object]:
        """For regard.json."""
        return asdict(self)

    def pixels(self, image: Picture | str) -> NDArray[np.float32]:
        """Normalised pixels of an image of a data set, or of a file, channel by channel."""
        canvas = Canvas(self.size, self.channels, self.resize, self.resample)
        if isinstance(image, Picture):
            values = canvas.picture(image)
        else:
            values = canvas.pixels(read_image(Path(image).expanduser()), image)
        mean, deviation = np.array(self.mean, np.float32), np.array(self.deviation, np.float32)
        values = (values.astype(np.float32) / 255 - mean) / deviation
        return np.ascontiguousarray(np.moveaxis(values, -1, 0), dtype=np.float32)
