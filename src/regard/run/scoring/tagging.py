"""Scores of a model that gives each word its tag."""

import time

from regard.data.readers import read_tagged
from regard.run.scoring.labels import report_labels
from regard.run.scoring.report import Asked, Report
from regard.tasks import Tagging


def score_tagging(asked: Asked) -> Report:
    """Accuracy, macro-F1 and the confusion matrix over all words; the evidence is whether each word is right."""
    began = time.perf_counter()
    task = asked.task
    assert isinstance(task, Tagging)
    sentences = list(read_tagged(asked.source, asked.preparation.base))
    for sentence in sentences:
        task.numbers(sentence)  # an unknown tag is an error with its place
    found = task.tag(asked.model, sentences, asked.device, asked.longest)
    given = [tag for tags in found for tag, _ in tags]
    return report_labels(given, [tag for sentence in sentences for tag in sentence.tags], began)
