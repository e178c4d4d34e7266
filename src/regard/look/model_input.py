"""What a model is given when we look at it: the tensors it takes, and the sentences that these stand for."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from regard.errors import RegardError
from regard.look.tokens import Sentence
from regard.nn.layout import Sequences
from regard.tasks import Summarisation, Task
from regard.text.special_tokens import BOS, EOS, SEP, UNK
from regard.text.tokenizer import Tokenizer

Shape = Literal["pair", "text", "label"]
LONGEST = 1024
"""Most tokens a side that a page shows."""


@dataclass(frozen=True)
class Reading:
    """One input of a model, tokens and tensors."""

    shape: Shape
    """`pair`: reads one sentence and writes another; `text`: writes on; `label`: reads and classifies."""
    arguments: tuple[Any, ...]
    """What the model takes."""
    source: Sentence | None
    """What is read; None where the model only writes."""
    target: Sentence | None
    """What is written, the begin token first where there is one; None where the model only reads."""
    given: int = 1
    """How many tokens of the target the model did not write itself."""


class Reader:
    """Makes readings of texts for one task."""

    reads_text: ClassVar[bool] = True
    """Whether what is read has words, which can be moved."""

    def __init__(self, model: nn.Module, task: Task, documents: bool = False) -> None:
        self.model, self.task = model, task
        self.joins = isinstance(task, Summarisation) and model.config.shape == "decoder"  # type: ignore[union-attr]
        """Whether one stack reads the source and writes on from it, a separator between them."""
        self.documents = documents or self.joins
        self.device = next(model.parameters()).device
        self.labels = list(task.vocabularies.labels)

    @property
    def shape(self) -> Shape:
        """What the task's models do with a text."""
        if "target" in self.task.vocabularies.tokenizers:
            return "text" if self.joins else "pair"
        return "label" if self.labels else "text"

    @property
    def source(self) -> Tokenizer:
        """The vocabulary of what is read."""
        known = self.task.vocabularies.tokenizers
        return known["source"] if "source" in known else next(iter(known.values()))

    @property
    def target(self) -> Tokenizer:
        """The vocabulary of what is written."""
        return self.task.vocabularies.tokenizers.get("target", self.source)

    def ids(self, text: str) -> list[int]:
        """The tokens that are read: with their end in a pair or before a label, with their begin in a document."""
        if not text.strip():
            raise RegardError("text: expected something to look at, got a blank text")
        ids = self.source.encode(text)
        if self.joins:
            return checked([*ids, SEP])
        if self.shape == "text":
            return checked([BOS, *ids] if self.documents else ids or [UNK])
        return checked([*ids, EOS])

    def pair(self, source: Sequence[int], target: Sequence[int]) -> Reading:
        """A source and what is written for it."""
        written = [BOS, *target]
        arguments = (self.sequences(source), self.sequences(checked(written)))
        return Reading("pair", arguments, Sentence.of(self.source, source), Sentence.of(self.target, written))

    def text(self, prompt: Sequence[int], written: Sequence[int]) -> Reading:
        """A prompt and what follows it."""
        ids = checked([*prompt, *written])
        return Reading("text", (self.sequences(ids),), None, Sentence.of(self.target, ids), len(prompt))

    def label(self, ids: Sequence[int]) -> Reading:
        """A text to classify."""
        return Reading("label", (self.sequences(ids),), Sentence.of(self.source, ids), None)

    def grid(self, ids: Sequence[int]) -> Sequences:
        """What a model that writes takes as its source."""
        return self.sequences(ids)

    def extras(self) -> dict[str, Any]:
        """What the page shows beside the text."""
        return {}

    def sequences(self, ids: Sequence[int]) -> Sequences:
        """One row of tokens, where the model is."""
        return Sequences.full(torch.tensor([list(ids)], dtype=torch.long, device=self.device))


def encoded(model: nn.Module, source: Sequences) -> Tensor | None:
    """What a model's encoder says about each token (batch, time, width); None where it has no encoder to ask."""
    encode: Any = getattr(model, "encode", None)
    if encode is None:
        return None
    said = encode(source)
    return said if isinstance(said, Tensor) else getattr(said, "vectors", None)


def checked(ids: list[int]) -> list[int]:
    """Refuses more tokens than a page shows."""
    if len(ids) > LONGEST:
        raise RegardError(f"text: a page shows at most {LONGEST:,} tokens, got {len(ids):,}; shorten it")
    return ids
