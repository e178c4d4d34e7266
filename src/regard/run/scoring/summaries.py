"""Scores of summaries: how well the model predicts those that people wrote, and what its own share with them."""

import time
from collections.abc import Mapping
from dataclasses import replace

from regard import metrics
from regard.data.store import Store
from regard.evaluate import measure, measuring_batches
from regard.run.scoring.report import Asked, Report
from regard.run.scoring.writing import write_all
from regard.tasks.prepare import Preparation

NAMES = {"rouge1": "rouge_1", "rouge2": "rouge_2", "rougeL": "rouge_l"}


def score_summarisation(asked: Asked) -> Report:
    """Perplexity of the references, ROUGE-1, ROUGE-2 and ROUGE-L, and the share of inputs that were cut.

    The evidence has each summary's ROUGE beside the texts, and the loss of each batch. Models that write together have
    no perplexity of their own.
    """
    began = time.perf_counter()
    preparation = replace(asked.preparation, data=asked.preparation.data.but(test=asked.source))
    store = preparation.open(asked.task, "test")
    values, losses = ({}, []) if asked.others else predicted(asked, preparation, store)
    _, references, written = write_all(asked)
    scores = metrics.rouge(written, references)
    values |= {NAMES[kind]: score.value for kind, score in scores.items()}
    values["cut"] = sum(store.cut.values()) / len(references)
    each = [metrics.rouge([one], [other]) for one, other in zip(written, references, strict=True)]
    evidence = {"written": written, "references": references, "losses": losses}
    evidence |= {name: [found[kind].value for found in each] for kind, name in NAMES.items()}
    return Report(
        values,
        len(references),
        time.perf_counter() - began,
        {NAMES[kind]: score.signature for kind, score in scores.items()},
        {"written": written},
        evidence,
    )


def predicted(asked: Asked, preparation: Preparation, store: Store) -> tuple[dict[str, float], list[float]]:
    """Loss and perplexity of the references, and the loss of each batch."""
    batches = measuring_batches(store, preparation.config.batching(preparation.data), asked.tokens_per_batch)
    losses: list[float] = []

    def note(sums: Mapping[str, float]) -> None:
        losses.append(sums["nll"] / max(1, sums["count"]))

    values = measure(asked.task, asked.model, batches, asked.device, note)
    return values | {"perplexity": metrics.perplexity(values["loss"], 1)}, losses
