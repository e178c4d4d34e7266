"""What every task answers: how its examples become tensors, what the loss is, how well a model does."""

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import ClassVar, Literal, TypedDict, Unpack, cast

import numpy as np
import torch
from pydantic import Field
from torch import Tensor, nn

from regard.config import Family, Unused
from regard.data.batches import Batch, BatchingConfig, BucketedConfig, StreamConfig
from regard.data.collate import Packed, Padded
from regard.data.examples import Example, Pair
from regard.data.fields import AnyField
from regard.data.masking import MaskingConfig
from regard.data.settings import DataConfig
from regard.data.sources import Content, SourceConfig
from regard.data.store import Store, open_store
from regard.data.store_writer import LINE, Row
from regard.decode import AnySearch, AnyStepper, BeamConfig
from regard.errors import ConfigError, DataError
from regard.files.run_folder import LABELS_FILE
from regard.metrics.baseline import Baseline, token_counts, unigram_loss
from regard.metrics.registry import text_metrics
from regard.models import kinds_of
from regard.nn.experts import balance_loss
from regard.nn.loss import Losses
from regard.tasks.contract import ModelConfig, sequences, token_model
from regard.tasks.generation import AnyInput, AnyInputs, TextGenerator
from regard.tasks.regularisation import consistent_losses, twice
from regard.text.tokenizer import Tokenizer, TokenizerConfig, load_tokenizers, save_tokenizers

PER_EXAMPLE = ("tokenizer.dropout", "tokenizer.alpha", "data.max_length", "data.overlong")
"""Settings of how each example is tokenised, which a stream of text does not have."""
TRAINING_SETTINGS = frozenset({"kind", "smoothing", "consistency"})
Tokens = Padded | Packed
Verb = Literal["translate", "generate", "classify"]
Scoring = Literal["texts", "tokens", "masked_tokens", "labels", "multi_labels"]


class StorePlace(TypedDict):
    """Where a store is cached, and all that its rows depend on."""

    cache: Path
    settings: Mapping[str, object]


@dataclass(frozen=True)
class Vocabularies:
    """What the training data gives before the model is built: tokenizers, and the names of the labels."""

    tokenizers: Mapping[str, Tokenizer]
    labels: Sequence[str] = ()
    thresholds: Mapping[str, float] = field(default_factory=dict[str, float])
    """Of each label, where they were tuned."""

    def save(self, folder: Path) -> None:
        save_tokenizers(self.tokenizers, folder)
        if self.labels:
            (folder / LABELS_FILE).write_text(json.dumps(list(self.labels), ensure_ascii=False), encoding="utf-8")

    @classmethod
    def load(cls, texts: Sequence[str], folder: Path) -> "Vocabularies":
        file = folder / LABELS_FILE
        labels: object = []
        if file.exists():
            try:
                labels = json.loads(file.read_text(encoding="utf-8"))
            except (ValueError, RecursionError):
                labels = None
        if not isinstance(labels, list) or not all(isinstance(label, str) for label in cast(list[object], labels)):
            raise DataError(file, "expected a JSON list of the classes' names")
        return cls(load_tokenizers(texts, folder), cast(list[str], labels))


@dataclass(frozen=True)
class Inputs:
    """One batch as tensors, and what it counts for."""

    arguments: tuple[object, ...]
    """Arguments of the model's `hidden`."""
    targets: Tensor
    count: int
    """Targets that count in the loss; losses are means over these."""
    tokens: int
    """Tokens without padding, on all sides."""
    flops: float
    """Training FLOPs: forward and backward, of all passes that the task makes over the batch."""

    @property
    def scored(self) -> int:
        """Targets that count in the plain loss and in scores; fewer than in the objective where that has more."""
        return self.count


class TaskConfig(Family):
    """The settings that all tasks share, and what other packages need to know of a kind of task."""

    content: ClassVar[Content]
    """What kind of examples it is trained on."""
    texts: ClassVar[tuple[str, ...]]
    """The text fields of an example."""
    labels: ClassVar[tuple[str, ...]] = ()
    """The label fields of an example."""
    gives_trees: ClassVar[bool] = False
    """Whether its examples come with dependency trees; they cannot be cut (data.overlong = "cut")."""
    usual_search: ClassVar[AnySearch] = BeamConfig()
    """How its models search unless the recipe says otherwise."""
    generates: ClassVar[bool] = False
    """Whether its models generate text."""
    usual_model: ClassVar[str] = "encoder-decoder"
    """The kind of its models unless the recipe says otherwise."""
    scoring: ClassVar[Scoring]
    """How it is tested: by generated texts, by predicted tokens or masked tokens, or by labels."""
    default_score: ClassVar[str]
    """The score that models are compared by, a name of `metrics.METRICS`."""
    measured: ClassVar[tuple[str, ...]] = ()
    """The scores of its predictions; those of its generated texts are the metrics registered for its kind."""
    packs: ClassVar[bool] = False
    """Whether its examples may be packed into one row without being asked to."""
    splits_inputs: ClassVar[bool] = False
    """Whether an input of several sentences may be given to its models sentence by sentence."""
    copy_baseline: ClassVar[bool] = False
    """Whether an output that copies the input is a baseline."""
    example_command: ClassVar[str]
    """How a person uses a trained model; `{folder}` is that of the run."""
    ctranslate2_settings: ClassVar[frozenset[str] | None] = None
    """Settings that concern training only, or that CTranslate2 takes over; None: it cannot run the task."""

    smoothing: float = Field(0.0, ge=0, lt=1)
    """Label smoothing: the share of each answer's probability that is spread over all answers. Losses are shown without
    it; metrics.jsonl has the smoothed one as `objective`."""
    consistency: float = Field(0.0, ge=0)
    """R-Drop: read each batch twice under different dropout, and pull the two predictions together by this much. Helps
    where data is scarce, and doubles the cost of a step."""

    @property
    def reads(self) -> str | None:
        """The text field that its models read; None where they read something else than text."""
        return next((name for name in self.texts if name in ("source", "text")), None)

    @property
    def input_limit(self) -> int | None:
        """Most tokens of an input, which is cut there, in training and after; None: none is cut."""
        return None

    @property
    def target_masking(self) -> MaskingConfig | None:
        """Which tokens are targets, where not all are."""
        return None

    def task(self, vocabularies: Vocabularies) -> "Task":
        raise TypeError(f"{type(self).__name__} must make its task")

    def batching(self, data: DataConfig) -> BatchingConfig:
        return data.batching or BucketedConfig()

    def check(self, model: ModelConfig, data: DataConfig) -> None:
        """Refuses a model or data that this task cannot use."""
        for split in ("train", "valid", "test"):
            if (source := getattr(data, split)) is not None:
                source.require(self.content, f"data.{split}")
        if needs_tree(model) and not self.gives_trees:
            raise ConfigError("model.position", "only tagging reads sentences with their trees; choose another kind")

    def unused(self, model: ModelConfig, data: DataConfig, tokenizer: TokenizerConfig) -> Iterator[Unused]:
        """Settings without effect on this task with such a model and such data, and why."""
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
        """Whether trained models answer such an example; one that they do not is not scored either."""
        return True

    def input_of(self, example: Example) -> AnyInput:
        """What a model is given of an example, to generate its reference from."""
        assert isinstance(example, Pair)
        return example.source

    def reference_of(self, example: Example) -> str:
        """What a person wrote for an example."""
        assert isinstance(example, Pair)
        return example.target

    def scores_on(self, source: SourceConfig | None) -> tuple[str, ...]:
        """The scores of a test on this data, the default one first; some need data of a certain kind."""
        names = [*(metric.name for metric in text_metrics(self.kind, source)), *self.measured]
        return (self.default_score, *(name for name in names if name != self.default_score))

    @property
    def has_classes(self) -> bool:
        """Whether its models predict labels, and not tokens of the vocabulary of the last of `texts`."""
        return bool(self.labels)


class Task(ABC):
    """A task with its vocabularies."""

    best_metric: ClassVar[str] = "loss"
    """Metric by which the best checkpoint is chosen unless the recipe says otherwise."""
    verb: ClassVar[Verb | None] = None
    """The command that uses its models."""
    predicted: ClassVar[tuple[str, ...]] = ()
    """Texts that are predicted token by token: the model reads all of their tokens but the last."""
    beside: ClassVar[tuple[str, ...]] = ()
    """Fields that are as long as the text they belong to."""

    def __init__(self, vocabularies: Vocabularies, config: TaskConfig) -> None:
        self.vocabularies, self.config = vocabularies, config
        self._flops: dict[tuple[int, ...], int] = {}

    @property
    def passes(self) -> float:
        """Forward and backward passes over a batch in a training step."""
        return 2.0 if self.config.consistency else 1.0

    def forward_flops(self, flops: Callable[..., int], *fields: Tokens, shifted: bool = False) -> float:
        """FLOPs of a forward pass; `shifted`: the last token of each sequence of the last field is not read.

        A packed sequence costs what it costs alone, which is computed once a length.
        """
        fewer = [*(0 for _ in fields[1:]), int(shifted)]
        if isinstance(fields[0], Padded):
            times = [field.tokens.shape[1] - less for field, less in zip(fields, fewer, strict=True)]
            return float(flops(len(fields[0].lengths), *times))
        lengths = [(field.lengths - less).tolist() for field, less in zip(fields, fewer, strict=True)]
        total = 0
        for sizes in zip(*lengths, strict=True):
            if sizes not in self._flops:
                self._flops[sizes] = flops(1, *sizes)
            total += self._flops[sizes]
        return float(total)

    @abstractmethod
    def fields(self, data: DataConfig, tokenizer: TokenizerConfig, training: bool) -> Mapping[str, AnyField]:
        """How each text of an example becomes tokens."""

    def position_limits(self, model: ModelConfig) -> dict[str, int]:
        """Most tokens of each text, begin and end token counted, that fit into the positions of a model."""
        target = None if model.longest_target is None else model.longest_target + 1
        limits = {name: target if name in self.predicted else model.longest for name in self.config.texts}
        limits |= dict.fromkeys(self.beside, model.longest)
        return {name: limit for name, limit in limits.items() if limit is not None}

    def joins_source(self, model: ModelConfig) -> bool:
        """Whether a model reads source and target as one sequence."""
        return False

    @abstractmethod
    def row(self, example: Example) -> Row:
        """An example as the store takes it."""

    def rows(self, examples: Sequence[Example]) -> list[Row]:
        """Examples as the store takes them, with the line that each stood in."""
        return [{**self.row(example), LINE: example.location.line} for example in examples]

    def open_store(
        self,
        blocks: Callable[[], Iterable[Sequence[Example]]],
        fields: Mapping[str, AnyField],
        model: ModelConfig | None,
        training: bool,
        **where: Unpack[StorePlace],
    ) -> Store:
        """The store of a split; a task whose examples are more than texts and labels opens one of another kind."""
        rows = lambda: chain.from_iterable(map(self.rows, blocks()))  # noqa: E731
        return open_store(rows, fields, self.config.labels, **where)

    def trivial_baseline(self, train: Store, valid: Store) -> Baseline:
        """What an answer that ignores the input scores on the validation data: here, token frequencies."""
        field = self.predicted[0] if self.predicted else self.config.texts[-1]
        begins = bool(self.predicted) and getattr(valid.fields[field], "begin", False)  # that token is not predicted
        size = valid.fields[field].different
        loss = unigram_loss(*(token_counts(store, field, size, begins) for store in (train, valid)))
        return Baseline("each token by its frequency", {"loss": loss})

    def sizes(self, model: ModelConfig) -> tuple[int, ...]:
        """Of the vocabularies and the labels: what `build` and `num_params` of the model's settings take."""
        raise TypeError(f"{type(self).__name__} must give the sizes that models are built with")

    def build(self, model: ModelConfig) -> nn.Module:
        return model.build(*self.sizes(model))

    def num_params(self, model: ModelConfig) -> int:
        """Parameters of the model, without building it."""
        return model.num_params(*self.sizes(model))

    @abstractmethod
    def inputs(self, batch: Batch, model: ModelConfig, device: torch.device) -> Inputs:
        """A batch as tensors."""

    @abstractmethod
    def losses(self, model: nn.Module, inputs: Inputs) -> Losses:
        """The summed objective that training minimises, and beside it the cross-entropy that validation reports."""

    def loss(self, model: nn.Module, inputs: Inputs) -> Tensor:
        return self.losses(model, inputs).objective

    @abstractmethod
    def measure(self, model: nn.Module, inputs: Inputs) -> dict[str, float]:
        """Sums over a batch from which `summarise` computes metrics; `nll` and `count` among them."""

    def measure_labels(self, model: nn.Module, inputs: Inputs) -> tuple[dict[str, float], Tensor | None]:
        """The sums of `measure`, and the likeliest label at each target where labels are predicted."""
        return self.measure(model, inputs), None

    def summarise(self, sums: Mapping[str, float]) -> dict[str, float]:
        """Metrics of a whole split from the sums of its batches."""
        return {"loss": sums["nll"] / sums["count"] if sums["count"] else math.nan}  # without targets, no loss is best

    def generator(
        self, stepper: AnyStepper, device: torch.device, longest: int | None = None, base: Path = Path()
    ) -> TextGenerator:
        """Text generation with a model, or with an ensemble of them."""
        raise ConfigError("task", f"a model of {self.config.kind} generates no text")

    def classify(
        self, model: nn.Module, texts: AnyInputs, device: torch.device, longest: int | None = None, cut: bool = False
    ) -> list[dict[str, float] | None]:
        """The probability of each label for each input; None for a blank one."""
        raise ConfigError("task", f"a model of {self.config.kind} gives no labels")

    def given_labels(self, probabilities: Mapping[str, float]) -> list[str]:
        """The labels of an input, likeliest first: one, unless a task gives several."""
        return [max(probabilities, key=probabilities.__getitem__)]

    @property
    def several_labels(self) -> bool:
        """Whether an input may have any number of labels."""
        return type(self).given_labels is not Task.given_labels

    def probabilities(self, logits: Tensor) -> Tensor:
        """The probability of each label from its logits."""
        return logits.float().softmax(-1)


class GenerationTask(Task):
    """A task whose model predicts tokens: the loss is the cross-entropy of each, given all before it."""

    def losses(self, model: nn.Module, inputs: Inputs) -> Losses:
        smoothing, consistency = self.config.smoothing, self.config.consistency
        parts = token_model(model)
        if consistency:
            logits = parts(*twice(inputs.arguments))
            first, second = logits.chunk(2, 1 if sequences(inputs.arguments[-1]).layout.packed else 0)
            losses = consistent_losses(first, second, inputs.targets, smoothing, consistency, parts.head.spread)
        else:
            losses = parts.head.losses(parts.hidden(*inputs.arguments), inputs.targets, smoothing)
        return with_balance(model, losses, inputs.count)

    def measure(self, model: nn.Module, inputs: Inputs) -> dict[str, float]:
        parts = token_model(model)
        return {"nll": float(parts.head.loss(parts.hidden(*inputs.arguments), inputs.targets)), "count": inputs.count}


def with_balance(model: nn.Module, losses: Losses, count: int) -> Losses:
    """The objective with the load-balancing loss of experts, if the model has any."""
    extra = balance_loss(model)
    return losses if extra is None else Losses(losses.objective + extra * count, losses.cross_entropy)


def need_shape(model: ModelConfig, shapes: Sequence[str], task: str) -> None:
    if model.shape not in shapes:
        kinds = ", ".join(kind for shape in shapes for kind in sorted(kinds_of(shape), key=lambda kind: kind != shape))
        raise ConfigError("model.kind", f"{task} needs one of {kinds}; got {model.kind}")


def needs_tree(model: ModelConfig) -> bool:
    """Whether the positions of a model follow the sentence's dependency tree."""
    return bool(getattr(getattr(model, "position", None), "needs_tree", False))


def head_kind(model: ModelConfig) -> str | None:
    """The kind of the model's output layer, where its settings name one."""
    return getattr(getattr(model, "head", None), "kind", None)


def total_tokens(batch: Batch) -> int:
    """Tokens of all fields, without padding."""
    return int(sum(np.sum(field.lengths) for field in batch.fields.values()))
