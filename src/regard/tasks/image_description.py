"""Image description: read an image, generate a sentence about it."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal, cast

import numpy as np
import torch
from pydantic import Field
from torch import nn

from regard.data.batches import Batch
from regard.data.examples import DescribedPicture, Example
from regard.data.fields import TextField
from regard.data.images.store import IMAGE
from regard.data.settings import DataConfig
from regard.data.sources import Content
from regard.data.store_writer import Row
from regard.decode import AnySearch, AnyStepper, Ensemble, score, search
from regard.models import Patches
from regard.tasks.base import GenerationTask, Inputs, Scoring, Vocabularies, need_shape
from regard.tasks.contract import ImageModelConfig, ModelConfig, config_of
from regard.tasks.generation import AnyInput, Output, TextGenerator
from regard.tasks.images import ImageTask, ImageTaskConfig, image_config, images_at_once, is_image
from regard.tasks.tensors import shift
from regard.text.special_tokens import BOS, EOS, PAD, UNK
from regard.text.tokenizer import TokenizerConfig


class ImageDescriptionConfig(ImageTaskConfig):
    """From image to text: what is to be seen, or any other sentence about it."""

    kind: Literal["image_description"] = "image_description"
    smoothing: float = Field(0.1, ge=0, lt=1)
    """Label smoothing: the share of each token's probability that is spread over all tokens. Losses are shown without
    it; metrics.jsonl has the smoothed one as `objective`."""
    content: ClassVar[Content] = "captions"
    texts: ClassVar[tuple[str, ...]] = ("target",)
    usual_model: ClassVar[str] = "vision-encoder-decoder"
    scoring: ClassVar[Scoring] = "texts"
    default_score: ClassVar[str] = "bleu"
    example_command: ClassVar[str] = "regard translate {folder} image.png"
    predicts_tokens: ClassVar[bool] = True
    generates: ClassVar[bool] = True

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

    def build(self, model: ModelConfig) -> nn.Module:
        return model.build(self.target.vocab_size)

    def num_params(self, model: ModelConfig) -> int:
        return model.num_params(self.target.vocab_size)

    def inputs(self, batch: Batch, model: ModelConfig, device: torch.device) -> Inputs:
        """Images and the shifted sentences about them."""
        target, images = batch.fields["target"], self.normalise(batch.images[IMAGE], device)
        tokens, targets = shift(target, device)
        config = image_config(model)
        count = int(np.sum(target.lengths - 1))
        rows, time = target.tokens.shape
        flops = 3.0 * model.flops(rows, time - 1, self.target.vocab_size) * self.passes
        arguments = (Patches.of(images, config.patch), tokens)
        return Inputs(arguments, targets, count, count + rows * config.patches, flops)


@dataclass(frozen=True)
class ImageDescriber(TextGenerator):
    """Generates descriptions of images."""

    task: ImageDescription | None = None
    model: ImageModelConfig | None = None
    """The model's settings."""

    def translate(
        self, texts: Sequence[AnyInput], config: AnySearch, prefixes: Sequence[str] | None = None, cut: bool = False
    ) -> list[list[Output]]:
        """The descriptions of each image, a file's name or its bytes, best first; none for a blank name."""
        starts = [self.target.encode(prefix) for prefix in prefixes or [""] * len(texts)]
        jobs = [(image, start) for image, start in zip(texts, starts, strict=True) if is_image(image)]
        assert self.model is not None
        at_once = images_at_once(self.model)
        descriptions = iter(
            outputs
            for start in range(0, len(jobs), at_once)
            for outputs in self._describe(jobs[start : start + at_once], config)
        )
        return [next(descriptions) if is_image(image) else [Output("", 0.0, [], [], True)] for image in texts]

    def score(self, sources: Sequence[AnyInput], targets: Sequence[str]) -> list[list[float]]:
        """The log-probability of each token of given descriptions, the end token last."""
        rows = [self.target.encode(target) for target in targets]
        return score(self.stepper, self._patches(sources), rows, eos=EOS, bos=BOS)

    def _describe(self, jobs: Sequence[tuple[AnyInput, list[int]]], config: AnySearch) -> list[list[Output]]:
        self.watch()
        grid, prompts = self._patches([image for image, _ in jobs]), [start for _, start in jobs]
        rows = search(self.stepper, grid, prompts, config, eos=EOS, bos=BOS, pad=PAD, unk=UNK)
        return self._outputs(rows, prompts)

    def _patches(self, images: Sequence[AnyInput]) -> Patches:
        assert self.task is not None
        assert self.model is not None
        return Patches.of(self.task.normalise(self.task.read(images, self.model), self.device), self.model.patch)
