"""ViT: `ViTForImageClassification`, and preprocessor_config.json, which says how images become its input."""

import json
from pathlib import Path

from regard.errors import ConfigError, DataError
from regard.export.huggingface.architecture import (
    INITIALISATION,
    OTHER_HEAD,
    RECORD,
    TRAINING,
    Architecture,
    Ignored,
    base_keys,
)
from regard.export.huggingface.architectures.gpt import ADDED_POSITIONS, LAYER_NORM, PRE_NORM
from regard.export.huggingface.config_keys import Json, honoured, irrelevant, read_table, refused
from regard.export.huggingface.parameter_names import (
    ParameterNames,
    TensorView,
    attention,
    layers,
    linear,
    norm,
    prefixed,
)
from regard.export.images import ImageForm
from regard.export.supported_settings import STANDARD, standard_heads
from regard.models import VisionConfig

KEYS = (
    base_keys("vit", labels=True)
    | honoured(
        hidden_size=768,
        num_hidden_layers=12,
        num_attention_heads=12,
        intermediate_size=3072,
        hidden_act="gelu",
        layer_norm_eps=1e-12,
        image_size=224,
        patch_size=16,
        num_channels=3,
    )
    | irrelevant(TRAINING, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    | irrelevant(INITIALISATION, initializer_range=0.02)
    | irrelevant(OTHER_HEAD, "tie_word_embeddings", encoder_stride=16, pooler_output_size=None, pooler_act="tanh")
    | refused("qkv_bias", True, default=True)
)


def parameter_names(depth: int) -> ParameterNames:
    """The projection of patches is a convolution there."""
    block = {
        **norm("around_attention.norm", "layernorm_before"),
        **prefixed("attention", "attention", attention("q_proj k_proj v_proj o_proj")),
        **norm("around_feedforward.norm", "layernorm_after"),
        **linear("feedforward.up", "mlp.fc1"),
        **linear("feedforward.down", "mlp.fc2"),
    }
    return {
        **linear("embedding", "vit.embeddings.patch_embeddings.projection"),
        "class_token": TensorView("vit.embeddings.cls_token"),
        "stack.positions.0.table.weight": TensorView("vit.embeddings.position_embeddings"),
        **layers(depth, "stack.blocks", "vit.layers", block),
        **norm("stack.final_norm", "vit.layernorm"),
        **linear("head.linear", "classifier"),
    }


def _side(hf: Json, key: str) -> int:
    """The side of a square."""
    value = hf[key]
    if isinstance(value, list) and len(value) == 2 and value[0] == value[1]:
        value = value[0]
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ConfigError(key, f"expected the side of a square in pixels, got {hf[key]!r}")
    return value


def _sizes(hf: Json) -> Json:
    image, patch = (_side(hf, key) for key in ("image_size", "patch_size"))
    return {"image": image, "patch": patch, "position.length": (image // patch) ** 2 + 1}


VIT = Architecture[VisionConfig](
    name="ViT",
    class_name="ViTForImageClassification",
    auto_class="AutoModelForImageClassification",
    model_type="vit",
    shape="vision",
    task="image_classification",
    supported=lambda config: {
        **{path: values for path, values in STANDARD.items() if path != "head.transform"},
        **LAYER_NORM,
        **ADDED_POSITIONS,
        **standard_heads(config),
        "norm_place": ("before",),
        "final_norm": (True,),
        "attention.scaled": (True,),
        "class_token": (True,),
        "position.kind": ("learned",),
        "position.length": (config.tokens,),
        "feedforward.kind": ("plain",),
        "head.pooling": ("first",),
        "head.hidden": (None,),
    },
    keys=KEYS,
    settings={
        "width": "hidden_size",
        "depth": "num_hidden_layers",
        "heads": "num_attention_heads",
        "image": "image_size",
        "patch": "patch_size",
        "channels": "num_channels",
        "norm.epsilon": "layer_norm_eps",
        "feedforward.hidden": "intermediate_size",
        "feedforward.activation": "hidden_act",
    },
    fixed={**PRE_NORM, "position.kind": "learned", "initialise.shrink": False},
    more_keys=lambda config, sizes: {},
    more_settings=_sizes,
    parameter_names=lambda config: parameter_names(config.depth),
    ignored=(
        Ignored(r"(^|\.)pooler\.dense\.(weight|bias)$", "the pooler, which images are not classified with"),
        Ignored(r"(^|\.)embeddings\.mask_token$", "the token of masked patches, of pre-training only"),
    ),
    base_model_prefix="vit.",
    head_prefixes=("classifier.",),
    renames=(
        (r"^vit\.encoder\.layer\.", "vit.layers."),
        (r"\.attention\.attention\.(query|key|value)\.", r".attention.\1."),
        (r"\.attention\.query\.", ".attention.q_proj."),
        (r"\.attention\.key\.", ".attention.k_proj."),
        (r"\.attention\.value\.", ".attention.v_proj."),
        (r"\.attention\.output\.dense\.", ".attention.o_proj."),
        (r"\.intermediate\.dense\.", ".mlp.fc1."),
        (r"\.output\.dense\.", ".mlp.fc2."),
    ),
)

PROCESSOR_FILE = "preprocessor_config.json"
RESAMPLE = {0: "nearest", 1: "lanczos", 2: "bilinear", 3: "bicubic", 4: "box", 5: "hamming"}
"""Pillow's numbers of its filters."""
ARRAYS = "the form in which the library returns its arrays"
PROCESSOR_KEYS = (
    honoured(
        do_resize=True,
        size={"height": 224, "width": 224},
        resample=2,
        do_rescale=True,
        rescale_factor=1 / 255,
        do_normalize=True,
        image_mean=[0.5, 0.5, 0.5],
        image_std=[0.5, 0.5, 0.5],
    )
    | irrelevant("images are brought into the model's colours in any case", do_convert_rgb=None)
    | irrelevant("the part that do_center_crop cuts out, which is refused", crop_size=None)
    | irrelevant("the size that do_pad fills up to, which is refused", pad_size=None)
    | irrelevant(ARRAYS, data_format=None, return_tensors=None, device=None)
    | irrelevant("how the same values are computed", disable_grouping=None)
    | irrelevant("a text's tokens for an image; a ViT reads no text", image_seq_length=None)
    | irrelevant(RECORD, "_processor_class", "processor_class")
    | refused("image_processor_type", "ViTImageProcessor", "ViTImageProcessorFast", "ViTImageProcessorPil")
    | refused("feature_extractor_type", "ViTFeatureExtractor")
    | refused("default_to_square", True, default=True)
    | refused("do_center_crop", False, None, default=None)
    | refused("do_pad", False, None, default=None)
    | refused("input_data_format", None, default=None)
    | refused("auto_map", None)
)
"""The keys of preprocessor_config.json, with the defaults of ViTImageProcessor."""


def read_image_processor(folder: Path, image: int, channels: int) -> tuple[Json, tuple[str, ...]]:
    """Settings of the task by which images become what the model was trained on, and notes for people.

    (p·f − m) / s is (p / 255 − m / 255f) / (s / 255f): a factor f becomes a mean and a deviation of values from 0 to 1.
    """
    file, tree = _processor_table(folder)
    size = {"height": image, "width": image}
    notes: tuple[str, ...] = ()
    if file is None:
        file, tree = folder / PROCESSOR_FILE, {"size": size}
        notes = (f"it has no {PROCESSOR_FILE}: images are prepared as the library's ViTImageProcessor does by itself",)
    tree = {key: value for key, value in tree.items() if value is not None}  # null means the default
    settings = PROCESSOR_KEYS.resolve(file, tree)
    if channels == 1 and tree.get("do_convert_rgb"):
        raise DataError(file, "do_convert_rgb: expected false, since the model reads grey images")
    if settings["do_resize"] and _size(settings["size"]) != size:
        raise DataError(file, f"size: expected {size}, the images that the model reads, got {settings['size']!r}")
    if settings["resample"] not in RESAMPLE:
        filters = ", ".join(map(str, RESAMPLE))
        raise DataError(file, f"resample: expected one of {filters}, got {settings['resample']!r}")
    factor = 255.0 * settings["rescale_factor"] if settings["do_rescale"] else 255.0
    if not factor > 0:
        raise DataError(file, f"rescale_factor: expected a number above 0, got {settings['rescale_factor']!r}")
    mean, deviation = [0.0], [1.0]
    if settings["do_normalize"]:
        mean, deviation = (_per_channel(file, settings, key, channels) for key in ("image_mean", "image_std"))
    task = {"mean": [part / factor for part in mean], "deviation": [part / factor for part in deviation]}
    if not settings["do_resize"]:
        return task, notes
    return {**task, "resize": "stretch", "resample": RESAMPLE[settings["resample"]]}, notes


def _processor_table(folder: Path) -> tuple[Path | None, Json]:
    """The settings, which newer folders have within processor_config.json."""
    outer = folder / "processor_config.json"
    if outer.is_file() and "image_processor" in (tree := read_table(outer)):
        if not isinstance(tree["image_processor"], dict):
            raise DataError(outer, "image_processor: expected a table")
        return outer, tree["image_processor"]
    file = folder / PROCESSOR_FILE
    return (file, read_table(file)) if file.is_file() else (None, {})


def _size(value: object) -> object:
    """Height and width, where one number may stand for both."""
    if isinstance(value, int) and not isinstance(value, bool):
        return {"height": value, "width": value}
    return {"height": value[0], "width": value[1]} if isinstance(value, list) and len(value) == 2 else value


def _per_channel(file: Path, settings: Json, key: str, channels: int) -> list[float]:
    value = settings[key]
    parts = value if isinstance(value, list) else [value] * channels
    if value is PROCESSOR_KEYS.defaults[key]:
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
    filters = {name: number for number, name in RESAMPLE.items()}
    normalise = {"image_mean": images.mean, "image_std": images.deviation}
    settings = {
        "image_processor_type": "ViTImageProcessor",
        "do_convert_rgb": images.channels == 3,
        "do_resize": images.resize == "stretch",
        "size": {"height": images.size, "width": images.size},
        "resample": filters[images.resample],
        "do_rescale": True,
        "rescale_factor": 1 / 255,
        "do_normalize": True,
        **{name: list(parts) * (images.channels // len(parts)) for name, parts in normalise.items()},
    }
    (folder / PROCESSOR_FILE).write_text(json.dumps(settings, indent=1) + "\n", encoding="utf-8")
