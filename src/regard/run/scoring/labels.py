"""Scores of a model that gives labels: one to each text or image, or one to each word."""

import time
from collections import Counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard import metrics
from regard.data.examples import Example
from regard.data.fields import TextField
from regard.data.source_reader import read_examples
from regard.data.store import Store
from regard.nn.loss import IGNORED
from regard.run.scoring.loss import open_source
from regard.run.scoring.report import Report, ScoringRequest, content_of, fingerprint, targets_of
from regard.tasks import MultiLabel
from regard.tasks.evaluation import MeasuredBatch, measure
from regard.tasks.multi_label import measure_matrices

MOST_LABELS = 200
"""Labels up to which the confusion matrix, which has a cell for each two, is given."""


def score_labels(request: ScoringRequest) -> Report:
    """Loss, accuracy, macro-F1 and the confusion matrix; the evidence is whether each label is right.

    Measured as in training: blank texts, which no model answers, are left out, and texts that are too long are cut or
    left out as the recipe says. How many were left out is in the details.
    """
    began = time.perf_counter()
    store, batches = open_source(request)
    answers: dict[int, NDArray[np.int64]] = {}
    expected: dict[int, NDArray[np.int64]] = {}

    def note(part: MeasuredBatch) -> None:
        assert part.predicted is not None
        predicted, targets = (labels.reshape(len(part.batch.examples), -1).cpu().numpy()
                              for labels in (part.predicted, part.inputs.targets))  # fmt: skip
        for row, example in enumerate(part.batch.examples.tolist()):
            counts = targets[row] != IGNORED
            answers[example], expected[example] = predicted[row][counts], targets[row][counts]

    values = measure(request.task, request.model, batches, request.device, note)
    names = request.task.vocabularies.labels
    predicted, right = ([names[int(label)] for example in range(len(store)) for label in side[example]]
                      for side in (answers, expected))  # fmt: skip
    values["macro_f1"] = metrics.macro_f1(predicted, right)
    labels = len({*predicted, *right})
    tested, left_out = _tested(request, store)
    details: dict[str, Any] = {"left_out": left_out} if left_out else {}
    if labels <= MOST_LABELS:
        matrix = metrics.confusion_matrix(predicted, right)
        details |= {"labels": list(matrix.labels), "confusion": matrix.counts.tolist()}
    unit = "word" if request.source.content == "tagged" else "example"
    return Report(
        values, len(right), time.perf_counter() - began, {"macro_f1": f"labels:{labels}"}, details,
        {"right": [one == other for one, other in zip(predicted, right, strict=True)]},
        fingerprint(map(content_of, tested)), targets_of(request.task), unit=unit,
    )  # fmt: skip


def score_multi_labels(request: ScoringRequest) -> Report:
    """Loss, micro-F1, macro-F1 and average precision of a model that gives several labels; by label in the details."""
    began, task = time.perf_counter(), request.task
    assert isinstance(task, MultiLabel)
    store, batches = open_source(request)
    values, scores, expected = measure_matrices(task, request.model, batches, request.device)
    values["average_precision"] = metrics.mean_average_precision(scores, expected)
    tested, left_out = _tested(request, store)
    names, chosen = list(task.vocabularies.labels), task.chosen(scores)
    details: dict[str, Any] = {"left_out": left_out} if left_out else {}
    details["labels"] = [
        {"label": name, "expected": int(y.sum()), "given": int(predicted.sum()), "right": int((predicted & y).sum()),
         "threshold": task.thresholds[name]}
        for name, y, predicted in zip(names, expected.T, chosen.T, strict=True)
    ]  # fmt: skip
    right = (chosen == expected).all(1)
    return Report(
        values, len(store), time.perf_counter() - began, {"micro_f1": f"labels:{len(names)}"}, details,
        {"right": right.tolist()}, fingerprint(map(content_of, tested)), targets_of(task), unit="example",
    )  # fmt: skip


def _tested(request: ScoringRequest, store: Store) -> tuple[list[Example], dict[str, int]]:
    """The examples that were scored, and how many were not, by reason."""
    examples = list(read_examples(request.source, request.preparation.base))
    answered = [example for example in examples if request.task.config.is_answered(example)]
    left_out = Counter({"blank": len(examples) - len(answered), **store.skipped})
    if store.skipped:
        answered = [example for example in answered if not _is_overlong(request, store, example)]
    return answered, {reason: count for reason, count in left_out.items() if count}


def _is_overlong(request: ScoringRequest, store: Store, example: Example) -> bool:
    row = request.task.row(example)
    fields = [(field, row[name]) for name, field in store.fields.items() if name in row]
    return any(
        field.is_overlong(field.encode([value])[0]) and (not isinstance(field, TextField) or field.overlong == "skip")
        for field, value in fields
    )
