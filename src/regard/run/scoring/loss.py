"""Scores of a model by how well it predicts a text."""

import time
from collections.abc import Mapping
from dataclasses import replace

from regard import metrics
from regard.data.readers import read_texts
from regard.evaluate import measure, measuring_batches
from regard.run.scoring.report import Asked, Report


def score_language_model(asked: Asked) -> Report:
    """Loss, perplexity, and bits per byte of the text; the evidence is the loss of each batch.

    Batches are cut alike for all models with one vocabulary and batch size.
    """
    began = time.perf_counter()
    preparation = replace(asked.preparation, data=asked.preparation.data.but(test=asked.source))
    store = preparation.open(asked.task, "test")
    batches = measuring_batches(store, preparation.config.batching(preparation.data), asked.tokens_per_batch)
    losses: list[float] = []

    def note(sums: Mapping[str, float]) -> None:
        losses.append(sums["nll"] / max(1, sums["count"]))

    values = measure(asked.task, asked.model, batches, asked.device, note)
    values["perplexity"] = metrics.perplexity(values["loss"], 1)
    tokens = sum(int(lengths.sum()) for lengths in store.lengths.values())
    size = sum(len((text.text + text.end).encode()) for text in read_texts(asked.source, preparation.base))
    values["bits_per_byte"] = metrics.bits_per_byte(values["loss"] * tokens, size)
    return Report(values, tokens, time.perf_counter() - began, evidence={"losses": losses})
