"""What is exported: a trained model with its settings and vocabularies; and the held-out text it is checked on."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor, nn

from regard.data.examples import Example, Labelled, Pair, Tagged, Text
from regard.data.special import BOS, EOS
from regard.data.tokenizer import Tokenizer
from regard.errors import DataError

Kind = Literal["translation", "language_model", "classification"]

PASSAGE = 64
"""Tokens of a passage of running text that a language model is checked on."""


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
    """Most tokens of an input."""
    name: str = "model"

    @property
    def source(self) -> Tokenizer:
        """What cuts the text that is read."""
        return self.tokenizers["source" if self.kind == "translation" else "text"]

    @property
    def target(self) -> Tokenizer:
        """What cuts the text that is written."""
        return self.tokenizers["target" if self.kind == "translation" else "text"]

    @property
    def joint(self) -> bool:
        """Whether one vocabulary serves both sides."""
        return self.source.identity == self.target.identity

    @property
    def room(self) -> int:
        """Places that a table of positions needs: all that may be read or written, and some."""
        return self.config.position.longest or max(512, self.length + 1)

    @property
    def settled(self) -> Any:  # noqa: ANN401
        """The settings with the output layer that the task chose."""
        if hasattr(self.config, "head_for"):
            return self.config.but(head=self.config.head_for(len(self.labels) if self.labels else None))
        return self.config

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

    def __len__(self) -> int:
        return max(len(self.source), len(self.target))


@dataclass(frozen=True)
class HeldOut:
    """Text that the model was not trained on."""

    texts: Sequence[str]
    references: Sequence[str] = field(default_factory=list)
    """Translations of the texts, where the task is translation."""

    @classmethod
    def of(cls, examples: Iterable[Example]) -> "HeldOut":
        """The texts of examples of any task."""
        found = list(examples)
        if found and isinstance(found[0], Pair):
            pairs = [example for example in found if isinstance(example, Pair)]
            return cls([pair.source for pair in pairs], [pair.target for pair in pairs])
        texts = [example for example in found if isinstance(example, Labelled | Tagged | Text)]
        return cls([example.text + getattr(example, "end", "") for example in texts])

    def rows(self, subject: Subject) -> list[Row]:
        """The examples that fit into the model, as tokens."""
        make = {"translation": self._pairs, "language_model": self._passages, "classification": self._texts}
        rows = [row for row in make[subject.kind](subject) if len(row) <= subject.length]
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

    def _passages(self, subject: Subject) -> list[Row]:
        if subject.documents:
            return [Row([], [BOS, *ids]) for ids in subject.target.encode_batch(list(self.texts)) if ids]
        ids = subject.target.encode("".join(self.texts))
        size = min(PASSAGE, subject.length)
        return [Row([], ids[start : start + size]) for start in range(0, len(ids) - 1, size)]

    def _texts(self, subject: Subject) -> list[Row]:
        return [Row([*ids, EOS], []) for ids in subject.source.encode_batch(list(self.texts)) if ids]


def torch_device(model: nn.Module) -> torch.device:
    """Where a model's weights lie."""
    return next(model.parameters()).device
