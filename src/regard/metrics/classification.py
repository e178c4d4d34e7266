"""Accuracy, macro-F1 and the confusion matrix; shares are between 0 and 1."""

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from regard.errors import DataError
from regard.metrics.registry import Metric, check_counts, register

Label = TypeVar("Label", bound=Hashable)

register(Metric("accuracy", "accuracy", True, comparable="same_targets", test="sign_test", percent=True))
register(Metric("macro_f1", "macro F1", True, comparable="same_targets", percent=True))


@dataclass(frozen=True, eq=False)
class ConfusionMatrix(Generic[Label]):
    """`counts[i, j]` examples of label i were taken for label j."""

    labels: list[Label]
    counts: NDArray[np.int64]

    def f1(self) -> dict[Label, float]:
        """The F1 of each label: 2·right / (examples of it + guesses of it); zero where there are neither."""
        right = np.diagonal(self.counts)
        either = self.counts.sum(0) + self.counts.sum(1)
        return dict(zip(self.labels, (2 * right / np.maximum(either, 1)).tolist(), strict=True))


def accuracy(predicted: Sequence[Hashable], expected: Sequence[Hashable]) -> float:
    """Share of examples whose label is right."""
    check_counts(predicted, [expected])
    return sum(got == label for got, label in zip(predicted, expected, strict=True)) / len(predicted)


def confusion_matrix(
    predicted: Sequence[Label], expected: Sequence[Label], labels: Sequence[Label] | None = None
) -> ConfusionMatrix[Label]:
    """How often each label was taken for each other; by default over all labels that occur, sorted by name."""
    check_counts(predicted, [expected])
    names = sorted({*predicted, *expected}, key=str) if labels is None else list(labels)
    index = {label: number for number, label in enumerate(names)}
    unknown = next((label for label in (*expected, *predicted) if label not in index), None)
    if unknown is not None:
        raise DataError("labels", f"'{unknown}' is none of the {len(names)} known labels")
    counts = np.zeros((len(names), len(names)), dtype=np.int64)
    np.add.at(counts, ([index[label] for label in expected], [index[label] for label in predicted]), 1)
    return ConfusionMatrix(names, counts)


def f1_scores(predicted: Sequence[Label], expected: Sequence[Label]) -> dict[Label, float]:
    """The F1 of each label that occurs among either; counted label by label, as a matrix of all pairs may be large."""
    check_counts(predicted, [expected])
    right = Counter(got for got, label in zip(predicted, expected, strict=True) if got == label)
    either = Counter(predicted) + Counter(expected)
    return {label: 2 * right[label] / either[label] for label in sorted(either, key=str)}


def macro_f1(predicted: Sequence[Hashable], expected: Sequence[Hashable]) -> float:
    """Mean F1 of the labels that occur among either, each label counting the same however rare.

    A label that occurs in neither has no F1 and is left out; one that is only guessed, or only missed, has 0.
    """
    scores = f1_scores(predicted, expected)
    return sum(scores.values()) / len(scores)
