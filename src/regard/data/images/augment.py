"""Images changed at random while training: shifted, mirrored, brighter or darker, with a hole.

Every choice is a pure function of (seed, epoch, example), so that a resumed run and any number of processes see the
same pixels.
"""

import numpy as np
from jaxtyping import Float, Int, UInt8
from numpy.lib.stride_tricks import sliding_window_view
from pydantic import Field, NonNegativeInt

from regard.config import Config
from regard.data.counter_random import uniforms

Images = UInt8[np.ndarray, "images height width channels"]
CHOICES = 7
"""Random numbers that an image needs: two shifts, a mirror, two of the light, two of the hole."""
GREY = 128


class AugmentConfig(Config):
    """How images are changed while training; what is zero or off is left as it is."""

    shift: NonNegativeInt = 0
    """Move by up to so many pixels each way: a random crop of the image with so wide a margin around it."""
    flip: bool = False
    """Mirror half of the images, left to right."""
    light: float = Field(0.0, ge=0, lt=1)
    """Brightness and contrast each change by up to this share."""
    cutout: NonNegativeInt = 0
    """Height and width of a square that is painted grey somewhere (DeVries 2017)."""

    def apply(self, images: Images, examples: Int[np.ndarray, " images"], *, seed: int, epoch: int) -> Images:
        """The images as they look in this epoch; `examples` are their numbers."""
        random = uniforms(examples, CHOICES, seed=seed, epoch=epoch)
        images = moved(images, *self._shifts(random[:, :2]), mirrored=(random[:, 2] < 0.5) & self.flip)
        if self.light:
            images = lit(images, *(1 + self.light * (2 * random[:, 3:5].T - 1)))
        return holed(images, random[:, 5:7], self.cutout) if self.cutout else images

    def _shifts(self, random: Float[np.ndarray, "images 2"]) -> Int[np.ndarray, "2 images"]:
        return np.floor(random.T * (2 * self.shift + 1)).astype(np.int64) - self.shift


def moved(
    images: Images,
    down: Int[np.ndarray, " images"],
    right: Int[np.ndarray, " images"],
    mirrored: np.ndarray,
) -> Images:
    """Each image moved by its own numbers of pixels, black where nothing was, then mirrored if it is to be."""
    _, height, width, _ = images.shape
    margin = int(max(np.abs(down).max(initial=0), np.abs(right).max(initial=0)))
    wide = np.pad(images, ((0, 0), (margin, margin), (margin, margin), (0, 0)))
    windows = sliding_window_view(wide, (height, width), axis=(1, 2))  # type: ignore[call-overload]
    cut = np.moveaxis(windows[np.arange(len(images)), margin - down, margin - right], 1, 3)
    cut[mirrored] = cut[mirrored, :, ::-1]
    return cut


def lit(images: Images, brightness: Float[np.ndarray, " images"], contrast: Float[np.ndarray, " images"]) -> Images:
    """Each image with its brightness, then its distance from its own mean, multiplied."""
    gain = (brightness * contrast).astype(np.float32)
    mean = images.mean(axis=(1, 2, 3), dtype=np.float32) * brightness.astype(np.float32)
    offset = mean * (1 - contrast.astype(np.float32))
    changed = images * gain[:, None, None, None] + offset[:, None, None, None]
    return np.rint(changed, out=changed).clip(0, 255, out=changed).astype(np.uint8)


def holed(images: Images, where: Float[np.ndarray, "images 2"], size: int) -> Images:
    """Each image with a grey square around a place of its own; it may reach over the edge."""
    _, height, width, _ = images.shape
    centres = np.floor(where * [height, width]).astype(np.int64)
    first = centres - size // 2
    inside = [
        (np.arange(extent) >= first[:, axis, None]) & (np.arange(extent) < first[:, axis, None] + size)
        for axis, extent in enumerate((height, width))
    ]
    hole = inside[0][:, :, None, None] & inside[1][:, None, :, None]
    return np.where(hole, np.uint8(GREY), images)
