"""What tasks that predict labels share: cross-entropy, accuracy, and the most frequent label as a baseline."""

import math
from collections.abc import Callable, Mapping

import numpy as np
from jaxtyping import Int64
from torch import Tensor, nn

from regard.data.examples import SourceLocation
from regard.data.store import Store
from regard.errors import DataError, nearest, shortened
from regard.metrics.baseline import Baseline, most_frequent
from regard.nn.loss import Losses, cross_entropy, smoothed_losses
from regard.tasks.base import Inputs, Task, TaskConfig, Vocabularies, with_balance
from regard.tasks.contract import sequences
from regard.tasks.regularisation import consistent_losses, twice


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
            raise (
                DataError(location, problem)
                if isinstance(location, str)
                else DataError(location.file, problem, location.line)
            )
        return self.number[label]

    def losses(self, model: nn.Module, inputs: Inputs) -> Losses:
        """Cross-entropy of the labels."""
        smoothing, consistency = self.config.smoothing, self.config.consistency
        if consistency:
            packed = inputs.targets.dim() > 1 and sequences(inputs.arguments[0]).layout.packed
            first, second = model(*twice(inputs.arguments)).chunk(2, 1 if packed else 0)
            losses = consistent_losses(first, second, inputs.targets, smoothing, consistency)
        else:
            losses = self.plain_losses(lambda: smoothed_losses(model(*inputs.arguments), inputs.targets, smoothing),
                                       model, inputs)  # fmt: skip
        return with_balance(model, losses, inputs.count)

    def plain_losses(self, read: Callable[[], Losses], model: nn.Module, inputs: Inputs) -> Losses:
        """The losses of one reading of a batch."""
        return read()

    def measure(self, model: nn.Module, inputs: Inputs) -> dict[str, float]:
        """Cross-entropy, and how many labels are right."""
        return self.measure_labels(model, inputs)[0]

    def measure_labels(self, model: nn.Module, inputs: Inputs) -> tuple[dict[str, float], Tensor | None]:
        """Cross-entropy and how many labels are right, and the likeliest labels."""
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
        """How often each label occurs."""
        return np.bincount(store.labels[self.config.labels[0]], minlength=len(self.number))


def accuracy(sums: Mapping[str, float]) -> dict[str, float]:
    """The share of targets that are predicted right."""
    return {"accuracy": sums["right"] / sums["count"] if sums["count"] else math.nan}
