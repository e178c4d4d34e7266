"""Scores of classification with several labels a text: micro-F1, macro-F1 and average precision."""

from collections.abc import Mapping

import numpy as np
from jaxtyping import Bool, Float
from numpy.typing import NDArray

from regard.metrics.registry import Metric, register

register(Metric("micro_f1", "micro F1", True, comparable="same_targets", percent=True))
register(Metric("average_precision", "average precision", True, comparable="same_targets", percent=True))

Decisions = Bool[np.ndarray, "rows labels"]


def label_sums(predicted: Decisions, expected: Decisions) -> dict[str, float]:
    """For each label how often it was given rightly, given, and expected: sums that batches add up."""
    counts = {"right": predicted & expected, "given": predicted, "expected": expected}
    return {f"{name}.{label}": float(count) for name, matrix in counts.items()
            for label, count in enumerate(matrix.sum(0))}  # fmt: skip


def f1(sums: Mapping[str, float]) -> tuple[float, float]:
    """Micro-F1, of all decisions together, and macro-F1, the mean over labels that are given or expected at all.

    F1 = 2·right / (given + expected); where nothing is given and nothing expected, all is right.
    """
    labels = [name.partition(".")[2] for name in sums if name.startswith("right.")]
    right, predicted, expected = (
        np.array([sums[f"{name}.{label}"] for label in labels]) for name in ("right", "given", "expected")
    )
    either = predicted + expected
    of_label = 2 * right[either > 0] / either[either > 0]
    micro = float(2 * right.sum() / either.sum()) if either.sum() else 1.0
    return micro, float(of_label.mean()) if len(of_label) else 1.0


def average_precision(scores: Float[np.ndarray, " rows"], expected: Bool[np.ndarray, " rows"]) -> float:
    """Σ_k (R_k − R_{k−1}) P_k over the thresholds: the area below precision by recall; NaN where none is expected."""
    if not expected.any():
        return float("nan")
    precision, recall = _precision_and_recall(scores, expected)[:2]
    return float((np.diff(recall, prepend=0.0) * precision).sum())


def mean_average_precision(scores: Float[np.ndarray, "rows labels"], expected: Decisions) -> float:
    """The mean over the labels that some example has."""
    values = [average_precision(column, y) for column, y in zip(scores.T, expected.T, strict=True) if y.any()]
    return float(np.mean(values)) if values else float("nan")


def best_threshold(scores: Float[np.ndarray, " rows"], expected: Bool[np.ndarray, " rows"], otherwise: float) -> float:
    """The threshold with the best F1, half way to the next lower score; `otherwise` where none is expected."""
    if not expected.any():
        return otherwise
    precision, recall, thresholds = _precision_and_recall(scores, expected)
    f1_scores = 2 * precision * recall / np.maximum(precision + recall, 1e-12)
    best = int(np.argmax(f1_scores))
    lower = float(thresholds[best + 1]) if best + 1 < len(thresholds) else 0.0
    return (float(thresholds[best]) + lower) / 2


def _precision_and_recall(
    scores: Float[np.ndarray, " rows"], expected: Bool[np.ndarray, " rows"]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Precision and recall at each different score as the threshold, highest first, and those scores."""
    order = np.argsort(-scores, kind="stable")
    ranked, right = scores[order].astype(np.float64), np.cumsum(expected[order])
    last = np.append(np.flatnonzero(np.diff(ranked)), len(ranked) - 1)  # equal scores are one threshold
    return right[last] / (last + 1), right[last] / right[-1], ranked[last]
