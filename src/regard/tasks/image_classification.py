"""Image classification: one label for a whole image."""

from collections.abc import Iterator, Sequence
from typing import ClassVar, Literal

import torch
from torch import nn

from regard.config import Unused
from regard.data.batches import Batch
from regard.data.examples import Example, LabelledPicture
from regard.data.fields import TextField
from regard.data.images.store import IMAGE
from regard.data.settings import DataConfig
from regard.data.sources import Content
from regard.data.store_writer import Row
from regard.nn.device import to_device
from regard.tasks.base import Inputs, Scoring, Vocabularies, need_shape
from regard.tasks.contract import ModelConfig, config_of
from regard.tasks.generation import AnyInput
from regard.tasks.images import ImageTask, ImageTaskConfig, image_config, images_at_once, is_image
from regard.tasks.labels import LabelTask
from regard.text.tokenizer import TokenizerConfig


class ImageClassificationConfig(ImageTaskConfig):
    """One label for each image, such as what it shows."""

    kind: Literal["image_classification"] = "image_classification"
    content: ClassVar[Content] = "images"
    texts: ClassVar[tuple[str, ...]] = ()
    labels: ClassVar[tuple[str, ...]] = ("label",)
    usual_model: ClassVar[str] = "vision"
    scoring: ClassVar[Scoring] = "labels"
    default_score: ClassVar[str] = "accuracy"
    measured: ClassVar[tuple[str, ...]] = ("accuracy", "macro_f1", "loss")
    example_command: ClassVar[str] = "regard classify {folder} image.png"

    def task(self, vocabularies: Vocabularies) -> "ImageClassification":
        return ImageClassification(vocabularies, self)

    def check(self, model: ModelConfig, data: DataConfig) -> None:
        need_shape(model, ["vision"], "image_classification")
        super().check(model, data)

    def unused(self, model: ModelConfig, data: DataConfig, tokenizer: TokenizerConfig) -> Iterator[Unused]:
        """Images have one length, so there is nothing to sort."""
        yield from super().unused(model, data, tokenizer)
        yield Unused("data.batching.pool", "on images, which all have the same length")


class ImageClassification(ImageTask, LabelTask):
    """−log P(label | image)."""

    def fields(self, data: DataConfig, tokenizer: TokenizerConfig, training: bool) -> dict[str, TextField]:
        return {}

    def row(self, example: Example) -> Row:
        assert isinstance(example, LabelledPicture)
        return {"label": self.label_number(example.label, str(example.picture.name))}

    def build(self, model: ModelConfig) -> nn.Module:
        return model.build(len(self.number))

    def num_params(self, model: ModelConfig) -> int:
        return model.num_params(len(self.number))

    def inputs(self, batch: Batch, model: ModelConfig, device: torch.device) -> Inputs:
        """Images and the numbers of their labels."""
        images = self.normalise(batch.images[IMAGE], device)
        targets = to_device(torch.from_numpy(batch.labels["label"]), device)
        flops = 3.0 * model.flops(len(images), len(self.number)) * self.passes
        return Inputs((images,), targets, len(targets), len(images) * image_config(model).tokens, flops)

    @torch.no_grad()
    def classify(
        self,
        model: nn.Module,
        texts: Sequence[AnyInput],
        device: torch.device,
        longest: int | None = None,
        cut: bool = False,
    ) -> list[dict[str, float] | None]:
        """The probability of each label for each image, a file's name or its bytes; None for a blank name."""
        config = image_config(config_of(model))
        named, at_once = [image for image in texts if is_image(image)], images_at_once(config)
        rows: list[list[float]] = []
        for start in range(0, len(named), at_once):
            images = self.normalise(self.read(named[start : start + at_once], config), device)
            rows += model(images).float().softmax(-1).tolist()
        answers = iter(rows)
        return [
            dict(zip(self.vocabularies.labels, next(answers), strict=True)) if is_image(image) else None
            for image in texts
        ]
