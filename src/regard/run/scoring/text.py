"""Scores of what a model generates beside what people wrote: translations, summaries, descriptions of images."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from regard.data.examples import Example
from regard.data.sources import SourceConfig
from regard.decode import Ensemble
from regard.errors import DataError, located
from regard.metrics.registry import Score, Texts, text_metrics
from regard.run.scoring.loss import measure_batches, open_source
from regard.run.scoring.report import Report, ScoringRequest, content_of, fingerprint, targets_of
from regard.tasks.base import TaskConfig


def score_texts(request: ScoringRequest) -> Report:
    """Every registered metric of the task's texts; the evidence has the texts themselves.

    Where the task measures its predictions too, also the loss and perplexity of the references (the evidence is then
    the loss of each batch) and the share of inputs that were cut. An ensemble has no perplexity of its own.
    """
    began = time.perf_counter()
    if not request.task.config.measured:
        return report_texts(request.task.config, generate_texts(request), request.source, began)
    store, batches = open_source(request)
    values, evidence, _ = ({}, {}, 0) if request.others else measure_batches(request, batches)
    report = report_texts(request.task.config, generate_texts(request), request.source, began)
    values |= {**report.metrics, "cut": sum(store.cut.values()) / report.examples}
    evidence |= report.evidence
    seconds = time.perf_counter() - began
    return replace(report, metrics=values, seconds=seconds, evidence=evidence, targets=targets_of(request.task))


@dataclass(frozen=True)
class GeneratedTexts:
    """Examples and what a model generated for each."""

    examples: Sequence[Example]
    sources: Sequence[str]
    """What the texts were generated from; empty where that is no text."""
    hypotheses: list[str]
    references: list[str]


def generate_texts(request: ScoringRequest) -> GeneratedTexts:
    """What the model generates for each example that is not left out."""
    examples = [example for number, example in enumerate(request.read()) if number not in request.left_out]
    if not examples:
        raise DataError("data", "no example is left to test: all are too long for the model; see data.max_length")
    models: list[Any] = [request.model, *request.others]
    stepper = Ensemble(models) if request.others else models[0]
    generator = request.task.generator(stepper, request.device, request.longest, request.preparation.base)
    generator = replace(generator, watch=request.watch)
    inputs = [request.task.config.input_of(example) for example in examples]
    with located([example.location.origin for example in examples]):
        outputs = generator.translate(inputs, request.search, cut=request.overlong == "cut")
    hypotheses, references = [row[0].text for row in outputs], [request.task.config.reference_of(e) for e in examples]
    sources = [text if isinstance(text, str) else "" for text in inputs]
    return GeneratedTexts(examples, sources, hypotheses, references)


def report_texts(config: TaskConfig, generated: GeneratedTexts, source: SourceConfig, began: float) -> Report:
    """The report of generated texts beside their references."""
    texts = Texts(generated.sources, generated.hypotheses, generated.references)
    metrics = text_metrics(config.kind, source)
    scores = {metric.name: score for metric in metrics if metric.compute and (score := metric.compute(texts))}
    evidence: dict[str, list[Any]] = {"written": generated.hypotheses, "references": generated.references}
    for metric in metrics:
        if metric.compute and metric.test == "sign_flips_of_examples":
            evidence[metric.name] = [_value(metric.compute(text)) for text in texts.one_by_one()]
    return Report(
        {name: score.value for name, score in scores.items()},
        len(generated.examples),
        time.perf_counter() - began,
        {name: score.signature for name, score in scores.items() if score.signature},
        {"written": generated.hypotheses},
        evidence,
        fingerprint(map(content_of, generated.examples)),
    )


def _value(score: Score | None) -> float:
    assert score is not None
    return score.value
