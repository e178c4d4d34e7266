"""The ways to test a model: by generated texts, by predicted or masked tokens, by labels."""

import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from tokenizers.models import WordLevel

from regard import metrics
from regard.data.batches import Batches, StreamBatches
from regard.data.examples import Example
from regard.data.fields import TextField
from regard.data.masking import FIRST
from regard.data.source_reader import read_examples, read_texts
from regard.data.sources import SourceConfig
from regard.data.store import Store
from regard.decode import Ensemble
from regard.errors import DataError, located
from regard.metrics.language import Restoration
from regard.metrics.registry import Score, Texts, text_metrics
from regard.nn.loss import IGNORED
from regard.run.scoring.report import (
    Details,
    Evidence,
    Report,
    ScoringRequest,
    content_of,
    fingerprint,
    fingerprint_of,
    measure_batches,
    open_source,
    targets_of,
)
from regard.tasks.base import Scoring, TaskConfig
from regard.tasks.contract import as_stepper
from regard.tasks.evaluation import MeasuredBatch, measure
from regard.tasks.masked_language_model import masked_nlls
from regard.tasks.multi_label import MultiLabel, measure_matrices
from regard.text.special_tokens import UNK
from regard.text.tokenizer import Tokenizer

MOST_LABELS = 200
"""Labels up to which the confusion matrix, which has a cell for each two, is given."""
SINGLY_MASKED = 256
"""Tokens that are masked one at a time for the pseudo-perplexity; each takes a pass over its whole row."""


# Generated texts


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
    models = [as_stepper(model) for model in (request.model, *request.others)]
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
    texts = Texts(generated.sources, generated.hypotheses, generated.references)
    metrics = text_metrics(config.kind, source)
    scores = {metric.name: score for metric in metrics if metric.compute and (score := metric.compute(texts))}
    evidence: Evidence = {"written": generated.hypotheses, "references": generated.references}
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


# Tokens


def score_language_model(request: ScoringRequest) -> Report:
    """Loss, perplexity, and bits per byte of the text; the evidence is the loss of each batch.

    Bits per byte charge for all of the text, also for what its tokens lose (`metrics.Restoration`); where some was cut,
    they are not given. The first token of a stream, or of a line that is read alone, is charged as a uniform choice
    among all tokens.
    """
    began = time.perf_counter()
    store, batches = open_source(request)
    values, evidence, predicted = measure_batches(request, batches)
    field, tokens = _text_field(store), sum(int(lengths.sum()) for lengths in store.lengths.values())
    restoration = Restoration()
    tested = fingerprint((text,) for text in _restored(request, field.tokenizer, restoration))
    unit = f"unit:token|unknown:{restoration.unknown / tokens:.2%}"
    signatures = {"loss": unit, "perplexity": unit}
    if (size := restoration.size) and not store.cut:  # what was cut off is not predicted
        first = (tokens - begin_tokens(store, batches) - predicted) * math.log2(field.tokenizer.vocab_size)
        unknown, altered = restoration.unknown_bits, restoration.altered_bits
        values["bits_per_byte"] = metrics.bits_per_byte(values["loss"] * predicted, size, first + unknown + altered)
        charges = f"unknown:{unknown / size:.3f}|altered:{altered / size:.3f}|first:{first / size:.3f}"
        signatures["bits_per_byte"] = f"bytes:{size}|{charges}"
    targets = f"{targets_of(request.task)}{' and ends of documents' if field.end else ''}"
    tested += f" cut: {store.cut}" if store.cut else ""  # which are other examples
    return Report(
        values, tokens, time.perf_counter() - began, signatures, evidence=evidence, fingerprint=tested,
        targets=targets, unit="token",
    )  # fmt: skip


def score_masked(request: ScoringRequest) -> Report:
    """Loss, perplexity and accuracy on one fixed masking of the text, and pseudo-perplexity; the evidence is the loss
    of each batch.

    Pseudo-perplexity (Salazar 2020) masks one token at a time: exp(−mean log P(x_i | all other tokens of its row)),
    over tokens spread evenly through the text.
    """
    began = time.perf_counter()
    store, batches = open_source(request)
    values, evidence, _ = measure_batches(request, batches)
    nlls = masked_nlls(request.model, spread_tokens(batches, SINGLY_MASKED), request.device)
    values["pseudo_perplexity"] = metrics.perplexity(sum(nlls), len(nlls))
    signatures = {"pseudo_perplexity": f"tokens:{len(nlls)}|hidden:alone"}
    tokens = sum(int(lengths.sum()) for lengths in store.lengths.values())
    return Report(
        values, tokens, time.perf_counter() - began, signatures, evidence=evidence, targets=targets_of(request.task),
        fingerprint=fingerprint_of(request.source, request.preparation.base, request.left_out),
        unit="token",
    )  # fmt: skip


def spread_tokens(batches: Batches, count: int) -> list[tuple[list[int], int]]:
    """Tokens spread evenly over all that can be masked, each as its row and its position there."""
    rows: dict[int, list[int]] = {}
    for step in range(batches.num_batches(0)):
        batch = batches.batch(0, step)
        text = batch.fields["text"]
        cut = (row[:length].tolist() for row, length in zip(text.tokens, text.lengths, strict=True))
        rows |= dict(zip(batch.examples.tolist(), cut, strict=True))
    maskable = [(row, at) for _, row in sorted(rows.items()) for at, token in enumerate(row) if token >= FIRST]
    chosen = np.unique(np.linspace(0, len(maskable) - 1, min(count, len(maskable))).round().astype(int))
    return [maskable[index] for index in chosen.tolist()]


def _restored(request: ScoringRequest, tokenizer: Tokenizer, restoration: Restoration) -> Iterator[str]:
    """The texts of a source one by one; what it takes to restore each from its tokens is added up."""
    for number, example in enumerate(read_texts(request.source, request.preparation.base)):
        if number in request.left_out:
            continue
        text = example.text + example.end
        restore(text, tokenizer, restoration)
        yield text


def restore(text: str, tokenizer: Tokenizer, restoration: Restoration) -> None:
    """Adds what it takes to restore a text from its tokens."""
    if tokenizer.id_mapping is not None or not isinstance(tokenizer.core.model, WordLevel):
        restoration.add(text, tokenizer.normalise(text))
        return
    pieces = tokenizer.pieces(text)
    words = [text[piece.start : piece.end] if piece.id == UNK else tokenizer.names[piece.id] for piece in pieces]
    for piece, word in zip(pieces, words, strict=True):
        if piece.id == UNK:
            restoration.add_unknown(word)
    restoration.add(text, tokenizer.join(words))


def _text_field(store: Store) -> TextField:
    text = store.fields["text"]
    assert isinstance(text, TextField)
    return text


def begin_tokens(store: Store, batches: Batches) -> int:
    """Tokens that stand before each text and are given, not predicted; in a stream, which runs on, none are."""
    return 0 if isinstance(batches, StreamBatches) else len(store) * _text_field(store).begin


# Labels


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
    details: Details = {"left_out": left_out} if left_out else {}
    if labels <= MOST_LABELS:
        matrix = metrics.confusion_matrix(predicted, right)
        details["labels"], details["confusion"] = [*map(str, matrix.labels)], matrix.counts.tolist()
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
    details: Details = {"left_out": left_out} if left_out else {}
    details["by_label"] = [
        {"label": name, "expected": int(y.sum()), "predicted": int(predicted.sum()),
         "right": int((predicted & y).sum()), "threshold": task.thresholds[name]}
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


SCORERS: Mapping[Scoring, Callable[[ScoringRequest], Report]] = {
    "texts": score_texts,
    "tokens": score_language_model,
    "masked_tokens": score_masked,
    "labels": score_labels,
    "multi_labels": score_multi_labels,
}
