"""What a ViT's folder says of images is taken over or refused: mean, deviation, factor, size, filter, colours."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from PIL import Image
from random_folders import randomise
from tiny import PICTURES, vision

from regard import api
from regard.data.examples import Picture
from regard.errors import DataError
from regard.export.export import export_model
from regard.export.exported_model import ExportedModel
from regard.export.huggingface.import_model import read_folder
from regard.export.images import ImageForm

SMALL = {
    "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 24, "image_size": 8,
    "patch_size": 4, "num_labels": 3,
}  # fmt: skip
FORM: dict[str, Any] = {
    "image_processor_type": "ViTImageProcessor",
    "size": {"height": 8, "width": 8},
    "image_mean": [0.485, 0.456, 0.406],
    "image_std": [0.229, 0.224, 0.225],
}


def write(folder: Path, form: dict[str, Any] | None, **more: Any) -> None:
    model = transformers.ViTForImageClassification(transformers.ViTConfig(**{**SMALL, **more}))
    randomise(model, 1)
    model.save_pretrained(folder)
    if form is not None:
        tree = {key: value for key, value in {**FORM, **form}.items() if value is not ...}
        (folder / "preprocessor_config.json").write_text(json.dumps(tree))


def odd_image(width: int, height: int, mode: str = "RGB") -> Image.Image:
    channels = {"L": (), "RGB": (3,), "RGBA": (4,)}[mode]
    pixels = np.random.default_rng(3).integers(0, 256, (height, width, *channels), dtype=np.uint8)
    return Image.fromarray(pixels)


@pytest.mark.parametrize(
    ("form", "more"),
    [
        ({}, {}),
        ({"image_mean": ..., "image_std": ..., "resample": 3}, {}),
        ({"do_normalize": False, "resample": 1}, {}),
        ({"do_rescale": False, "image_mean": [120, 110, 100], "image_std": [60, 61, 62]}, {}),
        ({"rescale_factor": 1 / 127.5, "image_mean": [1.0, 1.0, 1.0], "resample": 0}, {}),
        ({"size": 8, "do_convert_rgb": True, "image_processor_type": "ViTImageProcessorFast"}, {}),
        ({"image_processor_type": ..., "feature_extractor_type": "ViTFeatureExtractor", "do_convert_rgb": None}, {}),
        ({"image_mean": [0.3], "image_std": [0.4]}, {"num_channels": 1}),
    ],
)  # fmt: skip
@torch.no_grad()
def test_images_are_prepared_as_the_librarys_processor_does(
    form: dict[str, Any], more: dict[str, Any], tmp_path: Path
) -> None:
    write(tmp_path / "theirs", form, **more)
    said: list[str] = []
    run = api.import_run(tmp_path / "theirs", tmp_path / "run", say=said.append)
    assert float(said[0].rpartition(" ")[2]) < 1e-5
    image = odd_image(13, 10, "L" if more else "RGB")
    image.save(tmp_path / "image.png")
    processor = transformers.AutoImageProcessor.from_pretrained(tmp_path / "theirs")
    theirs = transformers.ViTForImageClassification.from_pretrained(tmp_path / "theirs")
    pixels = processor(image, return_tensors="pt")["pixel_values"]
    ours = ImageForm.of(run.recipe.task, run.recipe.model).pixels(str(tmp_path / "image.png"))
    np.testing.assert_allclose(ours, pixels[0].numpy(), atol=2e-5 * max(1, abs(ours).max()))
    found = run.classify([str(tmp_path / "image.png")])[0]
    assert found is not None
    assert list(found.values()) == pytest.approx(theirs(pixels).logits.softmax(-1)[0].tolist(), abs=1e-4)


@pytest.mark.parametrize(
    ("form", "words"),
    [
        ({"do_center_crop": True, "crop_size": 8}, "do_center_crop: expected False or None, got True"),
        ({"do_pad": True}, "do_pad: expected False or None, got True"),
        ({"size": {"shortest_edge": 8}}, "size: expected {'height': 8, 'width': 8}"),
        ({"size": {"height": 16, "width": 16}}, "size: expected {'height': 8, 'width': 8}"),
        ({"size": ...}, "the images that the model reads, got {'height': 224"),
        ({"resample": 9}, "resample: expected one of 0, 1, 2, 3, 4, 5, got 9"),
        ({"image_mean": [0.5]}, "image_mean: expected 3 numbers, one for each colour, got [0.5]"),
        ({"image_std": [0.5, 0.5, 0.0]}, "image_std: expected numbers above 0"),
        ({"rescale_factor": 0.0}, "rescale_factor: expected a number above 0"),
        ({"do_resize": "yes"}, "do_resize: expected a value like True, got 'yes'"),
        ({"do_flip_channel_order": True}, "'do_flip_channel_order' is no setting"),
        ({"image_processor_type": "CLIPImageProcessor"}, "image_processor_type: expected 'ViTImageProcessor'"),
    ],
)  # fmt: skip
def test_an_image_processor_that_does_something_else_is_refused(
    form: dict[str, Any], words: str, tmp_path: Path
) -> None:
    write(tmp_path, form)
    with pytest.raises(DataError) as error:
        read_folder(tmp_path)
    assert words in str(error.value)


def test_without_resizing_other_sizes_are_refused_here_too(tmp_path: Path) -> None:
    write(tmp_path, {"do_resize": False, "size": ...})
    assert "resize" not in read_folder(tmp_path).settings
    (tmp_path / "processor_config.json").write_text(
        json.dumps({"image_processor": {**FORM, "image_mean": [0.1, 0.2, 0.3]}})
    )
    assert read_folder(tmp_path).settings["mean"] == [0.1, 0.2, 0.3]  # the library looks there first


def test_a_folder_without_an_image_processor_says_so(tmp_path: Path) -> None:
    write(tmp_path, None)
    imported = read_folder(tmp_path)
    assert imported.settings == {"mean": [0.5] * 3, "deviation": [0.5] * 3, "resize": "stretch", "resample": "bilinear"}
    assert "it has no preprocessor_config.json" in imported.notes[0]


@pytest.mark.parametrize(
    ("channels", "mode", "size"),
    [(3, "RGB", (8, 8)), (3, "RGB", (13, 10)), (3, "RGBA", (11, 9)), (3, "L", (9, 9)), (1, "L", (9, 8))],
)
def test_an_exported_folder_says_what_our_model_does(
    channels: int, mode: str, size: tuple[int, int], tmp_path: Path
) -> None:
    mean, deviation = ((0.49, 0.48, 0.45), (0.25, 0.24, 0.26)) if channels == 3 else ((0.13,), (0.31,))
    form = ImageForm(8, channels, "stretch", mean, deviation, "lanczos")
    given = vision(channels)
    exported = ExportedModel(given.model, given.config, given.task, {}, given.labels, length=48, images=form)
    export_model(exported, PICTURES, "huggingface", tmp_path / "out")
    processor = transformers.AutoImageProcessor.from_pretrained(tmp_path / "out")
    image = odd_image(*size, mode)
    image.save(tmp_path / "image.png")
    pixels = processor(image, return_tensors="np")["pixel_values"][0]
    ours = form.pixels(Picture.held(tmp_path / "image.png", (tmp_path / "image.png").read_bytes(), "image"))
    np.testing.assert_allclose(ours, pixels, atol=1e-6)
    back = api.import_run(tmp_path / "out", tmp_path / "back")
    assert ImageForm.of(back.recipe.task, back.recipe.model) == form
