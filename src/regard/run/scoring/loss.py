"""Scores of a model by how well it predicts the tokens of a text, or those that are masked."""

import math
import time
from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha256
from typing import Any

import numpy as np
from tokenizers.models import WordLevel

from regard import metrics
from regard.data.batches import Batches, StreamBatches
from regard.data.fields import TextField
from regard.data.masking import FIRST
from regard.data.source_reader import read_texts
from regard.data.store import Store
from regard.errors import DataError
from regard.metrics.language import Restoration
from regard.run.scoring.report import Report, ScoringRequest, fingerprint, fingerprint_of, targets_of
from regard.tasks.evaluation import MeasuredBatch, measure, measuring_batches
from regard.tasks.masked_language_model import masked_nlls
from regard.text.special_tokens import UNK
from regard.text.tokenizer import Tokenizer

SINGLY_MASKED = 256
"""Tokens that are masked one at a time for the pseudo-perplexity; each takes a pass over its whole row."""


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
    seconds = time.perf_counter() - began
    return Report(
        values, tokens, seconds, signatures, evidence=evidence, fingerprint=tested, targets=targets, unit="token"
    )


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


def open_source(request: ScoringRequest) -> tuple[Store, Batches]:
    """The encoded source and its batches, cut alike for all models with one vocabulary and batch size."""
    overlong = "cut" if request.overlong == "cut" and not request.task.config.gives_trees else "skip"
    data = request.preparation.data.but(test=request.source, overlong=overlong)
    preparation = replace(request.preparation, data=data)
    store = preparation.open(request.task, "test")
    return store, measuring_batches(store, preparation.config.batching(preparation.data), request.tokens_per_batch)


def measure_batches(request: ScoringRequest, batches: Batches) -> tuple[dict[str, float], dict[str, list[Any]], int]:
    """The task's metrics over all batches, with perplexity; the evidence, which is loss and targets of each batch; and
    how many targets there are."""
    losses: list[float] = []
    targets: list[str] = []
    counted = 0.0

    def note(part: MeasuredBatch) -> None:
        nonlocal counted
        counted += part.sums["count"]
        losses.append(part.sums["nll"] / max(1, part.sums["count"]))
        targets.append(sha256(part.inputs.targets.cpu().numpy().tobytes()).hexdigest()[:16])

    values = measure(request.task, request.model, batches, request.device, note)
    if not counted:
        raise DataError("data", "there is no token to predict: no text has more than one")
    values["perplexity"] = metrics.perplexity(values["loss"], 1)
    return values, {"losses": losses, "targets": targets}, round(counted)
