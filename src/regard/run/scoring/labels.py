"""Scores of a model that gives each text its label."""

import time

from regard import metrics
from regard.data.readers import read_labelled
from regard.errors import located
from regard.run.scoring.report import Asked, Report


def score_classification(asked: Asked) -> Report:
    """Accuracy, macro-F1 and the confusion matrix; a blank text counts as the first label."""
    began = time.perf_counter()
    task = asked.task
    examples = list(read_labelled(asked.source, asked.preparation.base))
    for example in examples:
        task.row(example)  # an unknown label is an error with its place
    with located([example.place.origin for example in examples]):
        found = task.classify(asked.model, [example.text for example in examples], asked.device, asked.longest)
    given = [max(row, key=row.__getitem__) if row else task.lexicon.labels[0] for row in found]
    return report_labels(given, [example.label for example in examples], began)


def report_labels(given: list[str], expected: list[str], began: float) -> Report:
    """The report of labels given beside those expected."""
    matrix = metrics.confusion_matrix(given, expected)
    values = {"accuracy": metrics.accuracy(given, expected), "macro_f1": metrics.macro_f1(given, expected)}
    details = {"labels": list(matrix.labels), "confusion": [list(map(int, row)) for row in matrix.counts]}
    right = [one == other for one, other in zip(given, expected, strict=True)]
    return Report(values, len(given), time.perf_counter() - began, details=details, evidence={"right": right})
