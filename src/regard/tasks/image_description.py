"""Image description: read an image, write a sentence about it."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

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
from regard.decode import Ensemble, score, search
from regard.decode.search import AnySearch
from regard.models import Patches
from regard.tasks.base import GenerationTask, Inputs, Vocabularies, need_shape
from regard.tasks.generation import Output, TextGenerator
from regard.tasks.images import AnyImage, ImageTask, ImageTaskBase, given, rows_at_once
from regard.tasks.tensors import shift
from regard.text.special_tokens import BOS, EOS, PAD, UNK
from regard.text.tokenizer import TokenizerConfig


class ImageDescriptionConfig(ImageTaskBase):
    """From image to text: what is to be seen, or any other sentence about it."""

    kind: Literal["image_description"] = "image_description"
    smoothing: float = Field(0.1, ge=0, lt=1)
    """Label smoothing: the share of each token's probability that is spread over all tokens. Losses are shown without
    it; metrics.jsonl has the smoothed one as `objective`."""
    content: ClassVar[Content] = "captions"
    texts: ClassVar[tuple[str, ...]] = ("target",)
    usual_model: ClassVar[str] = "vision-encoder-decoder"
    scores: ClassVar[tuple[str, ...]] = ("bleu", "chrf", "exact_match")
    predicts_tokens: ClassVar[bool] = True
    generates: ClassVar[bool] = True

    def task(self, vocabularies: Vocabularies) -> "ImageDescription":
        """The task, once the vocabulary is known."""
        return ImageDescription(vocabularies, self)

    def check(self, model: Any, data: DataConfig) -> None:  # noqa: ANN401
        """Refuses a model or data that this task cannot use."""
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
        self,
        stepper: Any,  # noqa: ANN401
        device: torch.device,
        longest: int | None = None,
        base: Path = Path(),
    ) -> TextGenerator:
        """What describes images with a model, or with an ensemble of them."""
        model: Any = stepper.members[0] if isinstance(stepper, Ensemble) else stepper
        return ImageDescriber(stepper, None, self.target, device, task=self, model=model.config)

    def fields(self, data: DataConfig, tokenizer: TokenizerConfig, training: bool) -> dict[str, TextField]:
        """Sentences begin and end with their tokens."""
        limit = data.max_length + 1 if training else None
        sampler = self.target.sampler(tokenizer) if training else None
        return {"target": TextField(self.target, sampler, begin=True, max_length=limit, overlong=data.overlong)}

    def row(self, example: Example) -> Row:
        """The sentence about an image."""
        assert isinstance(example, DescribedPicture)
        return {"target": example.target}

    def build(self, model: Any) -> nn.Module:  # noqa: ANN401
        """The model for the vocabulary."""
        return model.build(self.target.vocab_size)

    def num_params(self, model: Any) -> int:  # noqa: ANN401
        """Learned numbers of the model, without building it."""
        return model.num_params(self.target.vocab_size)

    def inputs(self, batch: Batch, model: Any, device: torch.device) -> Inputs:  # noqa: ANN401
        """Images and the shifted sentences about them."""
        target, images = batch.fields["target"], self.numbers(batch.images[IMAGE], device)
        written, targets = shift(target, device)
        count = int(np.sum(target.lengths - 1))
        rows, time = target.tokens.shape
        flops = 3.0 * model.flops(rows, time - 1, self.target.vocab_size) * self.passes
        arguments = (Patches.of(images, model.patch), written)
        return Inputs(arguments, targets, count, count + rows * model.patches, flops)


@dataclass(frozen=True)
class ImageDescriber(TextGenerator):
    """A trained model that writes about images, with its vocabulary."""

    task: ImageDescription | None = None
    model: Any = None
    """The model's settings."""

    def translate(
        self, texts: Sequence[AnyImage], config: AnySearch, prefixes: Sequence[str] | None = None, cut: bool = False
    ) -> list[list[Output]]:
        """The descriptions of each image, a file's name or its bytes, best first; none for a blank name."""
        starts = [self.target.encode(prefix) for prefix in prefixes or [""] * len(texts)]
        jobs = [(image, start) for image, start in zip(texts, starts, strict=True) if given(image)]
        at_once = rows_at_once(self.model)
        found = iter(
            outputs
            for start in range(0, len(jobs), at_once)
            for outputs in self._describe(jobs[start : start + at_once], config)
        )
        return [next(found) if given(image) else [Output("", 0.0, [], [], True)] for image in texts]

    def score(self, sources: Sequence[AnyImage], targets: Sequence[str]) -> list[list[float]]:
        """The log-probability of each token of given descriptions, the end token last."""
        rows = [self.target.encode(target) for target in targets]
        return score(self.stepper, self._patches(sources), rows, eos=EOS, bos=BOS)

    def _describe(self, jobs: Sequence[tuple[AnyImage, list[int]]], config: AnySearch) -> list[list[Output]]:
        self.watch()
        grid, prompts = self._patches([image for image, _ in jobs]), [start for _, start in jobs]
        rows = search(self.stepper, grid, prompts, config, eos=EOS, bos=BOS, pad=PAD, unk=UNK)
        return self._outputs(rows, prompts)

    def _patches(self, images: Sequence[AnyImage]) -> Patches:
        assert self.task is not None
        return Patches.of(self.task.numbers(self.task.read(images, self.model), self.device), self.model.patch)
