"""Scores of summaries: how well the model predicts those that people wrote, and what its own share with them."""

import time

from regard import metrics
from regard.run.scoring.loss import measure_batches, open_source
from regard.run.scoring.report import Asked, Report, fingerprint, targets_of
from regard.run.scoring.writing import write_all

NAMES = {"rouge1": "rouge_1", "rouge2": "rouge_2", "rougeL": "rouge_l"}


def score_summarisation(asked: Asked) -> Report:
    """Perplexity of the references, ROUGE-1, ROUGE-2 and ROUGE-L, and the share of inputs that were cut.

    The evidence has each summary's ROUGE beside the texts, and the loss of each batch. Models that write together have
    no perplexity of their own.
    """
    began = time.perf_counter()
    store, batches = open_source(asked)
    values, evidence = ({}, {}) if asked.others else measure_batches(asked, batches)
    sources, references, written = write_all(asked)
    scores = metrics.rouge(written, references)
    values |= {NAMES[kind]: score.value for kind, score in scores.items()}
    values["cut"] = sum(store.cut.values()) / len(references)
    each = [metrics.rouge([one], [other]) for one, other in zip(written, references, strict=True)]
    evidence |= {"written": written, "references": references}
    evidence |= {name: [found[kind].value for found in each] for kind, name in NAMES.items()}
    return Report(
        values,
        len(references),
        time.perf_counter() - began,
        {NAMES[kind]: score.signature for kind, score in scores.items()},
        {"written": written},
        evidence,
        fingerprint(zip(sources, references, strict=True)),
        targets_of(asked.task),
    )
