"""How images become a ViT's input, as preprocessor_config.json says it: read in, and written out."""

import json
from pathlib import Path
from typing import Any

from regard.errors import ConfigError, DataError
from regard.export.huggingface.json_files import read_table
from regard.export.huggingface.keys import Keys
from regard.export.images import ImageForm

FILE = "preprocessor_config.json"
RESAMPLE = {0: "nearest", 1: "lanczos", 2: "bilinear", 3: "bicubic", 4: "box", 5: "hamming"}
"""Pillow's numbers of its filters."""
COLOURS = "images are brought into the model's colours in any case"
OUTPUTS = "the form in which the library returns its arrays"

DEFAULTS: dict[str, Any] = {
    "do_convert_rgb": None,
    "do_resize": True,
    "size": {"height": 224, "width": 224},
    "default_to_square": True,
    "crop_size": None,
    "resample": 2,
    "do_rescale": True,
    "rescale_factor": 1 / 255,
    "do_normalize": True,
    "image_mean": [0.5, 0.5, 0.5],
    "image_std": [0.5, 0.5, 0.5],
    "do_pad": None,
    "pad_size": None,
    "do_center_crop": None,
    "data_format": None,
    "input_data_format": None,
    "device": None,
    "return_tensors": None,
    "disable_grouping": None,
    "image_seq_length": None,
}
"""The library's ViTImageProcessor."""

PROCESSOR = Keys(
    DEFAULTS,
    frozenset(
        {"do_resize", "size", "resample", "do_rescale", "rescale_factor", "do_normalize", "image_mean", "image_std"}
    ),
    {
        "do_convert_rgb": COLOURS,
        "crop_size": "the part that do_center_crop cuts out, which is refused",
        "pad_size": "the size that do_pad fills up to, which is refused",
        "data_format": OUTPUTS,
        "return_tensors": OUTPUTS,
        "device": OUTPUTS,
        "disable_grouping": "how the same numbers are computed",
        "image_seq_length": "a text's tokens for an image; a ViT reads no text",
        "_processor_class": "a record of where the file comes from",
        "processor_class": "a record of where the file comes from",
    },
    {
        "image_processor_type": ("ViTImageProcessor", "ViTImageProcessorFast", "ViTImageProcessorPil"),
        "feature_extractor_type": ("ViTFeatureExtractor",),
        "default_to_square": (True,),
        "do_center_crop": (False, None),
        "do_pad": (False, None),
        "input_data_format": (None,),
        "auto_map": (None,),
    },
)


def read_image_processor(folder: Path, image: int, channels: int) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Settings of the task by which images become what the model was trained on, and notes for people.

    (p·f − m) / s is (p / 255 − m / 255f) / (s / 255f): a factor f becomes a mean and a deviation of values from 0 to 1.
    """
    file, tree = _table(folder)
    size = {"height": image, "width": image}
    if file is None:
        file, tree = folder / FILE, {"size": size}
        notes = (f"it has no {FILE}: images are prepared as the library's ViTImageProcessor does by itself",)
    else:
        notes = ()
    given = {key: value for key, value in tree.items() if value is not None}  # null means the default
    settings = PROCESSOR.settled(file, given)
    if channels == 1 and given.get("do_convert_rgb"):
        raise DataError(file, "do_convert_rgb: expected false, since the model reads grey images")
    if settings["do_resize"] and _size(settings["size"]) != size:
        raise DataError(file, f"size: expected {size}, the images that the model reads, got {settings['size']!r}")
    if settings["resample"] not in RESAMPLE:
        raise DataError(
            file, f"resample: expected one of {', '.join(map(str, RESAMPLE))}, got {settings['resample']!r}"
        )
    factor = 255.0 * settings["rescale_factor"] if settings["do_rescale"] else 255.0
    if not factor > 0:
        raise DataError(file, f"rescale_factor: expected a number above 0, got {settings['rescale_factor']!r}")
    mean, deviation = [0.0], [1.0]
    if settings["do_normalize"]:
        mean, deviation = (_colours(file, settings, key, channels) for key in ("image_mean", "image_std"))
    task = {"mean": [part / factor for part in mean], "deviation": [part / factor for part in deviation]}
    if not settings["do_resize"]:
        return task, notes
    return {**task, "resize": "stretch", "resample": RESAMPLE[settings["resample"]]}, notes


def _table(folder: Path) -> tuple[Path | None, dict[str, Any]]:
    """The settings, which newer folders have within processor_config.json."""
    outer = folder / "processor_config.json"
    if outer.is_file() and "image_processor" in (tree := read_table(outer)):
        if not isinstance(tree["image_processor"], dict):
            raise DataError(outer, "image_processor: expected a table")
        return outer, tree["image_processor"]
    file = folder / FILE
    return (file, read_table(file)) if file.is_file() else (None, {})


def _size(value: Any) -> Any:  # noqa: ANN401
    """Height and width, where one number may stand for both."""
    if isinstance(value, int) and not isinstance(value, bool):
        return {"height": value, "width": value}
    return {"height": value[0], "width": value[1]} if isinstance(value, list) and len(value) == 2 else value


def _colours(file: Path, settings: dict[str, Any], key: str, channels: int) -> list[float]:
    value = settings[key]
    parts = value if isinstance(value, list) else [value] * channels
    if value is DEFAULTS[key]:
        parts = parts[:channels]
    if len(parts) != channels or not all(isinstance(part, int | float) for part in parts):
        raise DataError(file, f"{key}: expected {channels} numbers, one for each colour, got {value!r}")
    if key == "image_std" and min(parts) <= 0:
        raise DataError(file, f"{key}: expected numbers above 0, got {value!r}")
    return [float(part) for part in parts]


def write_image_processor(images: ImageForm, folder: Path, hint: str) -> None:
    """preprocessor_config.json, by which `AutoImageProcessor` prepares images as in training."""
    if images.resize == "crop":
        raise ConfigError("task.resize", f"the image processor of a ViT stretches images, got 'crop'; {hint}")
    numbers = {name: number for number, name in RESAMPLE.items()}
    each = {"image_mean": images.mean, "image_std": images.deviation}
    settings = {
        "image_processor_type": "ViTImageProcessor",
        "do_convert_rgb": images.channels == 3,
        "do_resize": images.resize == "stretch",
        "size": {"height": images.size, "width": images.size},
        "resample": numbers[images.resample],
        "do_rescale": True,
        "rescale_factor": 1 / 255,
        "do_normalize": True,
        **{name: list(part) * (images.channels // len(part)) for name, part in each.items()},
    }
    (folder / FILE).write_text(json.dumps(settings, indent=1) + "\n", encoding="utf-8")
