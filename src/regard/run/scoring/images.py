"""Scores of models that read images: labels beside labels, sentences beside sentences."""

import time
from typing import Any

import numpy as np
import torch

from regard import metrics
from regard.data.examples import DescribedPicture
from regard.data.readers import read_examples
from regard.decode import Ensemble
from regard.run.scoring.labels import report_labels
from regard.run.scoring.loss import open_source
from regard.run.scoring.report import Asked, Report


@torch.no_grad()
def score_image_classification(asked: Asked) -> Report:
    """Accuracy, macro-F1 and the confusion matrix."""
    began = time.perf_counter()
    store, batches = open_source(asked)
    answers = np.zeros(len(store), np.int64)
    for step in range(batches.num_batches(0)):
        batch = batches.batch(0, step)
        inputs = asked.task.inputs(batch, asked.model.config, asked.device)
        answers[batch.examples] = asked.model(*inputs.arguments).argmax(-1).cpu().numpy()
    names = asked.task.lexicon.labels
    given, expected = ([names[int(number)] for number in numbers] for numbers in (answers, store.labels["label"]))
    return report_labels(given, expected, began)


def score_image_description(asked: Asked) -> Report:
    """BLEU, chrF and exact match of what is written about the images."""
    began = time.perf_counter()
    examples = [
        example
        for example in read_examples(asked.source, asked.preparation.base)
        if isinstance(example, DescribedPicture)
    ]
    together: list[Any] = [asked.model, *asked.others]
    writer: Any = asked.task.writer(Ensemble(together) if asked.others else asked.model, asked.device)
    found = writer.translate([example.picture for example in examples], asked.search)
    written, references = [outputs[0].text for outputs in found], [example.target for example in examples]
    scores = {"bleu": metrics.bleu(written, references), "chrf": metrics.chrf(written, references)}
    values = {name: score.value for name, score in scores.items()}
    values["exact_match"] = metrics.exact_match(written, references)
    return Report(
        values,
        len(examples),
        time.perf_counter() - began,
        {name: score.signature for name, score in scores.items()},
        {"written": written},
        {"written": written, "references": references},
    )
