"""Scores of a model by how well it guesses hidden tokens of a text."""

import time

import numpy as np

from regard import metrics
from regard.data.batches import Batches
from regard.data.masking import FIRST
from regard.run.scoring.loss import measure_batches, open_source
from regard.run.scoring.report import Report, ScoringRequest, fingerprint_of, targets_of
from regard.tasks.mask_filling import surprises

ALONE = 256
"""Tokens that are hidden alone for the pseudo-perplexity; each takes a pass over its whole row."""


def score_masked(request: ScoringRequest) -> Report:
    """Loss, perplexity and accuracy on one fixed masking of the text, and pseudo-perplexity; the evidence is the loss
    of each batch.

    Pseudo-perplexity (Salazar 2020) hides one token at a time: exp(−mean log P(x_i | all other tokens of its row)),
    over tokens spread evenly through the text.
    """
    began = time.perf_counter()
    store, batches = open_source(request)
    values, evidence, _ = measure_batches(request, batches)
    chosen = spread(batches, ALONE)
    alone = surprises(request.model, chosen, request.device)
    values["pseudo_perplexity"] = metrics.perplexity(sum(alone), len(alone))
    signatures = {"pseudo_perplexity": f"tokens:{len(alone)}|hidden:alone"}
    tokens = sum(int(lengths.sum()) for lengths in store.lengths.values())
    return Report(
        values, tokens, time.perf_counter() - began, signatures, evidence=evidence, targets=targets_of(request.task),
        fingerprint=fingerprint_of(request.source, request.preparation.base, request.left_out),
        unit="token",
    )  # fmt: skip


def spread(batches: Batches, count: int) -> list[tuple[list[int], int]]:
    """So many tokens, evenly spread over all that can be hidden, each as its row and its place there."""
    rows: dict[int, list[int]] = {}
    for step in range(batches.num_batches(0)):
        batch = batches.batch(0, step)
        text = batch.fields["text"]
        cut = (row[:length].tolist() for row, length in zip(text.tokens, text.lengths, strict=True))
        rows |= dict(zip(batch.examples.tolist(), cut, strict=True))
    able = [(row, place) for _, row in sorted(rows.items()) for place, token in enumerate(row) if token >= FIRST]
    picked = np.unique(np.linspace(0, len(able) - 1, min(count, len(able))).round().astype(int))
    return [able[place] for place in picked.tolist()]
