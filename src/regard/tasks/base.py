"""What every task answers: how its examples become tensors, what the loss is, how well a model does."""

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor, nn

from regard.config import Config, Unused
from regard.data.batches import Batch, BatchingConfig, BucketedConfig, StreamConfig
from regard.data.examples import Example
from regard.data.fields import AnyField
from regard.data.settings import DataConfig
from regard.data.sources import Content, SourceConfig
from regard.data.store import Store, open_store
from regard.data.store_writer import LINE, Row
from regard.decode import BeamConfig, GreedyConfig, SampleConfig
from regard.errors import ConfigError, DataError
from regard.files.run_folder import LABELS_FILE
from regard.models import kinds_of
from regard.nn.experts import balance_loss
from regard.nn.loss import Losses
from regard.tasks.consistency import consistent_losses, twice
from regard.tasks.generation import TextGenerator
from regard.text.tokenizer import Tokenizer, TokenizerConfig, load_tokenizers, save_tokenizers

PER_EXAMPLE = ("tokenizer.dropout", "tokenizer.alpha", "data.max_length", "data.overlong")
"""Settings of how each example is cut, which a stream of text does not have."""
Verb = Literal["translate", "generate", "classify"]


@dataclass(frozen=True)
class Vocabularies:
    """What was learnt from the training data before the model: vocabularies, and the names of the classes."""

    tokenizers: Mapping[str, Tokenizer]
    labels: Sequence[str] = ()

    def save(self, folder: Path) -> None:
        """Writes it into a run folder."""
        save_tokenizers(self.tokenizers, folder)
        if self.labels:
            (folder / LABELS_FILE).write_text(json.dumps(list(self.labels), ensure_ascii=False), encoding="utf-8")

    @classmethod
    def load(cls, texts: Sequence[str], folder: Path) -> "Vocabularies":
        """Reads it from a run folder."""
        file, labels = folder / LABELS_FILE, []
        if file.exists():
            try:
                labels = json.loads(file.read_text(encoding="utf-8"))
            except (ValueError, RecursionError):
                labels = None
            if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels):
                raise DataError(file, "expected a JSON list of the classes' names")
        return cls(load_tokenizers(texts, folder), labels)


@dataclass(frozen=True)
class Inputs:
    """One batch as tensors, and what it counts for."""

    arguments: tuple[Any, ...]
    """What the model's `hidden` takes."""
    targets: Tensor
    count: int
    """Targets that count in the loss; losses are means over these."""
    tokens: int
    """Tokens that are no padding, on all sides."""
    flops: float
    """FLOPs of one forward and backward pass."""

    @property
    def scored(self) -> int:
        """Targets that count in the plain loss and in scores; fewer than in the objective where that has more."""
        return self.count


class TaskBase(Config):
    """What the configs of all tasks answer."""

    content: ClassVar[Content]
    """What kind of examples the task learns from."""
    texts: ClassVar[tuple[str, ...]]
    """The text fields of an example."""
    labels: ClassVar[tuple[str, ...]] = ()
    """The label fields of an example."""
    cuts_inputs: ClassVar[bool] = False
    """Whether it reads the beginning of an input that is too long, in training and after."""
    gives_trees: ClassVar[bool] = False
    """Whether its examples come with dependency trees."""
    usual_search: ClassVar[GreedyConfig | BeamConfig | SampleConfig] = BeamConfig()
    """How its models write unless the recipe says otherwise."""
    generates: ClassVar[bool] = False
    """Whether its models generate text."""
    usual_model: ClassVar[str] = "encoder-decoder"
    """The kind of its models unless the recipe says otherwise."""
    scores: ClassVar[tuple[str, ...]]
    """What its tests report, by names of `metrics.registry`; the first is what models are compared by."""
    splits_inputs: ClassVar[bool] = False
    """Whether an input of several sentences may be given to its models sentence by sentence."""
    predicts_tokens: ClassVar[bool] = False
    """Whether what its models predict are tokens of the vocabulary of the last of `texts`, and not labels."""

    smoothing: float = Field(0.0, ge=0, lt=1)
    """Label smoothing: the share of each answer's probability that is spread over all answers. Losses are shown without
    it; metrics.jsonl has the smoothed one as `objective`."""
    consistency: float = Field(0.0, ge=0)
    """R-Drop: read each batch twice under different dropout, and pull the two predictions together by this much. Helps
    where data is scarce, and doubles the cost of a step."""

    @property
    def reads(self) -> str | None:
        """The text field that its models are given; None where they are given something else than text."""
        return next((name for name in self.texts if name in ("source", "text")), None)

    def task(self, vocabularies: Vocabularies) -> "Task":
        """The task, once vocabularies and classes are known."""
        raise TypeError(f"{type(self).__name__} must make its task")

    def batching(self, data: DataConfig) -> BatchingConfig:
        """How examples share a batch."""
        return data.batching or BucketedConfig()

    def check(self, model: Any, data: DataConfig) -> None:  # noqa: ANN401
        """Refuses a model or data that this task cannot use."""
        for split in ("train", "valid", "test"):
            source = getattr(data, split)
            if source is not None:
                source.require(self.content, f"data.{split}")
        if needs_tree(model) and not self.gives_trees:
            raise ConfigError("model.position", "only tagging reads sentences with their trees; choose another kind")

    def unused(self, model: Any, data: DataConfig, tokenizer: TokenizerConfig) -> Iterator[Unused]:  # noqa: ANN401
        """Settings that change nothing for this task with such a model and such data, and why."""
        if not self.texts:
            yield Unused("tokenizer", "on a task without texts")
            yield from (Unused(f"data.{name}", "on a task without texts") for name in ("max_length", "overlong"))
        if len(self.texts) == 1:
            yield Unused("tokenizer.joint", "on a task with one text, which has one vocabulary")
        elif tokenizer.kind == "byte":
            yield Unused("tokenizer.joint", "on bytes, which are the same for source and target")
        if isinstance(self.batching(data), StreamConfig):
            why = "on a stream of text, which is cut once and into rows of data.batching.context tokens"
            yield from (Unused(path, why) for path in PER_EXAMPLE)
        if self.has_classes:
            yield Unused("model.embedding.share", "where labels are predicted, and no tokens of a vocabulary")

    def is_answered(self, example: Example) -> bool:
        """Whether models answer such an example once they are trained; one that they do not is not scored either."""
        return True

    def scores_on(self, source: SourceConfig) -> tuple[str, ...]:
        """What a test on this data reports; some scores need data of a certain kind."""
        return self.scores

    @property
    def has_classes(self) -> bool:
        """Whether the training data names classes that the model tells apart."""
        return bool(self.labels)

    def classes_of(self, example: Example) -> Sequence[str]:
        """The classes that an example names."""
        return [getattr(example, name) for name in self.labels]


class Task(ABC):
    """A task with its vocabularies."""

    best_metric: ClassVar[str] = "loss"
    """Metric by which the best checkpoint is chosen unless the recipe says otherwise."""
    verb: ClassVar[Verb | None] = None
    """What its models do for people: the command that uses them."""
    predicted: ClassVar[tuple[str, ...]] = ()
    """Texts that are predicted token by token: the model reads all of their tokens but the last."""

    def __init__(self, vocabularies: Vocabularies, config: TaskBase) -> None:
        self.vocabularies, self.config = vocabularies, config
        self._costs: dict[tuple[int, ...], int] = {}

    @property
    def passes(self) -> float:
        """How often a training step reads its batch, forth and back."""
        return 2.0 if self.config.consistency else 1.0

    def packed_flops(self, flops: Callable[..., int], *lengths: NDArray[np.int64]) -> float:
        """FLOPs of sequences that are packed: each costs what it costs alone, which is computed once a length."""
        total = 0
        for sizes in zip(*(column.tolist() for column in lengths), strict=True):
            if sizes not in self._costs:
                self._costs[sizes] = flops(*sizes)
            total += self._costs[sizes]
        return float(total)

    @abstractmethod
    def fields(self, data: DataConfig, tokenizer: TokenizerConfig, training: bool) -> Mapping[str, AnyField]:
        """How each text of an example becomes tokens."""

    def position_limits(self, model: Any) -> dict[str, int]:  # noqa: ANN401
        """Most tokens of each text, begin and end token counted, that fit into the positions of a model."""
        written = None if model.longest_target is None else model.longest_target + 1
        limits = {name: written if name in self.predicted else model.longest for name in self.config.texts}
        limits |= dict.fromkeys(self.beside, model.longest)
        return {name: limit for name, limit in limits.items() if limit is not None}

    beside: ClassVar[tuple[str, ...]] = ()
    """Fields that are as long as the text they belong to."""

    @abstractmethod
    def row(self, example: Example) -> Row:
        """An example as the store takes it."""

    def open_store(
        self,
        examples: Callable[[], Iterable[Example]],
        fields: Mapping[str, AnyField],
        model: Any,  # noqa: ANN401
        training: bool,
        **where: Any,  # noqa: ANN401
    ) -> Store:
        """The store of a split; a task whose examples are more than texts and labels opens one of another kind."""
        rows = lambda: ({**self.row(example), LINE: example.location.line} for example in examples())  # noqa: E731
        return open_store(rows, fields, self.config.labels, **where)

    @abstractmethod
    def build(self, model: Any) -> nn.Module:  # noqa: ANN401
        """The model for these vocabularies."""

    @abstractmethod
    def num_params(self, model: Any) -> int:  # noqa: ANN401
        """Learned numbers of the model, without building it."""

    @abstractmethod
    def inputs(self, batch: Batch, model: Any, device: torch.device) -> Inputs:  # noqa: ANN401
        """A batch as tensors."""

    @abstractmethod
    def losses(self, model: nn.Module, inputs: Inputs) -> Losses:
        """The summed objective that training minimises, and beside it the cross-entropy that validation reports."""

    def loss(self, model: nn.Module, inputs: Inputs) -> Tensor:
        """The objective alone."""
        return self.losses(model, inputs).objective

    @abstractmethod
    def measure(self, model: nn.Module, inputs: Inputs) -> dict[str, float]:
        """Sums over a batch from which `summarise` makes metrics; `nll` and `count` among them."""

    def measure_labels(self, model: nn.Module, inputs: Inputs) -> tuple[dict[str, float], Tensor | None]:
        """The sums of `measure`, and the likeliest label at each target where labels are predicted."""
        return self.measure(model, inputs), None

    def summarise(self, sums: Mapping[str, float]) -> dict[str, float]:
        """Metrics of a whole split from the sums of its batches."""
        return {"loss": sums["nll"] / sums["count"] if sums["count"] else math.nan}  # of nothing, no loss is best

    def generator(
        self,
        stepper: Any,  # noqa: ANN401
        device: torch.device,
        longest: int | None = None,
        base: Path = Path(),
    ) -> TextGenerator:
        """What writes with a model, or with an ensemble of them."""
        raise ConfigError("task", f"a model of {self.config.kind} writes no text")  # type: ignore[attr-defined]

    def classify(
        self,
        model: nn.Module,
        texts: Sequence[str],
        device: torch.device,
        longest: int | None = None,
        cut: bool = False,
    ) -> list[dict[str, float] | None]:
        """The probability of each label for each input; None for a blank one."""
        raise ConfigError("task", f"a model of {self.config.kind} gives no labels")  # type: ignore[attr-defined]


class GenerationTask(Task):
    """A task whose model predicts tokens: the loss is the cross-entropy of each, given all before it."""

    def losses(self, model: nn.Module, inputs: Inputs) -> Losses:
        """Cross-entropy of all targets, smoothed if set."""
        smoothing, consistency = self.config.smoothing, self.config.consistency
        if consistency:
            logits = model(*twice(inputs.arguments))
            first, second = logits.chunk(2, 1 if inputs.arguments[-1].layout.packed else 0)
            spread: Any = model.head.spread  # type: ignore[union-attr]
            losses = consistent_losses(first, second, inputs.targets, smoothing, consistency, spread)
        else:
            x = model.hidden(*inputs.arguments)  # type: ignore[operator]
            losses = model.head.losses(x, inputs.targets, smoothing)  # type: ignore[union-attr, operator]
        return with_balance(model, losses, inputs.count)

    def measure(self, model: nn.Module, inputs: Inputs) -> dict[str, float]:
        """Cross-entropy without smoothing."""
        x = model.hidden(*inputs.arguments)  # type: ignore[operator]
        return {"nll": float(model.head.loss(x, inputs.targets)), "count": inputs.count}  # type: ignore[union-attr, operator]


def with_balance(model: nn.Module, losses: Losses, count: int) -> Losses:
    """The objective with what keeps experts evenly used, if the model has any."""
    extra = balance_loss(model)
    return losses if extra is None else Losses(losses.objective + extra * count, losses.cross_entropy)


def need_shape(model: Any, shapes: Sequence[str], task: str) -> None:  # noqa: ANN401
    """Refuses a model of another shape than the task can train."""
    if model.shape not in shapes:
        known = ", ".join(kind for shape in shapes for kind in kinds_of(shape))
        raise ConfigError("model.kind", f"{task} needs one of {known}; got {model.kind}")


def needs_tree(model: Any) -> bool:  # noqa: ANN401
    """Whether the positions of a model follow the sentence's dependency tree."""
    return bool(getattr(getattr(model, "position", None), "needs_tree", False))


def total_tokens(batch: Batch) -> int:
    """Tokens of all fields, padding left out."""
    return int(sum(np.sum(field.lengths) for field in batch.fields.values()))


def examples_text(examples: Iterator[Example], field: str) -> Iterator[str]:
    """One text of each example."""
    for example in examples:
        text = getattr(example, field)
        yield text + getattr(example, "end", "")
