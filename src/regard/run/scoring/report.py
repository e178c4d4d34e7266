"""What a test is given, and what it reports."""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch
from torch import nn

from regard.data.examples import DescribedPicture, Example, Labelled, LabelledPicture, Pair, Tagged, Text
from regard.data.source_reader import read_examples
from regard.data.sources import SourceConfig
from regard.decode.search import AnySearch
from regard.errors import counted
from regard.tasks.base import Task
from regard.tasks.prepare import Preparation
from regard.text.inputs import Overlong


@dataclass(frozen=True)
class ScoringRequest:
    """A trained model and what to test it on."""

    task: Task
    model: nn.Module
    source: SourceConfig
    preparation: Preparation
    """How the data is read, and where relative paths start."""
    device: torch.device
    search: AnySearch
    """How a task that generates text searches."""
    tokens_per_batch: int
    longest: int | None = None
    """Most tokens of an input that the model was made for."""
    others: Sequence[nn.Module] = ()
    """Further models of an ensemble."""
    overlong: Overlong = "skip"
    """What becomes of examples that are too long for the model."""
    left_out: Collection[int] = ()
    """Numbers of the examples, from zero, that are left out because they are too long."""
    watch: Callable[[], None] = lambda: None
    """Called before each batch that is generated; what it raises ends the test."""
    examples: Sequence[Example] | None = None
    """The examples to generate for, where they were read before; None: all of the source."""

    def read(self) -> Iterable[Example]:
        """The examples to generate for."""
        return read_examples(self.source, self.preparation.base) if self.examples is None else self.examples


@dataclass(frozen=True)
class Report:
    """The scores of a test."""

    metrics: dict[str, float]
    examples: int
    seconds: float
    signatures: dict[str, str] = field(default_factory=dict)
    """How scores were computed, as sacrebleu writes it."""
    details: dict[str, Any] = field(default_factory=dict, repr=False)
    """What is no single number: the confusion matrix, the generated texts."""
    evidence: dict[str, list[Any]] = field(default_factory=dict, repr=False)
    """What a test of significance needs: `written` and `references`, or whether each answer is `right`, or `losses` of
    batches and `targets`, which stand for what each batch predicts, or
    under a score's own name its value for each example."""
    fingerprint: str = ""
    """SHA-256 of the examples that were tested: scores of other examples are not comparable."""
    targets: str = ""
    """What a mean over targets is a mean over, as `targets_of` says it."""
    overlong: dict[str, Any] = field(default_factory=dict)
    """Of examples that are too long for the model: what became of them, how many there are, and the first of them."""
    unit: str = "example"
    """What `examples` counts: of running text tokens, of a treebank words."""

    def tree(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "metrics": self.metrics,
            "signatures": self.signatures,
            f"{self.unit}s": self.examples,
            "seconds": round(self.seconds, 3),
            **({"overlong": self.overlong} if self.overlong else {}),
            **self.details,
        }


def fingerprint_of(source: SourceConfig, base: Path, left_out: Collection[int] = ()) -> str:
    """SHA-256 of the examples of a source, in order: what the model is given and what it should answer."""
    examples = enumerate(read_examples(source, base))
    return fingerprint(content_of(example) for number, example in examples if number not in left_out)


def fingerprint(examples: Iterable[tuple[str, ...]]) -> str:
    """SHA-256 of texts, each example's apart from the next."""
    digest = sha256()
    for texts in examples:
        for text in texts:
            data = text.encode("utf-8", "surrogatepass")
            digest.update(len(data).to_bytes(8, "big") + data)
        digest.update(b"\n")
    return digest.hexdigest()


def content_of(example: Example) -> tuple[str, ...]:
    """What an example says, without where it stood."""
    match example:
        case Pair():
            return example.source, example.target
        case Labelled():
            return example.text, example.label
        case Text():
            return (example.text + example.end,)
        case Tagged():
            return (*example.words, "", *example.tags, *map(str, example.heads or ()))
        case LabelledPicture():
            return example.picture.key, example.label
        case DescribedPicture():
            return example.picture.key, example.target


def targets_of(task: Task) -> str:
    """What a model of this task predicts; means over targets are comparable where it is the same."""
    config, vocabularies = task.config, task.vocabularies
    if config.has_classes:
        return (
            f"{counted(len(vocabularies.labels), 'label')} ({fingerprint((name,) for name in vocabularies.labels)[:8]})"
        )
    tokenizer = vocabularies.tokenizers[config.texts[-1]]
    hidden = "" if config.target_masking is None else f", hidden as {fingerprint([(repr(config.target_masking),)])[:8]}"
    return f"{counted(tokenizer.vocab_size, 'token')} ({tokenizer.identity[:8]}{hidden})"
