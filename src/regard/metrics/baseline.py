"""Trivial baselines: what one gets without looking at the input, from the frequencies of the training data alone.

most_frequent([80, 20], [5, 5])         accuracy 0.5, loss −mean log P(label)
unigram_loss(train_counts, counts)      −mean log P(token), each token by its frequency
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int, Int64

from regard.data.store import Store
from regard.metrics.registry import METRICS

BASELINE_EXAMPLES = 20_000
"""Examples of which frequencies are counted: more would hardly change them."""


@dataclass(frozen=True)
class Baseline:
    """What a trivial answer scores on the validation data."""

    answer: str
    """The trivial answer, in words."""
    scores: Mapping[str, float]
    """By names of the registry, in the units of a validation."""

    def beaten_by(self, scores: Mapping[str, float], metric: str) -> bool | None:
        """Whether a model's scores are better; None where they have no score in common."""
        common = [name for name in (metric, *self.scores) if name in self.scores and name in scores]
        if not common:
            return None
        return METRICS[common[0]].better(scores[common[0]], self.scores[common[0]])


def most_frequent(train: Int[np.ndarray, " classes"], valid: Int[np.ndarray, " classes"]) -> dict[str, float]:
    """Accuracy of always answering the most frequent class of the training data, and the loss of its frequencies."""
    total = int(valid.sum())
    accuracy = float(valid[int(train.argmax())]) / total if total else float("nan")
    return {"loss": unigram_loss(train, valid), "accuracy": accuracy}


def unigram_loss(train: Int[np.ndarray, " kinds"], valid: Int[np.ndarray, " kinds"]) -> float:
    """−Σ c(x) log P(x) / Σ c(x), P from the counts of the training data and one more, spread over all kinds."""
    probabilities = (train + 1 / len(train)) / (train.sum() + 1)
    total = float(valid.sum())
    return float(-(valid * np.log(probabilities)).sum() / total) if total else float("nan")


def token_counts(store: Store, field: str, size: int, begins: bool) -> Int64[np.ndarray, " tokens"]:
    """How often each token occurs in a sample of the examples, without the begin token of each."""
    ragged = store.gather(field, sampled(len(store)))
    starts = np.concatenate([[0], np.cumsum(ragged.lengths)[:-1]]).astype(np.int64)
    tokens = np.delete(ragged.tokens, starts) if begins else ragged.tokens
    return np.bincount(tokens.astype(np.int64), minlength=size)


def sampled(examples: int) -> Int64[np.ndarray, " examples"]:
    """All examples, or so many spread evenly over them."""
    return np.unique(np.linspace(0, examples - 1, min(examples, BASELINE_EXAMPLES)).round().astype(np.int64))
