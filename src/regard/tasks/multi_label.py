"""Classification with several labels a text: binary cross-entropy, one decision for each label.

−Σ_l [y_l log σ(z_l) + (1 − y_l) log(1 − σ(z_l))], z the logits of the pooled text, y_l whether it has label l.
"""

import json
import math
from collections.abc import Mapping, Sequence
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Literal, cast

import numpy as np
import torch
from jaxtyping import Bool, Float
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor, nn
from typing_extensions import override

from regard.data.batches import Batch, Batches
from regard.data.examples import Example, MultiLabelled
from regard.data.fields import AnyField, NumbersField
from regard.data.settings import DataConfig
from regard.data.store import Store
from regard.data.store_writer import Row
from regard.errors import ConfigError, DataError
from regard.files.atomic import write_atomic
from regard.files.run_folder import THRESHOLDS_FILE
from regard.files.strict_json import from_json, to_json
from regard.metrics.baseline import Baseline, sampled
from regard.metrics.multi_label import best_threshold, f1, label_sums
from regard.nn.device import to_device
from regard.nn.loss import Losses, binary_cross_entropy
from regard.tasks.base import Inputs, Vocabularies
from regard.tasks.classification import Classification, ClassificationConfig
from regard.tasks.contract import ModelConfig
from regard.tasks.evaluation import MeasuredBatch, measure
from regard.tasks.tensors import to_sequences
from regard.text.tokenizer import TokenizerConfig

USUAL_THRESHOLD = 0.5


class MultiLabelConfig(ClassificationConfig):
    """Any number of labels for each text, such as the topics of a message."""

    kind: Literal["multi_label_classification"] = "multi_label_classification"  # type: ignore[assignment]
    content = "multi-labelled"
    labels = ()
    scoring = "multi_labels"
    default_score = "micro_f1"
    measured = ("micro_f1", "macro_f1", "average_precision", "loss")

    threshold: Annotated[float, Field(ge=0, le=1)] | Literal["tuned"] = USUAL_THRESHOLD
    """Probability from which on a text is given a label: one for all labels, or `tuned`: one for each, chosen after
    training so that its F1 on the validation data is best."""

    @property
    @override
    def has_classes(self) -> bool:
        return True

    @override
    def task(self, vocabularies: Vocabularies) -> "MultiLabel":
        return MultiLabel(vocabularies, self)

    @override
    def check(self, model: ModelConfig, data: DataConfig) -> None:
        super().check(model, data)
        if self.consistency:
            raise ConfigError("task.consistency", "R-Drop compares distributions over labels; set task.adversarial")


class MultiLabel(Classification):
    """−Σ_l log P(y_l | text), each label a decision of its own."""

    best_metric = "micro_f1"

    def __init__(self, vocabularies: Vocabularies, config: MultiLabelConfig) -> None:
        super().__init__(vocabularies, config)
        one = USUAL_THRESHOLD if config.threshold == "tuned" else config.threshold
        self.thresholds = dict.fromkeys(vocabularies.labels, one)
        self.thresholds |= vocabularies.thresholds if config.threshold == "tuned" else {}

    @override
    def fields(self, data: DataConfig, tokenizer: TokenizerConfig, training: bool) -> dict[str, AnyField]:  # type: ignore[override]
        """The text, and the numbers of its labels."""
        names = sha256(json.dumps(list(self.vocabularies.labels)).encode()).hexdigest()
        return {**super().fields(data, tokenizer, training), "labels": NumbersField(len(self.number), names)}

    @override
    def row(self, example: Example) -> Row:
        assert isinstance(example, MultiLabelled)
        numbers = {self.label_number(label, example.location) for label in example.labels}
        return {"text": example.text, "labels": sorted(numbers)}

    @override
    def inputs(self, batch: Batch, model: ModelConfig, device: torch.device) -> Inputs:
        """Texts, and for each label whether they have it."""
        text, labels = batch.fields["text"], batch.fields["labels"]
        targets = torch.zeros(len(labels.lengths), len(self.number))
        for row, (numbers, count) in enumerate(zip(labels.tokens, labels.lengths.tolist(), strict=True)):
            targets[row, numbers[:count].astype(np.int64)] = 1.0
        flops = partial(model.flops, vocab=self.tokenizer.vocab_size, classes=len(self.number))
        flops = 3.0 * self.forward_flops(flops, text) * self.passes
        tokens = int(text.lengths.sum())
        return Inputs((to_sequences(text, device),), to_device(targets, device), targets.numel(), tokens, flops)

    @override
    def reading(self, model: nn.Module, inputs: Inputs) -> Losses:
        """Binary cross-entropy of all labels; smoothing moves both answers towards one half."""
        logits, targets, smoothing = model(*inputs.arguments), inputs.targets, self.config.smoothing
        if not smoothing:
            return Losses(binary_cross_entropy(logits, targets))
        smoothed = binary_cross_entropy(logits, targets * (1 - smoothing) + smoothing / 2)
        return Losses(smoothed, binary_cross_entropy(logits.detach(), targets))

    @override
    def measure_labels(self, model: nn.Module, inputs: Inputs) -> tuple[dict[str, float], Tensor | None]:
        """Binary cross-entropy, counts for the F1 of each label at its threshold, and the probabilities."""
        logits: Tensor = model(*inputs.arguments)
        probabilities = logits.float().sigmoid()
        sums = label_sums(self.chosen(probabilities.cpu().numpy()), inputs.targets.cpu().numpy() > 0)
        return {
            "nll": float(binary_cross_entropy(logits, inputs.targets)),
            "count": inputs.count,
            **sums,
        }, probabilities

    @override
    def summarise(self, sums: Mapping[str, float]) -> dict[str, float]:
        loss = sums["nll"] / sums["count"] if sums["count"] else math.nan
        micro, macro = f1(sums)
        return {"loss": loss, "micro_f1": micro, "macro_f1": macro}

    def chosen(self, probabilities: Float[np.ndarray, "rows labels"]) -> Bool[np.ndarray, "rows labels"]:
        """Which labels are given."""
        return probabilities >= np.array([self.thresholds[label] for label in self.vocabularies.labels], np.float32)

    @override
    def given_labels(self, probabilities: Mapping[str, float]) -> list[str]:
        above = [label for label, p in probabilities.items() if np.float32(p) >= np.float32(self.thresholds[label])]
        return sorted(above, key=lambda label: -probabilities[label])

    @override
    def probabilities(self, logits: Tensor) -> Tensor:
        return logits.float().sigmoid()

    @override
    def trivial_baseline(self, train: Store, valid: Store) -> Baseline:
        """Always the most frequent labels, as many as are best on the training data."""
        trained, validated = (self._matrix(store) for store in (train, valid))
        shares = trained.mean(0)
        ranked = np.argsort(-shares, kind="stable")
        scores = [f1(label_sums(self._always(ranked[:k], trained), trained))[0]
                  for k in range(1, len(ranked) + 1)]  # fmt: skip
        best = ranked[: int(np.argmax(scores)) + 1]
        micro, macro = f1(label_sums(self._always(best, validated), validated))
        p = np.clip(shares, 1e-6, 1 - 1e-6)
        loss = float(-(validated * np.log(p) + (1 - validated) * np.log(1 - p)).mean())
        names = ", ".join(f"'{self.vocabularies.labels[int(number)]}'" for number in best[:3])
        return Baseline(f"always {names}{', …' if len(best) > 3 else ''}",
                        {"loss": loss, "micro_f1": micro, "macro_f1": macro})  # fmt: skip

    @staticmethod
    def _always(numbers: NDArray[np.intp], like: NDArray[np.bool_]) -> NDArray[np.bool_]:
        predicted = np.zeros_like(like)
        predicted[:, numbers] = True
        return predicted

    def _matrix(self, store: Store) -> NDArray[np.bool_]:
        """Which of a sample of the examples have which label."""
        ragged = store.gather("labels", sampled(len(store)))
        matrix = np.zeros((len(ragged.lengths), len(self.number)), dtype=bool)
        matrix[np.repeat(np.arange(len(ragged.lengths)), ragged.lengths), ragged.tokens.astype(np.int64)] = True
        return matrix

    @property
    def tunes(self) -> bool:
        """Whether thresholds are chosen after training."""
        return cast(MultiLabelConfig, self.config).threshold == "tuned"

    def tuned_thresholds(
        self, probabilities: Float[np.ndarray, "rows labels"], expected: Bool[np.ndarray, "rows labels"]
    ) -> dict[str, float]:
        """The threshold of each label with the best F1; the usual one where no example has the label."""
        columns = zip(self.vocabularies.labels, probabilities.T, expected.T, strict=True)
        return {label: best_threshold(p, y, USUAL_THRESHOLD) for label, p, y in columns}


def measure_matrices(
    task: MultiLabel, model: nn.Module, batches: Batches, device: torch.device
) -> tuple[dict[str, float], NDArray[np.float32], NDArray[np.bool_]]:
    """The metrics of a validation, the probabilities of all labels, and which are expected: a row for each example."""
    rows: dict[int, tuple[NDArray[np.float32], NDArray[np.bool_]]] = {}

    def note(part: MeasuredBatch) -> None:
        assert part.predicted is not None
        predicted, expected = part.predicted.cpu().numpy(), part.inputs.targets.cpu().numpy() > 0
        rows.update(zip(part.batch.examples.tolist(), zip(predicted, expected, strict=True), strict=True))

    values = measure(task, model, batches, device, note)
    ordered = [rows[example] for example in sorted(rows)]
    return values, np.stack([row for row, _ in ordered]), np.stack([row for _, row in ordered])


def save_thresholds(thresholds: Mapping[str, float], folder: Path) -> None:
    write_atomic(folder / THRESHOLDS_FILE, f"{to_json(dict(thresholds), indent=1)}\n")


def load_thresholds(folder: Path, labels: Sequence[str]) -> dict[str, float]:
    """The tuned thresholds of a run folder; none where there are none."""
    file = folder / THRESHOLDS_FILE
    if not file.exists():
        return {}
    try:
        tree = from_json(file.read_bytes())
    except ValueError:
        tree = None
    if not isinstance(tree, dict) or tree.keys() != set(labels):
        raise DataError(file, "expected a threshold for each label of the run")
    values = cast(dict[str, object], tree)
    if not all(isinstance(value, int | float) and 0 <= value <= 1 for value in values.values()):
        raise DataError(file, "expected numbers between 0 and 1")
    return {label: float(cast(float, value)) for label, value in values.items()}
