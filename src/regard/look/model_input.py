"""The input of a traced model: its tensors, and the sentences they stand for. Texts, masked texts and images."""

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from jaxtyping import UInt8
from torch import Tensor, nn
from typing_extensions import override

from regard.decode.constraints import stable_top_k
from regard.errors import RegardError
from regard.look.payload import ImagePatches, Shape
from regard.look.tokens import Sentence
from regard.models import Patches
from regard.nn.layout import Sequences
from regard.tasks import MaskedLanguageModel
from regard.tasks.generation import AnyInput
from regard.tasks.images import ImageModelConfig, ImageTask, image_config
from regard.tasks.masked_language_model import MASK_TEXT, masked_ids
from regard.tasks.trained import Trained
from regard.text.special_tokens import BOS, EOS, MASK, SEP, SPECIAL_TOKENS, UNK
from regard.text.tokenizer import Tokenizer

LONGEST = 1024
"""Most tokens of a side that a page shows."""
CLASS_TOKEN = "<class>"
MASK_ALTERNATIVES = 8
"""Likely tokens that are shown for each mask."""


@dataclass(frozen=True)
class ModelInput:
    shape: Shape
    arguments: tuple[object, ...]
    """Arguments of the model."""
    source: Sentence | None
    """None for a language model."""
    target: Sentence | None
    """With BOS where there is one; None for a classifier."""
    prompt_length: int = 1
    """Tokens of the target that are not generated."""

    @property
    def read(self) -> Sentence:
        """The source; of a language model, its text."""
        sentence = self.source or self.target
        assert sentence is not None
        return sentence

    @property
    def prompt(self) -> list[int]:
        """The ids that generation starts from."""
        return self.read.ids if self.source is not None else self.read.ids[: self.prompt_length]


class InputBuilder:
    """Makes the inputs of a model from texts, by its task."""

    reads_text: ClassVar[bool] = True
    """Whether the input has words, which can be shuffled."""

    def __init__(self, trained: Trained) -> None:
        self.trained, self.model = trained, trained.model
        self.joins = trained.task.joins_source(trained.recipe.model)
        """Whether a decoder reads the source and continues it after a separator."""
        self.documents = trained.documents or self.joins

    @property
    def shape(self) -> Shape:
        if "target" in self.trained.tokenizers:
            return "text" if self.joins else "pair"
        return "label" if self.trained.labels else "text"

    @property
    def source(self) -> Tokenizer:
        tokenizers = self.trained.tokenizers
        return tokenizers["source"] if "source" in tokenizers else next(iter(tokenizers.values()))

    @property
    def target(self) -> Tokenizer:
        return self.trained.tokenizers.get("target", self.source)

    def ids(self, text: AnyInput) -> list[int]:
        """The input ids: with EOS for a pair or a label, with BOS for a language model of documents."""
        ids = self.source.encode(not_blank(text))
        if self.joins:
            return checked([*ids, SEP])
        if self.shape == "text":
            return checked([BOS, *ids] if self.documents else ids or [UNK])
        return checked([*ids, EOS])

    def pair(self, source: Sequence[int], target: Sequence[int]) -> ModelInput:
        target = [BOS, *target]
        arguments = (self.source_argument(source), self.sequences(checked(target)))
        return ModelInput("pair", arguments, self.source_sentence(source), Sentence.of(self.target, target))

    def text(self, prompt: Sequence[int], continuation: Sequence[int]) -> ModelInput:
        ids = checked([*prompt, *continuation])
        return ModelInput("text", (self.sequences(ids),), None, Sentence.of(self.target, ids), len(prompt))

    def label(self, ids: Sequence[int]) -> ModelInput:
        return ModelInput("label", (self.sequences(ids),), self.source_sentence(ids), None)

    def source_argument(self, ids: Sequence[int]) -> Sequences:
        """The source as a model that generates takes it."""
        return self.sequences(ids)

    def source_sentence(self, ids: Sequence[int]) -> Sentence:
        return Sentence.of(self.source, ids)

    def image(self) -> ImagePatches | None:
        """The image that the page draws, for models that read images."""
        return None

    def sequences(self, ids: Sequence[int]) -> Sequences:
        return Sequences.full(torch.tensor([list(ids)], dtype=torch.long, device=self.trained.device))


class MaskedInputBuilder(InputBuilder):
    """For masked language models: `<mask>` in a text is a token, and the predictions there are the output."""

    @property
    @override
    def shape(self) -> Shape:
        return "label"

    @override
    def ids(self, text: AnyInput) -> list[int]:
        text = not_blank(text)
        ids = masked_ids(self.source, text) if MASK_TEXT in text else self.source.encode(text)
        return checked((ids or [UNK]) + [EOS] * self.documents)

    def predictions(self, logits: Tensor, sentence: Sentence) -> list[tuple[str, float]]:
        """The likeliest tokens at each mask with their probabilities; without a mask, the likeliest of each token."""
        first = len(SPECIAL_TOKENS)
        masked = [position for position, token in enumerate(sentence.ids) if token == MASK]
        positions = masked or [position for position, token in enumerate(sentence.ids) if token >= first]
        rows: list[tuple[str, float]] = []
        for position in positions:
            probabilities = logits[0, position].float().softmax(-1)[first:]
            count = min(MASK_ALTERNATIVES if masked else 1, len(probabilities))
            values, ids = (part[0].tolist() for part in stable_top_k(probabilities[None], count))
            tokens = self.source.tokens([id + first for id in ids])
            name = f"{sentence.tokens[position]} {position + 1}"
            rows += [(f"{name}: {token}", round(value, 6)) for token, value in zip(tokens, values, strict=True)]
        return rows


class ImageInputBuilder(InputBuilder):
    """For models that read images: patches in place of tokens."""

    reads_text = False

    def __init__(self, trained: Trained, image: AnyInput) -> None:
        super().__init__(trained)
        assert isinstance(trained.task, ImageTask)
        self.config = image_config(trained.recipe.model)
        self.pixels: UInt8[np.ndarray, "height width channels"] = trained.task.read([image], self.config)[0]
        self.images = trained.task.normalise(self.pixels[None], trained.device)
        self.patches = patch_sentence(self.config)

    @override
    def ids(self, text: AnyInput) -> list[int]:
        return self.patches.ids

    @override
    def source_argument(self, ids: Sequence[int]) -> Sequences:
        return Patches.of(self.images, self.config.patch)

    @override
    def source_sentence(self, ids: Sequence[int]) -> Sentence:
        return self.patches

    @override
    def label(self, ids: Sequence[int]) -> ModelInput:
        return ModelInput("label", (self.images,), self.patches, None)

    @override
    def image(self) -> ImagePatches:
        pixels = self.pixels.repeat(3, axis=2) if self.pixels.shape[2] == 1 else self.pixels
        return ImagePatches(
            size=pixels.shape[1],
            patch=self.config.patch,
            class_token=getattr(self.config, "class_token", False),
            pixels=base64.b64encode(pixels.tobytes()).decode(),
        )


def input_builder(trained: Trained, text: AnyInput) -> InputBuilder:
    """For a text, or an image by its file's name or its bytes."""
    if isinstance(trained.task, ImageTask):
        return ImageInputBuilder(trained, text)
    return (MaskedInputBuilder if isinstance(trained.task, MaskedLanguageModel) else InputBuilder)(trained)


def patch_sentence(config: ImageModelConfig) -> Sentence:
    """The patches of an image as tokens "row,column", after the class token where there is one."""
    across = config.image // config.patch
    patches = [f"{row + 1},{column + 1}" for row in range(across) for column in range(across)]
    tokens = [CLASS_TOKEN, *patches] if getattr(config, "class_token", False) else patches
    numbers = list(range(len(tokens)))
    return Sentence(numbers, tokens, numbers, tokens)


def encoder_output(model: nn.Module, source: Sequences) -> Tensor | None:
    """The encoder's hidden vectors (batch, time, width); None for a model without an encoder."""
    encode = getattr(model, "encode", None)
    if not callable(encode):
        return None
    output = encode(source)
    return output if isinstance(output, Tensor) else getattr(output, "vectors", None)


def not_blank(text: AnyInput) -> str:
    if not isinstance(text, str) or not text.strip():
        raise RegardError("text: expected something to look at, got a blank text")
    return text


def checked(ids: list[int]) -> list[int]:
    if len(ids) > LONGEST:
        raise RegardError(f"text: a page shows at most {LONGEST:,} tokens, got {len(ids):,}; shorten it")
    return ids
