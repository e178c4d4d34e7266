"""What is exported: a trained model with its settings and vocabularies; and the held-out data it is checked on."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from regard.data.examples import DescribedPicture, Example, Labelled, LabelledPicture, Pair, Picture, Tagged, Text
from regard.errors import DataError
from regard.export.images import ImageForm
from regard.models import EncoderDecoderConfig, ModelConfig
from regard.models.convolutional.windows import WindowsConfig
from regard.models.recurrent.single_stack import SingleRecurrentConfig
from regard.models.stack import StackConfig
from regard.models.transformer import SingleStackConfig
from regard.models.vision import PatchConfig
from regard.nn.head import TokenHeadConfig
from regard.nn.position import SinusoidalConfig
from regard.tasks.images import ImageTask, image_config
from regard.tasks.multi_label import MultiLabel
from regard.tasks.trained import Trained
from regard.text.special_tokens import BOS, EOS, MASK, PAD, SEP, SPECIAL_TOKENS
from regard.text.tokenizer import Tokenizer

ExportedTask = Literal[
    "translation",
    "language_model",
    "classification",
    "multi_label_classification",
    "tagging",
    "masked_language_model",
    "image_classification",
    "image_description",
    "summarisation",
]

TextConfig = SingleStackConfig | EncoderDecoderConfig
"""Settings of a Transformer of texts."""
PASSAGE = 64
"""Tokens of a passage of running text that a language model is checked on."""
PROMPT = 16
"""Tokens of a passage that are its prompt."""
MASKED = 7
"""One of so many tokens is masked where a masked language model is checked."""


@dataclass(frozen=True, eq=False)
class ExportedModel:
    """A trained model, and all that an export must know of it."""

    model: nn.Module
    config: ModelConfig
    """The model's settings."""
    task: str
    tokenizers: Mapping[str, Tokenizer]
    labels: Sequence[str] = ()
    documents: bool = True
    """Whether a language model was trained on whole documents, and so knows where texts begin and end."""
    length: int = 256
    """Most tokens of an input; of a summariser, of an output."""
    name: str = "model"
    images: ImageForm | None = None
    """How images become its input, where it reads images."""
    input_tokens: int | None = None
    """Where a summariser cuts its inputs, the token after them counted."""
    spare_positions: int = 0
    """Positions behind the end of a learned table, for a library that reads the end token of what it scores."""
    thresholds: Mapping[str, float] = field(default_factory=dict)
    """Of each label, where a text may have several."""

    @classmethod
    def of(cls, trained: Trained, length: int | None = None, spare_positions: int = 0) -> "ExportedModel":
        """A trained model with the limits of its export."""
        recipe = trained.recipe
        images = None
        if isinstance(trained.task, ImageTask):
            images = ImageForm.of(trained.task.config, image_config(recipe.model))
        return cls(
            trained.model, recipe.model, recipe.task.kind, trained.tokenizers, trained.labels, trained.documents,
            length or trained.longest or recipe.data.max_length, trained.name, images, trained.input_tokens,
            spare_positions, trained.task.thresholds if isinstance(trained.task, MultiLabel) else {},
        )  # fmt: skip

    @property
    def prompted(self) -> bool:
        """Whether it is a decoder that reads input and separator as the prompt of its output."""
        return self.task == "summarisation" and self.config.shape == "decoder"

    @property
    def encoder_decoder(self) -> bool:
        """Whether it encodes a text and decodes another."""
        return self.task == "translation" or (self.task == "summarisation" and not self.prompted)

    @property
    def has_source(self) -> bool:
        """Whether it generates a text from an encoded text or image."""
        return self.encoder_decoder or self.task == "image_description"

    @property
    def continues(self) -> bool:
        """Whether its output continues its input, in one sequence."""
        return self.prompted or self.task == "language_model"

    @property
    def generates(self) -> bool:
        """Whether it generates text; others label their input."""
        return self.has_source or self.continues

    @property
    def has_end(self) -> bool:
        """Whether it generates the end token."""
        return self.has_source or self.documents

    @property
    def suppressed(self) -> tuple[int, ...]:
        """Tokens that no search of ours generates."""
        return (PAD,) if self.task == "language_model" else (PAD, BOS)

    @property
    def after_input(self) -> int:
        """The token after an input."""
        return SEP if self.prompted else EOS

    @property
    def source(self) -> Tokenizer:
        return self.tokenizers["source" if "source" in self.tokenizers else "text"]

    @property
    def target(self) -> Tokenizer:
        return self.tokenizers["target" if "target" in self.tokenizers else "text"]

    @property
    def joint(self) -> bool:
        """Whether source and target have one vocabulary."""
        return self.source.identity == self.target.identity

    @property
    def max_tokens(self) -> int:
        """Most tokens of a sequence: of input or output, or of both in one."""
        if self.prompted:
            return self.length + (self.input_tokens or 0)
        return max(self.length, self.input_tokens or 0)

    @property
    def max_new_tokens(self) -> int:
        """Most tokens that are generated by default."""
        left = self.max_positions - (self.input_tokens or 0) if self.prompted else self.max_positions
        return max(1, min(256, left, self.length) if self.task == "summarisation" else min(256, left))

    @property
    def max_positions(self) -> int:
        """Rows of a position table: those of a learned one, else enough for any input or output."""
        position = "decoder_position" if self.task == "image_description" else "position"
        longest = getattr(getattr(self.config, position, None), "longest", None)
        return longest or max(512, self.max_tokens + 1)

    @property
    def prompt_tokens(self) -> int:
        """Tokens that a language model continues in a check; of few positions, half."""
        return max(1, min(PROMPT, self.max_positions // 2))

    @property
    def resolved_config(self) -> ModelConfig:
        """The settings with the output layer that the task chose."""
        config = self.config
        if not isinstance(config, SingleStackConfig | SingleRecurrentConfig | WindowsConfig):
            return config
        if self.task == "tagging" and config.head is None:
            return config.but(head=TokenHeadConfig())
        return config.but(head=config.head_for(len(self.labels) if self.labels else None))

    @property
    def text_config(self) -> TextConfig:
        """The same of a Transformer of texts."""
        config = self.resolved_config
        assert isinstance(config, TextConfig)
        return config

    def input_settings(self) -> dict[str, int | str]:
        """How a summariser's inputs are made, for regard.json."""
        if self.input_tokens is None:
            return {}
        return {"input_tokens": self.input_tokens, "after_input": SPECIAL_TOKENS[self.after_input]}

    def input_comment(self) -> list[str]:
        """The same for people, as a comment in an example."""
        if self.input_tokens is None:
            return []
        return [f"# it reads the first {self.input_tokens - 1} tokens of a text and {SPECIAL_TOKENS[self.after_input]}"]

    def weights(self) -> dict[str, Tensor]:
        """Copies of the parameters, in float32."""
        return {name: weight.detach().float().cpu().clone() for name, weight in self.model.named_parameters()}


@dataclass(frozen=True)
class Row:
    """One example as token ids: source and target; of models with one stack, the target holds both."""

    source: list[int]
    target: list[int]
    reference: str = ""
    """The text of the target, where there is one."""
    pixels: NDArray[np.float32] | None = None
    """The image, where the source is one; `source` then has an element for each patch."""
    prompt_length: int | None = None
    """Tokens of the target that are its prompt."""

    @property
    def prompt(self) -> list[int]:
        return self.target[: self.prompt_length]

    def __len__(self) -> int:
        return max(len(self.source), len(self.target))


@dataclass(frozen=True)
class HeldOut:
    """Texts or images that the model was not trained on."""

    texts: Sequence[str]
    references: Sequence[str] = field(default_factory=list)
    """Reference outputs, where the task has them."""
    pictures: Sequence[Picture] = ()
    """Images, where the model reads images."""

    @classmethod
    def of(cls, examples: Iterable[Example]) -> "HeldOut":
        """The texts or images of examples of any task."""
        examples = list(examples)
        pairs = [example for example in examples if isinstance(example, Pair)]
        if pairs:
            return cls([pair.source for pair in pairs], [pair.target for pair in pairs])
        pictured = [example for example in examples if isinstance(example, LabelledPicture | DescribedPicture)]
        if pictured:
            described = [example.target for example in pictured if isinstance(example, DescribedPicture)]
            return cls([], described, [example.picture for example in pictured])
        texts = [example for example in examples if isinstance(example, Labelled | Tagged | Text)]
        return cls([example.text + getattr(example, "end", "") for example in texts])

    def rows(self, exported: ExportedModel) -> list[Row]:
        """The examples that fit into the model, as tokens."""
        make = {
            "translation": self._pairs,
            "language_model": self._passages,
            "classification": self._texts,
            "multi_label_classification": self._texts,
            "tagging": self._sentences,
            "masked_language_model": self._masked,
            "image_classification": self._images,
            "image_description": self._images,
            "summarisation": self._summaries,
        }
        rows = make[exported.task](exported)
        if exported.images is None:
            rows = [row for row in rows if len(row) <= exported.max_tokens and _has_positions(exported.config, row)]
        else:
            rows = [row for row in rows if len(row.target) <= exported.max_positions]
        if not rows:
            raise DataError(
                "data.valid", "no held-out text is left to check the export on; name other data with --data"
            )
        return rows

    def _pairs(self, exported: ExportedModel) -> list[Row]:
        sources = exported.source.encode_batch(list(self.texts))
        targets = exported.target.encode_batch(list(self.references))
        rows = zip(sources, targets, self.references, strict=True)
        return [Row([*source, EOS], [BOS, *target], text) for source, target, text in rows if source]

    def _summaries(self, exported: ExportedModel) -> list[Row]:
        """Pairs whose sources are cut; of a decoder, both in one sequence."""
        assert exported.input_tokens is not None
        most, rows = exported.input_tokens - 1, self._pairs(exported)
        cut = [(row.source[:-1][:most], row) for row in rows if len(row.target) <= exported.length]
        if not exported.prompted:
            return [replace(row, source=[*source, EOS]) for source, row in cut]
        joined = [([*source, SEP], row) for source, row in cut]
        return [Row([], [*prompt, *row.target[1:]], row.reference, prompt_length=len(prompt)) for prompt, row in joined]

    def _passages(self, exported: ExportedModel) -> list[Row]:
        if exported.documents:
            rows = [[BOS, *ids] for ids in exported.target.encode_batch(list(self.texts)) if ids]
        else:
            rows = self._running(exported)
        return [Row([], ids, prompt_length=exported.prompt_tokens) for ids in rows]

    def _running(self, exported: ExportedModel) -> list[list[int]]:
        ids = exported.target.encode("".join(self.texts))
        size = min(PASSAGE, exported.length, exported.max_positions)
        return [ids[start : start + size] for start in range(0, len(ids) - 1, size)]

    def _texts(self, exported: ExportedModel) -> list[Row]:
        return [Row([*ids, EOS], []) for ids in exported.source.encode_batch(list(self.texts)) if ids]

    def _sentences(self, exported: ExportedModel) -> list[Row]:
        return [Row(exported.source.encode_words(text.split()).tokens, []) for text in self.texts if text.split()]

    def _masked(self, exported: ExportedModel) -> list[Row]:
        rows = [row.source for row in self._texts(exported)] if exported.documents else self._running(exported)
        return [Row([token if index % MASKED else MASK for index, token in enumerate(row)], []) for row in rows]

    def _images(self, exported: ExportedModel) -> list[Row]:
        assert exported.images is not None
        assert isinstance(exported.config, PatchConfig)
        patches = list(range(exported.config.patches))
        references = self.references or [""] * len(self.pictures)
        targets = exported.target.encode_batch(list(self.references)) if self.references else [[]] * len(references)
        rows = zip(self.pictures, targets, references, strict=True)
        return [Row(patches, [BOS, *ids], text, exported.images.pixels(picture)) for picture, ids, text in rows]


def sinusoid_table(config: StackConfig, length: int) -> Tensor:
    """The vectors of the first positions of a model with sinusoidal positions."""
    assert isinstance(config.position, SinusoidalConfig)
    position = config.position.build(width=config.width, heads=1, head_width=config.width, causal=False)
    return position.vectors(torch.arange(length)[None])[0]


def _has_positions(config: ModelConfig, row: Row) -> bool:
    """Whether the positions of a model, on both sides, hold an example."""
    sides = (row.source, config.longest), (row.target, config.longest_target)
    return all(limit is None or len(tokens) <= limit for tokens, limit in sides)
