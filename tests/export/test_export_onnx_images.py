"""Models that read images as ONNX graphs."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from onnx_checks import checked
from tiny import DESCRIBED, PICTURES, describer, picture, vision

from regard.errors import RegardError
from regard.export.exported_model import HeldOut
from regard.export.images import ImageForm
from regard.models import VisionConfig
from regard.tasks.base import Vocabularies
from regard.tasks.images import ImageClassification, ImageClassificationConfig

pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")

VISION = VisionConfig(image=8, patch=4, width=8, heads=2)


def files(folder: Path, channels: int = 3) -> list[str]:
    """The images as files."""
    for seed in range(2):
        data = picture(seed, channels=channels).load()
        assert isinstance(data, bytes)
        (folder / f"{seed}.png").write_bytes(data)
    return [str(folder / f"{seed}.png") for seed in range(2)]


def test_labels_of_images(tmp_path: Path) -> None:
    exported = vision(channels=1)
    model = checked(exported, HeldOut([], pictures=[picture(seed, channels=1) for seed in range(3)]), tmp_path / "out")
    named = files(tmp_path, channels=1)
    assert exported.images is not None
    images = torch.from_numpy(np.stack([exported.images.pixels(name) for name in named]))
    chosen = exported.model(images).argmax(-1).tolist()
    assert model.classify(named) == [exported.labels[number] for number in chosen]
    with pytest.raises(RegardError, match=r"a model of image_classification has model\.onnx and cannot do what step"):
        model.generate(named)


@pytest.mark.parametrize("resize", ["crop", "stretch"])
def test_images_become_the_numbers_that_the_task_trains_with(resize: Any, tmp_path: Path) -> None:
    config = ImageClassificationConfig(resize=resize, mean=(0.1, 0.2, 0.3), deviation=(0.4,))
    task = ImageClassification(Vocabularies({}, ("cat", "dog")), config)
    form, odd = ImageForm.of(config, VISION), picture(5, size=13)
    ours = task.normalise(task.read([odd], VISION), torch.device("cpu"))
    np.testing.assert_allclose(form.pixels(odd), ours[0].numpy(), atol=1e-6)
    assert ImageForm(**json.loads(json.dumps(form.tree()))).pixels(odd).tolist() == form.pixels(odd).tolist()


@pytest.mark.slow
def test_labels_of_images_without_a_class_token(tmp_path: Path) -> None:
    checked(vision(class_token=False, position="rotary"), PICTURES, tmp_path / "out")


@pytest.mark.slow
def test_descriptions_of_images(tmp_path: Path) -> None:
    model = checked(describer(), DESCRIBED, tmp_path / "out")
    written = model.generate(files(tmp_path), 8)
    assert len(written) == 2
    assert all(isinstance(text, str) for text in written)
