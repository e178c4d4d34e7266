"""Macro-F1 and the confusion matrix of predicted labels; shares are between 0 and 1."""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.metrics.registry import Metric, check_counts, register

register(Metric("accuracy", "accuracy", True, comparable="same_targets", test="sign_test", percent=True))
register(Metric("macro_f1", "macro F1", True, comparable="same_targets", percent=True))


class ConfusionMatrix(NamedTuple):
    """`counts[i, j]` examples of label i were taken for label j."""

    labels: list[str]
    counts: NDArray[np.int64]


def confusion_matrix(predicted: Sequence[str], expected: Sequence[str]) -> ConfusionMatrix:
    """How often each label that occurs was taken for each other, sorted by name."""
    check_counts(predicted, [expected])
    labels = sorted({*predicted, *expected})
    index = {label: number for number, label in enumerate(labels)}
    counts = np.zeros((len(labels), len(labels)), dtype=np.int64)
    np.add.at(counts, ([index[label] for label in expected], [index[label] for label in predicted]), 1)
    return ConfusionMatrix(labels, counts)


def macro_f1(predicted: Sequence[str], expected: Sequence[str]) -> float:
    """Mean F1 of the labels that occur among either, each label counting the same however rare.

    F1 is 2·right / (examples of a label + guesses of it). A label that occurs in neither has none and is left out; one
    that is only guessed, or only missed, has 0. Counted label by label, as a matrix of all pairs may be large.
    """
    check_counts(predicted, [expected])
    right = Counter(label for label, other in zip(predicted, expected, strict=True) if label == other)
    either = Counter(predicted) + Counter(expected)
    return sum(2 * right[label] / either[label] for label in sorted(either)) / len(either)
