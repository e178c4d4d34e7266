"""Scores of summaries: how well the model predicts those that people wrote, and what its own share with them."""

import time
from dataclasses import replace

from regard import metrics
from regard.run.scoring.generation import write_all
from regard.run.scoring.loss import measure_batches, open_source
from regard.run.scoring.report import Report, ScoringRequest, fingerprint, targets_of

NAMES = {"rouge1": "rouge_1", "rouge2": "rouge_2", "rougeL": "rouge_l"}


def score_summarisation(request: ScoringRequest) -> Report:
    """Perplexity of the references, ROUGE-1, ROUGE-2 and ROUGE-L, and the share of inputs that were cut.

    The evidence has each summary's ROUGE beside the texts, and the loss of each batch. Models that write together have
    no perplexity of their own.
    """
    began = time.perf_counter()
    store, batches = open_source(request)
    values, evidence, _ = ({}, {}, 0) if request.others else measure_batches(request, batches)
    report = report_summaries(*write_all(request), began)
    values |= {**report.metrics, "cut": sum(store.cut.values()) / report.examples}
    evidence |= report.evidence
    seconds = time.perf_counter() - began
    return replace(report, metrics=values, seconds=seconds, evidence=evidence, targets=targets_of(request.task))


def report_summaries(sources: list[str], references: list[str], written: list[str], began: float) -> Report:
    """The report of generated summaries beside those of people."""
    scores = metrics.rouge(written, references)
    each = [metrics.rouge([one], [other]) for one, other in zip(written, references, strict=True)]
    evidence: dict[str, list] = {"written": written, "references": references}
    evidence |= {name: [found[kind].value for found in each] for kind, name in NAMES.items()}
    return Report(
        {NAMES[kind]: score.value for kind, score in scores.items()},
        len(references),
        time.perf_counter() - began,
        {NAMES[kind]: score.signature for kind, score in scores.items()},
        {"written": written},
        evidence,
        fingerprint(zip(sources, references, strict=True)),
    )
