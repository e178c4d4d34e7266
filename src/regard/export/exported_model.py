"""What is exported: a trained model with its settings and vocabularies; and the held-out text it is checked on."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from regard.data.examples import DescribedPicture, Example, Labelled, LabelledPicture, Pair, Picture, Tagged, Text
from regard.errors import DataError
from regard.export.images import ImageForm
from regard.nn.head import TokenHeadConfig
from regard.tasks.images import ImageTask
from regard.tasks.trained import Trained
from regard.text.special_tokens import BOS, EOS, MASK, PAD, SEP, SPECIAL_TOKENS
from regard.text.tokenizer import Tokenizer

Kind = Literal[
    "translation",
    "language_model",
    "classification",
    "tagging",
    "masked_language_model",
    "image_classification",
    "image_description",
    "summarisation",
]

PASSAGE = 64
"""Tokens of a passage of running text that a language model is checked on."""
PROMPT = 16
"""Tokens of a passage that are given as a prompt."""
HIDDEN = 7
"""Every so many-th token is hidden where a masked language model is checked."""


@dataclass(frozen=True, eq=False)
class Subject:
    """A trained model, and all that an export must know of it."""

    model: nn.Module
    config: Any
    """The model's settings."""
    kind: str
    """Its task."""
    tokenizers: Mapping[str, Tokenizer]
    labels: Sequence[str] = ()
    documents: bool = True
    """Whether a language model learnt where texts begin and end."""
    length: int = 256
    """Most tokens of an input; of a summariser, of an output."""
    name: str = "model"
    images: ImageForm | None = None
    """What images look like to it, where it reads such."""
    input_tokens: int | None = None
    """Where a summariser cuts its inputs, the token after them counted."""
    spare_positions: int = 0
    """Positions behind the end of a learned table, for a library that reads the end token of what it scores."""

    @classmethod
    def of(cls, trained: Trained, length: int | None = None, spare_positions: int = 0) -> "Subject":
        """A trained model with the limits of its export."""
        recipe = trained.recipe
        images = ImageForm.of(recipe.task, recipe.model) if isinstance(trained.task, ImageTask) else None
        return cls(
            trained.model, recipe.model, recipe.task.kind, trained.tokenizers, trained.labels, trained.documents,
            length or trained.longest or recipe.data.max_length, trained.name, images, trained.input_tokens,
            spare_positions,
        )  # fmt: skip

    @property
    def prompted(self) -> bool:
        """Whether it reads its source as the beginning of its own text: input, separator and output in one stack."""
        return self.kind == "summarisation" and self.config.shape == "decoder"

    @property
    def pairs(self) -> bool:
        """Whether it reads a text with one stack and writes another with a second."""
        return self.kind == "translation" or (self.kind == "summarisation" and not self.prompted)

    @property
    def translates(self) -> bool:
        """Whether it reads a text or an image, and then writes another text."""
        return self.pairs or self.kind == "image_description"

    @property
    def continues(self) -> bool:
        """Whether what it writes goes on from what it reads, in one sequence."""
        return self.prompted or self.kind == "language_model"

    @property
    def writes(self) -> bool:
        """Whether it writes text, or labels what is given."""
        return self.translates or self.continues

    @property
    def ends(self) -> bool:
        """Whether it knows where a text ends."""
        return self.translates or self.documents

    @property
    def never(self) -> tuple[int, ...]:
        """Tokens that no search of ours writes."""
        return (PAD,) if self.kind == "language_model" else (PAD, BOS)

    @property
    def after_input(self) -> int:
        """The token that stands after the text that is read."""
        return SEP if self.prompted else EOS

    @property
    def source(self) -> Tokenizer:
        """What cuts the text that is read."""
        return self.tokenizers["source" if "source" in self.tokenizers else "text"]

    @property
    def target(self) -> Tokenizer:
        """What cuts the text that is written."""
        return self.tokenizers["target" if "target" in self.tokenizers else "text"]

    @property
    def joint(self) -> bool:
        """Whether one vocabulary serves both sides."""
        return self.source.identity == self.target.identity

    @property
    def longest(self) -> int:
        """Most tokens of a sequence: of what is read or written, or of both in one."""
        if self.prompted:
            return self.length + (self.input_tokens or 0)
        return max(self.length, self.input_tokens or 0)

    @property
    def most_written(self) -> int:
        """Most tokens that are generated unless asked otherwise."""
        room = self.room - (self.input_tokens or 0) if self.prompted else self.room
        return max(1, min(256, room, self.length) if self.kind == "summarisation" else min(256, room))

    @property
    def room(self) -> int:
        """Places that a table of positions needs: all that may be read or written, and some."""
        place = "decoder_position" if self.kind == "image_description" else "position"
        longest = getattr(getattr(self.config, place, None), "longest", None)
        return longest or max(512, self.longest + 1)

    def has_positions(self, row: "Row") -> bool:
        """Whether the positions of the model, on both sides, hold an example."""
        sides = (row.source, self.config.longest), (row.target, self.config.longest_target)
        return all(limit is None or len(tokens) <= limit for tokens, limit in sides)

    @property
    def prompt_tokens(self) -> int:
        """Tokens that a language model continues in a check; of few positions, half."""
        return max(1, min(PROMPT, self.room // 2))

    @property
    def settled(self) -> Any:  # noqa: ANN401
        """The settings with the output layer that the task chose."""
        if self.kind == "tagging" and self.config.head is None:
            return self.config.but(head=TokenHeadConfig())
        if hasattr(self.config, "head_for"):
            return self.config.but(head=self.config.head_for(len(self.labels) if self.labels else None))
        return self.config

    def input_form(self) -> dict[str, Any]:
        """How a summariser's inputs are made, for regard.json: so many tokens, the token after them counted."""
        if self.input_tokens is None:
            return {}
        return {"input_tokens": self.input_tokens, "after_input": SPECIAL_TOKENS[self.after_input]}

    def input_note(self) -> list[str]:
        """The same for people, as a comment in an example."""
        if self.input_tokens is None:
            return []
        return [f"# it reads the first {self.input_tokens - 1} tokens of a text and {SPECIAL_TOKENS[self.after_input]}"]

    def weights(self) -> dict[str, Tensor]:
        """Copies of the learned numbers, in float32."""
        return {name: weight.detach().float().cpu().clone() for name, weight in self.model.named_parameters()}


@dataclass(frozen=True)
class Row:
    """One example as token ids: what is read, and what is written or, in models of one stack, read on."""

    source: list[int]
    target: list[int]
    reference: str = ""
    """The text of the target, where one is given."""
    pixels: NDArray[np.float32] | None = None
    """The image that is read, where it is one; the source then has a number for each patch."""
    given: int | None = None
    """Tokens of the target that are its prompt, where input and output are one sequence."""

    def __len__(self) -> int:
        return max(len(self.source), len(self.target))


@dataclass(frozen=True)
class HeldOut:
    """Text that the model was not trained on."""

    texts: Sequence[str]
    references: Sequence[str] = field(default_factory=list)
    """What texts or images are to become, where the task is to write it."""
    pictures: Sequence[Picture] = ()
    """Images, where these are read instead of texts."""

    @classmethod
    def of(cls, examples: Iterable[Example]) -> "HeldOut":
        """The texts or images of examples of any task."""
        found = list(examples)
        pairs = [example for example in found if isinstance(example, Pair)]
        if pairs:
            return cls([pair.source for pair in pairs], [pair.target for pair in pairs])
        pictured = [example for example in found if isinstance(example, LabelledPicture | DescribedPicture)]
        if pictured:
            described = [example.target for example in pictured if isinstance(example, DescribedPicture)]
            return cls([], described, [example.picture for example in pictured])
        texts = [example for example in found if isinstance(example, Labelled | Tagged | Text)]
        return cls([example.text + getattr(example, "end", "") for example in texts])

    def rows(self, subject: Subject) -> list[Row]:
        """The examples that fit into the model, as tokens."""
        make = {
            "translation": self._pairs,
            "language_model": self._passages,
            "classification": self._texts,
            "tagging": self._sentences,
            "masked_language_model": self._masked,
            "image_classification": self._images,
            "image_description": self._images,
            "summarisation": self._summaries,
        }
        rows = make[subject.kind](subject)
        if subject.images is None:
            rows = [row for row in rows if len(row) <= subject.longest and subject.has_positions(row)]
        else:
            rows = [row for row in rows if len(row.target) <= subject.room]
        if not rows:
            raise DataError(
                "data.valid", "no held-out text is left to check the export on; name other data with --data"
            )
        return rows

    def _pairs(self, subject: Subject) -> list[Row]:
        sources = subject.source.encode_batch(list(self.texts))
        targets = subject.target.encode_batch(list(self.references))
        rows = zip(sources, targets, self.references, strict=True)
        return [Row([*source, EOS], [BOS, *target], text) for source, target, text in rows if source]

    def _summaries(self, subject: Subject) -> list[Row]:
        """Pairs whose sources are cut; of a model with one stack, both in one sequence."""
        assert subject.input_tokens is not None
        kept, rows = subject.input_tokens - 1, self._pairs(subject)
        cut = [(row.source[:-1][:kept], row) for row in rows if len(row.target) <= subject.length]
        if not subject.prompted:
            return [replace(row, source=[*source, EOS]) for source, row in cut]
        joined = [([*source, SEP], row) for source, row in cut]
        return [Row([], [*prompt, *row.target[1:]], row.reference, given=len(prompt)) for prompt, row in joined]

    def _passages(self, subject: Subject) -> list[Row]:
        given = subject.prompt_tokens
        if subject.documents:
            return [Row([], [BOS, *ids], given=given) for ids in subject.target.encode_batch(list(self.texts)) if ids]
        return [Row([], ids, given=given) for ids in self._running(subject)]

    def _running(self, subject: Subject) -> list[list[int]]:
        ids = subject.target.encode("".join(self.texts))
        size = min(PASSAGE, subject.length, subject.room)
        return [ids[start : start + size] for start in range(0, len(ids) - 1, size)]

    def _texts(self, subject: Subject) -> list[Row]:
        return [Row([*ids, EOS], []) for ids in subject.source.encode_batch(list(self.texts)) if ids]

    def _sentences(self, subject: Subject) -> list[Row]:
        return [Row(subject.source.encode_words(text.split()).tokens, []) for text in self.texts if text.split()]

    def _masked(self, subject: Subject) -> list[Row]:
        rows = [row.source for row in self._texts(subject)] if subject.documents else self._running(subject)
        return [Row([token if place % HIDDEN else MASK for place, token in enumerate(row)], []) for row in rows]

    def _images(self, subject: Subject) -> list[Row]:
        assert subject.images is not None
        patches = list(range(subject.config.patches))
        written = self.references or [""] * len(self.pictures)
        targets = subject.target.encode_batch(list(self.references)) if self.references else [[]] * len(written)
        rows = zip(self.pictures, targets, written, strict=True)
        return [Row(patches, [BOS, *ids], text, subject.images.numbers(picture)) for picture, ids, text in rows]


def torch_device(model: nn.Module) -> torch.device:
    """Where a model's weights lie."""
    return next(model.parameters()).device
