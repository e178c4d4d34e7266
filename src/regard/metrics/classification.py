"""Accuracy, macro-F1, the confusion matrix and exact match; shares are between 0 and 1."""

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from regard.errors import DataError
from regard.metrics.score import check_counts

Label = TypeVar("Label", bound=Hashable)


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
    return sum(got == wanted for got, wanted in zip(predicted, expected, strict=True)) / len(predicted)


def exact_match(hypotheses: Sequence[Any], *references: Sequence[Any]) -> float:
    """Share of hypotheses that equal one of their references."""
    check_counts(hypotheses, references)
    return sum(written in wanted for written, *wanted in zip(hypotheses, *references, strict=True)) / len(hypotheses)


def confusion_matrix(
    predicted: Sequence[Label], expected: Sequence[Label], labels: Sequence[Label] | None = None
) -> ConfusionMatrix[Label]:
    """How often each label was taken for each other; by default over all labels that occur, sorted by name."""
    check_counts(predicted, [expected])
    known = sorted({*predicted, *expected}, key=str) if labels is None else list(labels)
    places = {label: place for place, label in enumerate(known)}
    strange = next((label for label in (*expected, *predicted) if label not in places), None)
    if strange is not None:
        raise DataError("labels", f"'{strange}' is none of the {len(known)} known labels")
    counts = np.zeros((len(known), len(known)), dtype=np.int64)
    np.add.at(counts, ([places[label] for label in expected], [places[label] for label in predicted]), 1)
    return ConfusionMatrix(known, counts)


def f1_scores(predicted: Sequence[Label], expected: Sequence[Label]) -> dict[Label, float]:
    """The F1 of each label that occurs among either; counted label by label, as a matrix of all pairs may be large."""
    check_counts(predicted, [expected])
    right = Counter(got for got, wanted in zip(predicted, expected, strict=True) if got == wanted)
    either = Counter(predicted) + Counter(expected)
    return {label: 2 * right[label] / either[label] for label in sorted(either, key=str)}


def macro_f1(predicted: Sequence[Hashable], expected: Sequence[Hashable]) -> float:
    """Mean F1 of the labels that occur among either, each label counting the same however rare.

    A label that occurs in neither has no F1 and is left out; one that is only guessed, or only missed, has 0.
    """
    scores = f1_scores(predicted, expected)
    return sum(scores.values()) / len(scores)
