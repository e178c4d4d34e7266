"""What a test is given, what it reports, and what all tests measure: the loss over the batches of encoded data."""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Any, NotRequired, TypedDict

import torch
from torch import nn

from regard import metrics
from regard.config.values import Tree
from regard.data.batches import Batches
from regard.data.examples import DescribedPicture, Example, Labelled, LabelledPicture, Pair, Tagged, Text
from regard.data.source_reader import read_examples
from regard.data.sources import SourceConfig
from regard.data.store import Store
from regard.decode.search import AnySearch
from regard.errors import DataError, counted
from regard.tasks.base import Task
from regard.tasks.evaluation import MeasuredBatch, measure, measuring_batches
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
        return read_examples(self.source, self.preparation.base) if self.examples is None else self.examples


class LabelCounts(TypedDict):
    """How often a label was expected, predicted and rightly predicted, and the least probability it is predicted at."""

    label: str
    expected: int
    predicted: int
    right: int
    threshold: float


class Details(TypedDict, total=False):
    """Results of a test that are no single number."""

    written: list[str]
    """The generated texts."""
    left_out: dict[str, int]
    """How many examples were not scored, by reason."""
    by_label: list[LabelCounts]
    labels: list[str]
    confusion: list[list[int]]
    """How often each label was predicted where each was right."""


class OverlongSummary(TypedDict):
    treatment: Overlong
    count: int
    examples: list[str]
    """The first of them."""
    scores: NotRequired[list[str]]
    """The scores that they affect, if not all."""


Evidence = dict[str, list[Any]]
"""What a test of significance needs: `written` and `references`, or whether each answer is `right`, or `losses` of
batches and `targets`, which stand for what each batch predicts, or under a score's own name its value for each
example."""


@dataclass(frozen=True)
class Report:
    metrics: dict[str, float]
    examples: int
    seconds: float
    signatures: dict[str, str] = field(default_factory=dict[str, str])
    """How scores were computed, as sacrebleu writes it."""
    details: Details = field(default_factory=Details, repr=False)
    evidence: Evidence = field(default_factory=Evidence, repr=False)
    fingerprint: str = ""
    """SHA-256 of the examples that were tested: scores of other examples are not comparable."""
    targets: str = ""
    """What a mean over targets is a mean over, as `targets_of` says it."""
    overlong: OverlongSummary | None = None
    unit: str = "example"
    """What `examples` counts: of running text tokens, of a treebank words."""

    def tree(self) -> Tree:
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
        identity = fingerprint((name,) for name in vocabularies.labels)
        return f"{counted(len(vocabularies.labels), 'label')} ({identity[:8]})"
    tokenizer = vocabularies.tokenizers[config.texts[-1]]
    hidden = "" if config.target_masking is None else f", hidden as {fingerprint([(repr(config.target_masking),)])[:8]}"
    return f"{counted(tokenizer.vocab_size, 'token')} ({tokenizer.identity[:8]}{hidden})"


def open_source(request: ScoringRequest) -> tuple[Store, Batches]:
    """The encoded source and its batches, cut alike for all models with one vocabulary and batch size."""
    overlong = "cut" if request.overlong == "cut" and not request.task.config.gives_trees else "skip"
    data = request.preparation.data.but(test=request.source, overlong=overlong)
    preparation = replace(request.preparation, data=data)
    store = preparation.open(request.task, "test")
    return store, measuring_batches(store, preparation.config.batching(preparation.data), request.tokens_per_batch)


def measure_batches(request: ScoringRequest, batches: Batches) -> tuple[dict[str, float], Evidence, int]:
    """The task's metrics over all batches, with perplexity; the evidence, which is loss and targets of each batch; and
    how many targets there are."""
    losses: list[float] = []
    targets: list[str] = []
    counted = 0.0

    def note(part: MeasuredBatch) -> None:
        nonlocal counted
        counted += part.sums["count"]
        losses.append(part.sums["nll"] / max(1, part.sums["count"]))
        targets.append(sha256(part.inputs.targets.cpu().numpy().tobytes()).hexdigest()[:16])

    values = measure(request.task, request.model, batches, request.device, note)
    if not counted:
        raise DataError("data", "there is no token to predict: no text has more than one")
    values["perplexity"] = metrics.perplexity(values["loss"], 1)
    return values, {"losses": losses, "targets": targets}, round(counted)
