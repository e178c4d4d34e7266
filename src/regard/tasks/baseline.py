"""The trivial baseline of a task, from the stores that training made: most frequent class, or token frequencies."""

import numpy as np
from jaxtyping import Int64

from regard.data.store import Store
from regard.metrics.baseline import Baseline, most_frequent, unigram_loss
from regard.tasks.base import Task

MOST_EXAMPLES = 20_000
"""Examples of which frequencies are counted: more would change them no more."""
TAGS = "tags"


def trivial_baseline(task: Task, train: Store, valid: Store) -> Baseline:
    """What an answer without a look at the input scores on the validation data."""
    if task.config.has_classes:
        names = list(task.vocabularies.labels)
        counts = [_class_counts(task, store, len(names)) for store in (train, valid)]
        likeliest = names[int(counts[0].argmax())]
        return Baseline(f"always '{likeliest}'", most_frequent(*counts))
    field = task.predicted[0] if task.predicted else task.config.texts[-1]
    given = int(bool(task.predicted) and getattr(valid.fields[field], "begin", False))  # the first token is no answer
    size = valid.fields[field].different
    loss = unigram_loss(*(_token_counts(store, field, size, given) for store in (train, valid)))
    return Baseline("each token by its frequency", {"loss": loss})


def _class_counts(task: Task, store: Store, classes: int) -> Int64[np.ndarray, " classes"]:
    if task.config.labels:
        return np.bincount(store.labels[task.config.labels[0]], minlength=classes)
    tags = store.gather(TAGS, _some(len(store))).tokens
    return np.bincount(tags[tags > 0].astype(np.int64) - 1, minlength=classes)  # 0: a token that begins no word


def _token_counts(store: Store, field: str, size: int, given: int) -> Int64[np.ndarray, " tokens"]:
    """How often each token stands in some examples, without the `given` first tokens of each."""
    ragged = store.gather(field, _some(len(store)))
    starts = np.concatenate([[0], np.cumsum(ragged.lengths)[:-1]]) if given else []
    tokens = np.delete(ragged.tokens, np.asarray(starts, np.int64)) if given else ragged.tokens
    return np.bincount(tokens.astype(np.int64), minlength=size)


def _some(examples: int) -> Int64[np.ndarray, " examples"]:
    """All examples, or so many spread evenly over them."""
    return np.unique(np.linspace(0, examples - 1, min(examples, MOST_EXAMPLES)).round().astype(np.int64))
