"""Classification: one label for a whole text; and what all tasks share that predict labels."""

import math
from collections.abc import Mapping
from functools import partial
from typing import Literal, cast

import numpy as np
import torch
from jaxtyping import Int64
from pydantic import Field
from torch import Tensor, nn

from regard.data.batches import Batch
from regard.data.examples import Example, Labelled, SourceLocation
from regard.data.fields import TextField
from regard.data.settings import DataConfig
from regard.data.store import Store
from regard.data.store_writer import Row
from regard.decode import in_batches
from regard.errors import ConfigError, DataError, nearest, shortened
from regard.metrics.baseline import Baseline, most_frequent
from regard.nn.device import to_device, to_list
from regard.nn.layout import Sequences
from regard.nn.loss import Losses, cross_entropy, smoothed_losses
from regard.tasks.base import Inputs, Task, TaskConfig, Vocabularies, head_kind, need_shape, total_tokens, with_balance
from regard.tasks.contract import ModelConfig, sequences
from regard.tasks.generation import AnyInputs
from regard.tasks.regularisation import adversarial_loss, consistent_losses, twice
from regard.tasks.tensors import to_sequences
from regard.text.inputs import TOKENS_PER_BATCH, refuse_overlong
from regard.text.special_tokens import EOS
from regard.text.tokenizer import TokenizerConfig


class LabelTask(Task):
    """−log P(label | input), for one label of each example or of each word."""

    best_metric = "accuracy"
    verb = "classify"

    def __init__(self, vocabularies: Vocabularies, config: TaskConfig) -> None:
        super().__init__(vocabularies, config)
        self.number = {label: number for number, label in enumerate(vocabularies.labels)}

    def label_number(self, label: str, location: SourceLocation | str, what: str = "label") -> int:
        """The number of a label; DataError for one that the training data does not have."""
        if label not in self.number:
            problem = f"{what} '{shortened(label, 60)}' is unknown in the training data; {nearest(label, self.number)}"
            file, line = (location, None) if isinstance(location, str) else location.origin
            raise DataError(file, problem, line)
        return self.number[label]

    def losses(self, model: nn.Module, inputs: Inputs) -> Losses:
        smoothing, consistency = self.config.smoothing, self.config.consistency
        if consistency:
            packed = inputs.targets.dim() > 1 and sequences(inputs.arguments[0]).layout.packed
            first, second = model(*twice(inputs.arguments)).chunk(2, 1 if packed else 0)
            losses = consistent_losses(first, second, inputs.targets, smoothing, consistency)
        else:
            losses = self.plain_losses(model, inputs)
        return with_balance(model, losses, inputs.count)

    def plain_losses(self, model: nn.Module, inputs: Inputs) -> Losses:
        """The losses of one reading of a batch."""
        return smoothed_losses(model(*inputs.arguments), inputs.targets, self.config.smoothing)

    def measure(self, model: nn.Module, inputs: Inputs) -> dict[str, float]:
        return self.measure_labels(model, inputs)[0]

    def measure_labels(self, model: nn.Module, inputs: Inputs) -> tuple[dict[str, float], Tensor | None]:
        logits: Tensor = model(*inputs.arguments)
        nll, predicted = cross_entropy(logits, inputs.targets), logits.argmax(-1)
        right = (predicted == inputs.targets).sum()
        return {"nll": float(nll), "right": float(right), "count": inputs.count}, predicted

    def summarise(self, sums: Mapping[str, float]) -> dict[str, float]:
        return {**super().summarise(sums), **accuracy(sums)}

    def trivial_baseline(self, train: Store, valid: Store) -> Baseline:
        """Always the most frequent label of the training data."""
        counts = [self.label_counts(store) for store in (train, valid)]
        likeliest = self.vocabularies.labels[int(counts[0].argmax())]
        return Baseline(f"always '{likeliest}'", most_frequent(*counts))

    def label_counts(self, store: Store) -> Int64[np.ndarray, " labels"]:
        return np.bincount(store.labels[self.config.labels[0]], minlength=len(self.number))


def accuracy(sums: Mapping[str, float]) -> dict[str, float]:
    return {"accuracy": sums["right"] / sums["count"] if sums["count"] else math.nan}


class ClassificationConfig(TaskConfig):
    """One label for each text, such as whether a review likes its film."""

    kind: Literal["classification"] = "classification"
    content = "labelled"
    texts = ("text",)
    labels = ("label",)
    usual_model = "encoder"
    scoring = "labels"
    default_score = "accuracy"
    measured = ("accuracy", "macro_f1", "loss")
    example_command = "echo 'Your text' | regard classify {folder}"

    adversarial: float = Field(0.0, ge=0)
    """Adversarial training: read each text again with its embeddings moved, by this share of their norm, to where its
    loss grows fastest; 0.2 is a good start. Helps where data is scarce, and more than doubles a step's cost."""

    def is_answered(self, example: Example) -> bool:
        """A blank text has no label: `classify` gives none."""
        return not isinstance(example, Labelled) or bool(example.text.strip())

    def task(self, vocabularies: Vocabularies) -> "Classification":
        return Classification(vocabularies, self)

    def check(self, model: ModelConfig, data: DataConfig) -> None:
        super().check(model, data)
        need_shape(model, ["encoder", "decoder"], "classification")
        if head_kind(model) == "token":
            raise ConfigError("model.head", "one label a text needs 'pooled', got 'token'; leave it out")
        if data.batching is not None and data.batching.kind != "bucketed":
            raise ConfigError("data.batching", f"one label a text needs 'bucketed' batches, got '{data.batching.kind}'")
        if self.adversarial and self.consistency:
            raise ConfigError("task.adversarial", "it does not go together with task.consistency; set one of them")


class Classification(LabelTask):
    """−log P(label | text)."""

    def __init__(self, vocabularies: Vocabularies, config: ClassificationConfig) -> None:
        super().__init__(vocabularies, config)
        self.tokenizer, self.adversarial = vocabularies.tokenizers["text"], config.adversarial

    def fields(self, data: DataConfig, tokenizer: TokenizerConfig, training: bool) -> dict[str, TextField]:
        """Texts end with the end token, so that even an empty one has something to pool."""
        sampler = self.tokenizer.sampler(tokenizer) if training else None
        return {"text": TextField(self.tokenizer, sampler, max_length=data.max_length, overlong=data.overlong)}

    def row(self, example: Example) -> Row:
        assert isinstance(example, Labelled)
        return {"text": example.text, "label": self.label_number(example.label, example.location)}

    def sizes(self, model: ModelConfig) -> tuple[int, ...]:
        return self.tokenizer.vocab_size, len(self.number)

    def inputs(self, batch: Batch, model: ModelConfig, device: torch.device) -> Inputs:
        text = batch.fields["text"]
        targets = to_device(torch.as_tensor(batch.labels["label"]), device)
        flops = partial(model.flops, vocab=self.tokenizer.vocab_size, classes=len(self.number))
        flops = 3.0 * self.forward_flops(flops, text) * self.passes
        return Inputs((to_sequences(text, device),), targets, len(targets), total_tokens(batch), flops)

    @property
    def passes(self) -> float:
        """The gradient with respect to embeddings needs none with respect to weights: a third of a pass less."""
        return 7 / 3 if self.adversarial else super().passes

    def plain_losses(self, model: nn.Module, inputs: Inputs) -> Losses:
        if not self.adversarial:
            return self.reading(model, inputs)
        readings: list[Losses] = []

        def objective() -> Tensor:
            readings.append(self.reading(model, inputs))
            return readings[-1].objective

        valid = sequences(inputs.arguments[0]).layout.valid
        loss = adversarial_loss(cast(nn.Module, model.embedding), objective, valid, self.adversarial)
        return Losses(loss, readings[0].cross_entropy)  # of the texts as they are

    def reading(self, model: nn.Module, inputs: Inputs) -> Losses:
        """The losses of one reading of the texts."""
        return super().plain_losses(model, inputs)

    @torch.no_grad()
    def classify(
        self, model: nn.Module, texts: AnyInputs, device: torch.device, longest: int | None = None, cut: bool = False
    ) -> list[dict[str, float] | None]:
        """The probability of each label for each text, None for a blank one; longer texts are cut or refused."""
        lines = map(str, texts)
        rows = [[*self.tokenizer.encode(text), EOS] if text.strip() else [] for text in lines]
        if cut and longest is not None:
            rows = [row if len(row) <= longest else [*row[: longest - 1], EOS] for row in rows]
        refuse_overlong([len(row) for row in rows], longest)

        def work(batch: list[list[int]]) -> list[dict[str, float]]:
            probabilities = to_list(self.probabilities(model(Sequences.padded(batch, device=device))))
            return [dict(zip(self.vocabularies.labels, row, strict=True)) for row in probabilities]

        answers = iter(in_batches([row for row in rows if row], work, tokens_per_batch=TOKENS_PER_BATCH))
        return [next(answers) if row else None for row in rows]
