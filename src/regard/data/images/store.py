"""Stores whose examples have images: decoded once, kept as bytes in a file that is mapped into memory.

An image store is two folders of the cache, each named by what it was made from. One holds the pixels; the other is an
ordinary store of labels and texts, which notes for each example the number of its image. While training, images are
changed at random: every choice is a pure function of (seed, epoch, example), so that a resumed run and any number of
processes see the same pixels.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from functools import cached_property
from hashlib import sha256
from itertools import islice
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float, Int, Int64, UInt8
from numpy.lib.stride_tricks import sliding_window_view
from pydantic import Field, NonNegativeInt

from regard.config import Config
from regard.data.content_hash import examples_sha256, file_sha256
from regard.data.counter_random import uniforms
from regard.data.examples import DescribedPicture, LabelledPicture, Picture
from regard.data.fields import AnyField
from regard.data.images.decoding import Canvas
from regard.data.store import Store, content_key
from regard.data.store_writer import DESCRIPTION, LINE, ArrayFile, Row, write_description, write_store, written_aside

IMAGE = "image"
PIXELS = "image.pixels"
AT_ONCE = 256

Pictured = LabelledPicture | DescribedPicture


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
    mirrored: Bool[np.ndarray, " images"],
) -> Images:
    """Each image moved by its own numbers of pixels, black where nothing was, then mirrored if it is to be."""
    _, height, width, _ = images.shape
    margin = int(max(np.abs(down).max(initial=0), np.abs(right).max(initial=0)))
    wide = np.pad(images, ((0, 0), (margin, margin), (margin, margin), (0, 0)))
    windows = sliding_window_view(wide, (height, width), axis=(1, 2))
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
    rows = _inside(where[:, 0], height, size)
    columns = _inside(where[:, 1], width, size)
    return np.where(rows[:, :, None, None] & columns[:, None, :, None], np.uint8(GREY), images)


def _inside(where: Float[np.ndarray, " images"], extent: int, size: int) -> Bool[np.ndarray, "images extent"]:
    first = np.floor(where * extent).astype(np.int64)[:, None] - size // 2
    return (np.arange(extent) >= first) & (np.arange(extent) < first + size)


def open_image_store(
    examples: Callable[[], Iterable[Pictured]],
    row: Callable[[Pictured], Row],
    fields: Mapping[str, AnyField],
    labels: Sequence[str] = (),
    *,
    canvas: Canvas,
    patches: int,
    cache: Path,
    files: Sequence[Path] = (),
    settings: Mapping[str, object] | None = None,
    augment: AugmentConfig | None = None,
) -> "ImageStore":
    """The store of the examples, made now or found in the cache.

    `row` gives an example's labels and texts, and `patches` is the length at which an image counts in a batch. The key
    covers every example as it is read, with its label (the folder of an image) and its bytes; `files` are further ones.
    """
    further = [file_sha256(file) for file in files if file.is_file()]
    content = {**(settings or {}), "files": further, "examples": examples_sha256(examples())}
    album = _album((example.picture for example in examples()), canvas, cache, content)
    label_names = (*labels, IMAGE)
    key = content_key(fields, label_names, [], {**content, "images": album.key})
    folder = cache / key
    if not (folder / DESCRIPTION).exists():
        rows = (
            {**row(example), IMAGE: number, LINE: example.location.line} for number, example in enumerate(examples())
        )
        write_store(folder, rows, fields, label_names, key)
    return ImageStore(folder, fields, key, album, patches, augment)


def _album(pictures: Iterable[Picture], canvas: Canvas, cache: Path, settings: Mapping[str, object]) -> "Album":
    """The pixels of all pictures, decoded now or found in the cache."""
    key = content_key({}, [], [], {**settings, "canvas": asdict(canvas)})
    folder = cache / key
    if not (folder / DESCRIPTION).exists():
        with written_aside(folder) as aside:
            _write_pixels(aside, pictures, canvas, key)
    return Album(folder, key, canvas)


def _write_pixels(folder: Path, pictures: Iterable[Picture], canvas: Canvas, key: str) -> None:
    file, count, rest, digest = ArrayFile(folder / PIXELS, np.uint8), 0, iter(pictures), sha256()
    while some := [canvas.picture(picture) for picture in islice(rest, AT_ONCE)]:
        pixels = np.stack(some).ravel()
        file.write(pixels)
        digest.update(pixels.tobytes())
        count += len(some)
    write_description(folder, key, {"examples": count, "skipped": {}, "cut": {}, "rows": digest.hexdigest()}, [file])


class Album(Store):
    """The pixels of many images of one size."""

    def __init__(self, folder: Path, key: str, canvas: Canvas) -> None:
        super().__init__(folder, {}, key)
        self.key = key
        shape = (len(self), canvas.size, canvas.size, canvas.channels)
        self.pixels: UInt8[np.ndarray, "images height width channels"] = self._arrays[PIXELS].reshape(shape)


class ImageStore(Store):
    """Examples with an image each, beside their labels and texts."""

    def __init__(
        self,
        folder: Path,
        fields: Mapping[str, AnyField],
        key: str,
        album: Album,
        patches: int,
        augment: AugmentConfig | None = None,
    ) -> None:
        super().__init__(folder, fields, key)
        self.album, self.patches, self.augment = album, patches, augment

    @property
    def fingerprint(self) -> dict[str, object]:
        """Number and SHA-256 of the examples as they were read, with their pixels."""
        parts = [super().fingerprint["sha256"], self.album.fingerprint["sha256"]]
        return {"examples": len(self), "sha256": sha256(repr(parts).encode()).hexdigest()}

    @cached_property
    def lengths(self) -> dict[str, Int64[np.ndarray, " examples"]]:
        """Patches and tokens of each example by field."""
        patches = np.full(len(self), self.patches, np.int64)
        return {IMAGE: patches, **{name: self._lengths(name) for name in self.fields}}

    def images(
        self, examples: Int[np.ndarray, " examples"], *, seed: int = 0, epoch: int = 0
    ) -> dict[str, UInt8[np.ndarray, "examples height width channels"]]:
        """The pixels of some examples, changed at random as this epoch has it where that is set."""
        pixels = np.asarray(self.album.pixels[self.labels[IMAGE][examples]])
        if self.augment is not None:
            pixels = self.augment.apply(pixels, examples, seed=seed, epoch=epoch)
        return {IMAGE: pixels}
