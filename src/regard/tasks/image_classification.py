"""Image classification: one label for a whole image."""

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Literal

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
from regard.errors import DataError, nearest, shortened
from regard.nn.device import to_device
from regard.tasks.base import Inputs, Task, Vocabularies, need_shape
from regard.tasks.classification import Classification
from regard.tasks.images import AnyImage, ImageTask, ImageTaskBase, given, rows_at_once
from regard.text.tokenizer import TokenizerConfig


class ImageClassificationConfig(ImageTaskBase):
    """One label for each image, such as what it shows."""

    kind: Literal["image_classification"] = "image_classification"
    content: ClassVar[Content] = "images"
    texts: ClassVar[tuple[str, ...]] = ()
    labels: ClassVar[tuple[str, ...]] = ("label",)
    usual_model: ClassVar[str] = "vision"
    scores: ClassVar[tuple[str, ...]] = ("accuracy", "macro_f1", "loss")

    def task(self, vocabularies: Vocabularies) -> "ImageClassification":
        """The task, once the labels are known."""
        return ImageClassification(vocabularies, self)

    def check(self, model: Any, data: DataConfig) -> None:  # noqa: ANN401
        """Refuses a model or data that this task cannot use."""
        need_shape(model, ["vision"], "image_classification")
        super().check(model, data)

    def unused(self, model: Any, data: DataConfig, tokenizer: TokenizerConfig) -> Iterator[Unused]:  # noqa: ANN401
        """Images have one length, so there is nothing to sort."""
        yield from super().unused(model, data, tokenizer)
        yield Unused("data.batching.pool", "on images, which all have the same length")


class ImageClassification(ImageTask, Classification):
    """−log P(label | image)."""

    def __init__(self, vocabularies: Vocabularies, config: ImageClassificationConfig) -> None:
        Task.__init__(self, vocabularies, config)
        self.number = {label: number for number, label in enumerate(vocabularies.labels)}

    def fields(self, data: DataConfig, tokenizer: TokenizerConfig, training: bool) -> dict[str, TextField]:
        """No text at all."""
        return {}

    def row(self, example: Example) -> Row:
        """The number of an image's label."""
        assert isinstance(example, LabelledPicture)
        if example.label not in self.number:
            hint = nearest(example.label, self.number)
            raise DataError(
                example.picture.name, f"label '{shortened(example.label, 60)}' is unknown in the training data; {hint}"
            )
        return {"label": self.number[example.label]}

    def build(self, model: Any) -> nn.Module:  # noqa: ANN401
        """The model for the labels."""
        return model.build(len(self.number))

    def num_params(self, model: Any) -> int:  # noqa: ANN401
        """Learned numbers of the model, without building it."""
        return model.num_params(len(self.number))

    def inputs(self, batch: Batch, model: Any, device: torch.device) -> Inputs:  # noqa: ANN401
        """Images and the numbers of their labels."""
        images = self.numbers(batch.images[IMAGE], device)
        targets = to_device(torch.from_numpy(batch.labels["label"]), device)
        flops = 3.0 * model.flops(len(images), len(self.number)) * self.passes
        return Inputs((images,), targets, len(targets), len(images) * model.tokens, flops)

    @torch.no_grad()
    def classify(
        self,
        model: nn.Module,
        texts: Sequence[AnyImage],
        device: torch.device,
        longest: int | None = None,
        cut: bool = False,
    ) -> list[dict[str, float] | None]:
        """The probability of each label for each image, a file's name or its bytes; None for a blank name."""
        config: Any = model.config
        named, at_once = [image for image in texts if given(image)], rows_at_once(config)
        rows: list[list[float]] = []
        for start in range(0, len(named), at_once):
            images = self.numbers(self.read(named[start : start + at_once], config), device)
            rows += model(images).float().softmax(-1).tolist()
        found = iter(rows)
        return [
            dict(zip(self.vocabularies.labels, next(found), strict=True)) if given(image) else None for image in texts
        ]
