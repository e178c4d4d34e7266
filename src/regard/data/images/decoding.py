"""From an encoded image to the pixels that a model takes; no image is decoded before its size is known to be harmless.

canvas = Canvas(size=32, channels=3, resize="crop")
canvas.pixels(Path("cat.jpg").read_bytes(), "cat.jpg")      # uint8 [32, 32, 3]
"""

import io
import struct
import warnings
from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import UInt8
from PIL import Image, ImageOps, UnidentifiedImageError

from regard.data.examples import Picture
from regard.data.images.files import MOST_BYTES, MOST_PIXELS
from regard.errors import DataError

FORMATS = ("PNG", "JPEG", "GIF", "BMP", "WEBP", "PPM", "TIFF")
NO_IMAGE = f"no image, or of a kind that is not read; known: {', '.join(FORMATS)}"
GREY = ("1", "L", "LA")
"""Pillow's modes without colours."""
DEEP = ("I", "F")
"""Pillow's modes with more than eight bits a colour, whose conversion would cut values off."""
BROKEN = (OSError, ValueError, SyntaxError, EOFError, IndexError, TypeError, struct.error)
"""Whatever Pillow raises about bytes that are no whole image."""

Resize = Literal["refuse", "crop", "stretch"]
Resample = Literal["nearest", "lanczos", "bilinear", "bicubic", "box", "hamming"]
Pixels = UInt8[np.ndarray, "height width channels"]


@dataclass(frozen=True)
class Canvas:
    """The form that every image is brought into."""

    size: int
    """Height and width in pixels."""
    channels: int = 3
    """3: red, green and blue; 1: grey."""
    resize: Resize = "refuse"
    """What becomes of images of another size: an error; the middle, after the shorter side is fitted; all of it."""
    resample: Resample = "bicubic"
    """Pillow's filter for images of another size."""

    def picture(self, picture: Picture) -> Pixels:
        data = picture.load()
        if isinstance(data, bytes):
            return self.pixels(data, picture.name)
        return self._drawn(Image.fromarray(data), picture.name)

    def pixels(self, data: bytes, name: str) -> Pixels:
        """The pixels of an encoded image; `name` is what an error calls it."""
        if len(data) > MOST_BYTES:
            raise DataError(name, f"{len(data):,} bytes; an image may have at most {MOST_BYTES:,}")
        try:
            with _opened(data, name) as image:
                self._check_size(image, name)
                return self._drawn(_upright(image, name), name)
        except UnidentifiedImageError:
            raise DataError(name, NO_IMAGE) from None
        except BROKEN as error:
            raise DataError(name, f"a damaged image ({error})") from None

    def _drawn(self, image: Image.Image, name: str) -> Pixels:
        self._check_size(image, name)
        image = self._fitted(_coloured(image, "L" if self.channels == 1 else "RGB"))
        return np.asarray(image, np.uint8).reshape(self.size, self.size, self.channels)

    def _check_size(self, image: Image.Image, name: str) -> None:
        """Refuses another size, where that is set; an image need not be decoded for it."""
        width, height = image.size
        if self.resize == "refuse" and (width, height) != (self.size, self.size):
            raise DataError(
                name,
                f"an image of {width} × {height} pixels, the model takes {self.size} × {self.size}; "
                "set task.resize to 'crop' or 'stretch', or model.image to its size",
            )

    def _fitted(self, image: Image.Image) -> Image.Image:
        size = (self.size, self.size)
        if image.size == size:
            return image
        filtered = Image.Resampling[self.resample.upper()]
        return ImageOps.fit(image, size, filtered) if self.resize == "crop" else image.resize(size, filtered)


def shape_of(picture: Picture) -> tuple[int, int, int]:
    """Height, width and colours (1: grey, else 3) of an example's image, which is not decoded."""
    data = picture.load()
    if not isinstance(data, bytes):
        return data.shape[0], data.shape[1], 1
    with _headed(data, picture.name) as image:
        return image.height, image.width, 1 if image.mode in GREY else 3


def pixels_of(data: bytes, name: str) -> int:
    """How many pixels an encoded image says it has; it is not decoded."""
    with _headed(data, name) as image:
        return image.width * image.height


def _headed(data: bytes, name: str) -> Image.Image:
    """An image of which only the header is read; DataError where it is none."""
    try:
        return _opened(data, name)
    except BROKEN:
        raise DataError(name, NO_IMAGE) from None


def _opened(data: bytes, name: str) -> Image.Image:
    """An image of which only the header is read so far, within what may be decoded."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Pillow's own limit only warns; ours, below, refuses
        try:
            image = Image.open(io.BytesIO(data), formats=FORMATS)
        except Image.DecompressionBombError:
            raise DataError(name, f"the image claims more than {MOST_PIXELS:,} pixels, and is not decoded") from None
    width, height = image.size
    if width * height > MOST_PIXELS:
        raise DataError(
            name, f"the image claims {width:,} × {height:,} pixels; more than {MOST_PIXELS:,} are not decoded"
        )
    return image


def _upright(image: Image.Image, name: str) -> Image.Image:
    """The first picture of the file, turned as its camera noted."""
    if image.mode.split(";")[0] in DEEP:
        raise DataError(name, f"more than eight bits a colour (mode {image.mode}); convert it to eight")
    image.load()
    return ImageOps.exif_transpose(image)


def _coloured(image: Image.Image, mode: str) -> Image.Image:
    """In colours or grey; what is transparent shows white below."""
    if "A" in image.getbands() or "transparency" in image.info:
        image = image.convert("RGBA")
        white = Image.new("RGBA", image.size, "white")
        image = Image.alpha_composite(white, image)
    return image if image.mode == mode else image.convert(mode)
