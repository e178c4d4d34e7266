"""Scores of a model by how well it predicts a text."""

import time
from collections.abc import Mapping
from dataclasses import replace

from regard import metrics
from regard.data.batches import Batches, StreamBatches
from regard.data.fields import TextField
from regard.data.readers import read_texts
from regard.data.store import Store
from regard.evaluate import measure, measuring_batches
from regard.run.scoring.report import Asked, Report


def score_language_model(asked: Asked) -> Report:
    """Loss, perplexity, and bits per byte of the text; the evidence is the loss of each batch."""
    began = time.perf_counter()
    store, batches = open_source(asked)
    values, losses = measure_batches(asked, batches)
    tokens = sum(int(lengths.sum()) for lengths in store.lengths.values())
    size = sum(len((text.text + text.end).encode()) for text in read_texts(asked.source, asked.preparation.base))
    values["bits_per_byte"] = metrics.bits_per_byte(values["loss"] * (tokens - begin_tokens(store, batches)), size)
    return Report(values, tokens, time.perf_counter() - began, evidence={"losses": losses})


def begin_tokens(store: Store, batches: Batches) -> int:
    """Tokens that stand before each text and are given, not predicted; in a stream, which runs on, none are."""
    text = store.fields["text"]
    assert isinstance(text, TextField)
    return 0 if isinstance(batches, StreamBatches) else len(store) * text.begin


def open_source(asked: Asked) -> tuple[Store, Batches]:
    """The encoded source and its batches, cut alike for all models with one vocabulary and batch size."""
    preparation = replace(asked.preparation, data=asked.preparation.data.but(test=asked.source))
    store = preparation.open(asked.task, "test")
    return store, measuring_batches(store, preparation.config.batching(preparation.data), asked.tokens_per_batch)


def measure_batches(asked: Asked, batches: Batches) -> tuple[dict[str, float], list[float]]:
    """The task's metrics over all batches, perplexity among them, and the loss of each batch."""
    losses: list[float] = []

    def note(sums: Mapping[str, float]) -> None:
        losses.append(sums["nll"] / max(1, sums["count"]))

    values = measure(asked.task, asked.model, batches, asked.device, note)
    return values | {"perplexity": metrics.perplexity(values["loss"], 1)}, losses
