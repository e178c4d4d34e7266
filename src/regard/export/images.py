"""Images as a model's input: the form that all are brought into, and their pixels as numbers. No torch."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.data.examples import Picture
from regard.data.images.decoding import Canvas, Resample, Resize
from regard.data.images.files import read_image


@dataclass(frozen=True)
class ImageForm:
    """What a model was taught to see."""

    size: int
    """Height and width in pixels."""
    channels: int
    resize: Resize
    """What becomes of images of another size."""
    mean: tuple[float, ...]
    """Taken off each colour, which is between 0 and 1."""
    deviation: tuple[float, ...]
    """What each colour is divided by after that."""
    resample: Resample = "bicubic"
    """How pixels of another size are computed."""

    @classmethod
    def of(cls, task: Any, model: Any) -> "ImageForm":  # noqa: ANN401
        """As a task's and a model's settings say."""
        return cls(model.image, model.channels, task.resize, tuple(task.mean), tuple(task.deviation), task.resample)

    def tree(self) -> dict[str, Any]:
        """For regard.json."""
        return asdict(self)

    def numbers(self, image: Picture | str) -> NDArray[np.float32]:
        """An image of a data set, or a file, as numbers: channel by channel, around zero."""
        canvas = Canvas(self.size, self.channels, self.resize, self.resample)
        if isinstance(image, Picture):
            pixels = canvas.picture(image)
        else:
            pixels = canvas.pixels(read_image(Path(image).expanduser()), image)
        mean, deviation = np.array(self.mean, np.float32), np.array(self.deviation, np.float32)
        numbers = (pixels.astype(np.float32) / 255 - mean) / deviation
        return np.ascontiguousarray(np.moveaxis(numbers, -1, 0), dtype=np.float32)
