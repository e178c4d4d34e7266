"""Images: one label for each, or a sentence about it; their settings, their store and normalised pixels."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Literal, Protocol, TypeVar, Unpack, cast

import numpy as np
import torch
from jaxtyping import Float, UInt8
from pydantic import Field
from torch import Tensor, nn

from regard.config import Unused
from regard.data.batches import Batch
from regard.data.examples import DescribedPicture, Example, LabelledPicture, Picture
from regard.data.fields import AnyField, TextField
from regard.data.images.decoding import Canvas, Resample, Resize
from regard.data.images.files import read_image
from regard.data.images.store import IMAGE, AugmentConfig, ImageStore, open_image_store
from regard.data.settings import DataConfig
from regard.data.store_writer import Row
from regard.decode import AnySearch, AnyStepper, Ensemble, score, search
from regard.errors import ConfigError
from regard.models import Patches
from regard.nn.device import to_device
from regard.tasks.base import GenerationTask, Inputs, StorePlace, Task, TaskConfig, Vocabularies, need_shape
from regard.tasks.classification import LabelTask
from regard.tasks.contract import ModelConfig, config_of
from regard.tasks.generation import AnyInput, AnyInputs, Output, TextGenerator
from regard.tasks.tensors import shift
from regard.text.special_tokens import BOS, EOS, PAD, UNK
from regard.text.tokenizer import TokenizerConfig

TOKENS_AT_ONCE = 1 << 15
"""Patches that a model is given at once when it is used."""
GREY_AND_COLOURS = (1, 3)
Item = TypeVar("Item")
Result = TypeVar("Result")


class ImageModelConfig(Protocol):
    """The settings of a model that reads images."""

    @property
    def image(self) -> int: ...
    @property
    def channels(self) -> int: ...
    @property
    def patch(self) -> int: ...
    @property
    def patches(self) -> int: ...
    @property
    def tokens(self) -> int: ...


class ImageTaskConfig(TaskConfig):
    """What the configs of tasks that read images have."""

    resize: Resize = "refuse"
    """Images of another size than the model's: refuse them, cut out the middle (crop), or stretch them."""
    resample: Resample = "bicubic"
    """Filter by which images of another size are resized."""
    mean: tuple[float, ...] = (0.5,)
    """Subtracted from each colour, which is between 0 and 1: one number for all, or one for each."""
    deviation: tuple[float, ...] = (0.5,)
    """What each colour is divided by after that."""
    augment: AugmentConfig | None = None
    """How images are changed at random while training."""

    def canvas(self, model: ImageModelConfig) -> Canvas:
        return Canvas(model.image, model.channels, self.resize, self.resample)

    def check(self, model: ModelConfig, data: DataConfig) -> None:
        super().check(model, data)
        channels = image_config(model).channels
        if data.batching is not None and data.batching.kind != "bucketed":
            raise ConfigError("data.batching", f"images need 'bucketed' batches, got '{data.batching.kind}'")
        if channels not in GREY_AND_COLOURS:
            raise ConfigError("model.channels", f"images are read in grey (1) or in colours (3), got {channels}")
        for name, numbers in (("mean", self.mean), ("deviation", self.deviation)):
            if len(numbers) not in (1, channels):
                raise ConfigError(f"task.{name}", f"expected 1 or {channels} numbers, got {len(numbers)}")
        if self.resize == "refuse" and self.resample != "bicubic":
            raise ConfigError(
                "task.resample", "no image is resized with task.resize = 'refuse'; choose 'crop' or 'stretch'"
            )
        if min(self.deviation) <= 0:
            raise ConfigError("task.deviation", f"expected numbers above 0, got {min(self.deviation)}")


class ImageTask(Task):
    """A task whose examples have an image each."""

    config: ImageTaskConfig

    def open_store(
        self,
        blocks: Callable[[], Iterable[Sequence[Example]]],
        fields: Mapping[str, AnyField],
        model: ModelConfig | None,
        training: bool,
        **where: Unpack[StorePlace],
    ) -> ImageStore:
        """The store of a split, with its pixels; only while training they change from epoch to epoch."""
        assert model is not None
        images = image_config(model)
        return open_image_store(
            lambda: with_pictures(chain.from_iterable(blocks())),
            self.row,
            fields,
            self.config.labels,
            canvas=self.config.canvas(images),
            patches=images.tokens,
            augment=self.config.augment if training else None,
            **where,
        )

    def normalise(
        self, pixels: UInt8[np.ndarray, "batch height width channels"], device: torch.device
    ) -> Float[Tensor, "batch channels height width"]:
        """Pixels minus mean, divided by deviation, colour by colour."""
        x = to_device(torch.as_tensor(np.ascontiguousarray(pixels)), device).permute(0, 3, 1, 2).float() / 255
        mean, deviation = (torch.tensor(part, device=device) for part in (self.config.mean, self.config.deviation))
        return ((x - mean[:, None, None]) / deviation[:, None, None]).contiguous()

    def read(self, images: AnyInputs, model: ImageModelConfig) -> UInt8[np.ndarray, "batch height width channels"]:
        canvas = self.config.canvas(model)
        return np.stack([read_any(image, canvas) for image in images])


def with_pictures(examples: Iterable[Example]) -> Iterable[LabelledPicture | DescribedPicture]:
    for example in examples:
        assert isinstance(example, LabelledPicture | DescribedPicture)
        yield example


def read_any(image: AnyInput, canvas: Canvas) -> UInt8[np.ndarray, "height width channels"]:
    if isinstance(image, Picture):
        return canvas.picture(image)
    if isinstance(image, bytes):
        return canvas.pixels(image, "image")
    file = str(image)
    return canvas.pixels(read_image(Path(file).expanduser()), file)


def is_image(image: AnyInput) -> bool:
    """Whether an input names an image: a blank line does not."""
    return not isinstance(image, str) or bool(image.strip())


def in_groups(
    items: Sequence[Item], work: Callable[[Sequence[Item]], list[Result]], model: ImageModelConfig
) -> list[Result]:
    """The results of all images, as many at once as a model is given."""
    at_once = max(1, TOKENS_AT_ONCE // model.tokens)
    return [result for start in range(0, len(items), at_once) for result in work(items[start : start + at_once])]


def image_config(model: ModelConfig) -> ImageModelConfig:
    return cast(ImageModelConfig, model)


# Classification


class ImageClassificationConfig(ImageTaskConfig):
    """One label for each image, such as what it shows."""

    kind: Literal["image_classification"] = "image_classification"
    content = "images"
    texts = ()
    labels = ("label",)
    usual_model = "vision"
    scoring = "labels"
    default_score = "accuracy"
    measured = ("accuracy", "macro_f1", "loss")
    example_command = "regard classify {folder} image.png"

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

    def sizes(self, model: ModelConfig) -> tuple[int, ...]:
        return (len(self.number),)

    def inputs(self, batch: Batch, model: ModelConfig, device: torch.device) -> Inputs:
        images = self.normalise(batch.images[IMAGE], device)
        targets = to_device(torch.as_tensor(batch.labels["label"]), device)
        flops = 3.0 * model.flops(len(images), len(self.number)) * self.passes
        return Inputs((images,), targets, len(targets), len(images) * image_config(model).tokens, flops)

    @torch.no_grad()
    def classify(
        self, model: nn.Module, texts: AnyInputs, device: torch.device, longest: int | None = None, cut: bool = False
    ) -> list[dict[str, float] | None]:
        """The probability of each label for each image, a file's name or its bytes; None for a blank name."""
        config = image_config(config_of(model))

        def work(images: AnyInputs) -> list[list[float]]:
            return model(self.normalise(self.read(images, config), device)).float().softmax(-1).tolist()

        answers = iter(in_groups([image for image in texts if is_image(image)], work, config))
        return [
            dict(zip(self.vocabularies.labels, next(answers), strict=True)) if is_image(image) else None
            for image in texts
        ]


# Description


class ImageDescriptionConfig(ImageTaskConfig):
    """From image to text: what is to be seen, or any other sentence about it."""

    kind: Literal["image_description"] = "image_description"
    smoothing: float = Field(0.1, ge=0, lt=1)
    """Label smoothing: the share of each token's probability that is spread over all tokens. Losses are shown without
    it; metrics.jsonl has the smoothed one as `objective`."""
    content = "captions"
    texts = ("target",)
    usual_model = "vision-encoder-decoder"
    scoring = "texts"
    default_score = "bleu"
    example_command = "regard translate {folder} image.png"
    generates = True

    def task(self, vocabularies: Vocabularies) -> "ImageDescription":
        return ImageDescription(vocabularies, self)

    def input_of(self, example: Example) -> AnyInput:
        assert isinstance(example, DescribedPicture)
        return example.picture

    def reference_of(self, example: Example) -> str:
        assert isinstance(example, DescribedPicture)
        return example.target

    def check(self, model: ModelConfig, data: DataConfig) -> None:
        need_shape(model, ["vision-encoder-decoder"], "image_description")
        super().check(model, data)


class ImageDescription(ImageTask, GenerationTask):
    """−Σ log P(y_i | y_<i, image): each token from those before it and the whole image."""

    verb = "translate"
    predicted = ("target",)

    def __init__(self, vocabularies: Vocabularies, config: ImageDescriptionConfig) -> None:
        super().__init__(vocabularies, config)
        self.target = vocabularies.tokenizers["target"]

    def generator(
        self, stepper: AnyStepper, device: torch.device, longest: int | None = None, base: Path = Path()
    ) -> TextGenerator:
        model = stepper.members[0] if isinstance(stepper, Ensemble) else stepper
        config = image_config(config_of(cast(nn.Module, model)))
        return ImageDescriber(stepper, None, self.target, device, task=self, model=config)

    def fields(self, data: DataConfig, tokenizer: TokenizerConfig, training: bool) -> dict[str, TextField]:
        """Sentences begin and end with their tokens."""
        limit = data.max_length + 1 if training else None
        sampler = self.target.sampler(tokenizer) if training else None
        return {"target": TextField(self.target, sampler, begin=True, max_length=limit, overlong=data.overlong)}

    def row(self, example: Example) -> Row:
        assert isinstance(example, DescribedPicture)
        return {"target": example.target}

    def sizes(self, model: ModelConfig) -> tuple[int, ...]:
        return (self.target.vocab_size,)

    def inputs(self, batch: Batch, model: ModelConfig, device: torch.device) -> Inputs:
        target, images = batch.fields["target"], self.normalise(batch.images[IMAGE], device)
        tokens, targets = shift(target, device)
        config = image_config(model)
        count = int(np.sum(target.lengths - 1))
        flops = self.forward_flops(partial(model.flops, vocab=self.target.vocab_size), target, shifted=True)
        arguments, patches = (Patches.of(images, config.patch), tokens), len(images) * config.patches
        return Inputs(arguments, targets, count, count + patches, 3.0 * flops * self.passes)


@dataclass(frozen=True)
class ImageDescriber(TextGenerator):
    task: ImageDescription = field(kw_only=True)
    model: ImageModelConfig = field(kw_only=True)
    """The model's settings."""

    def translate(
        self, texts: AnyInputs, config: AnySearch, prefixes: Sequence[str] | None = None, cut: bool = False
    ) -> list[list[Output]]:
        """The descriptions of each image, a file's name or its bytes, best first; none for a blank name."""
        starts = [self.target.encode(prefix) for prefix in prefixes or [""] * len(texts)]
        jobs = [(image, start) for image, start in zip(texts, starts, strict=True) if is_image(image)]

        def work(jobs: Sequence[tuple[AnyInput, list[int]]]) -> list[list[Output]]:
            self.watch()
            grid, prompts = self._patches([image for image, _ in jobs]), [start for _, start in jobs]
            rows = search(self.stepper, grid, prompts, config, eos=EOS, bos=BOS, pad=PAD, unk=UNK)
            return self._outputs(rows, prompts)

        descriptions = iter(in_groups(jobs, work, self.model))
        return [next(descriptions) if is_image(image) else [Output("", 0.0, [], [], True)] for image in texts]

    def score(self, sources: AnyInputs, targets: Sequence[str]) -> list[list[float]]:
        """The log-probability of each token of given descriptions, the end token last."""
        rows = [self.target.encode(target) for target in targets]
        return score(self.stepper, self._patches(sources), rows, eos=EOS, bos=BOS)

    def _patches(self, images: AnyInputs) -> Patches:
        return Patches.of(self.task.normalise(self.task.read(images, self.model), self.device), self.model.patch)
