"""A run tested on data: the scores that its task is known by, each with what it was computed with."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from regard import metrics
from regard.data import street
from regard.data.readers import read_labelled, read_pairs, read_texts
from regard.data.sources import SourceConfig
from regard.decode import Ensemble
from regard.errors import ConfigError
from regard.evaluate import measure, measuring_batches
from regard.run.recipe import Recipe
from regard.tasks import Classification, Translation
from regard.tasks.base import Task
from regard.tasks.prepare import Preparation
from regard.tasks.writing import AnySearch, classify


@dataclass(frozen=True)
class Report:
    """What a test found."""

    metrics: dict[str, float]
    examples: int
    seconds: float
    signatures: dict[str, str] = field(default_factory=dict)
    """How scores were computed, as sacrebleu writes it."""
    details: dict[str, Any] = field(default_factory=dict)
    """What is no single number: the confusion matrix, what was written."""

    def tree(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "metrics": self.metrics,
            "signatures": self.signatures,
            "examples": self.examples,
            "seconds": round(self.seconds, 3),
            **self.details,
        }


def score_translation(
    task: Translation,
    model: nn.Module,
    source: SourceConfig,
    base: Path,
    search: AnySearch,
    device: torch.device,
    longest: int | None = None,
    others: Sequence[nn.Module] = (),
) -> Report:
    """BLEU, chrF, TER and exact match of the translations; on the embedded corpus, pronouns too."""
    began = time.perf_counter()
    pairs = list(read_pairs(source, base))
    sources, references = [pair.source for pair in pairs], [pair.target for pair in pairs]
    together: list[Any] = [model, *others]
    writer = task.writer(Ensemble(together) if others else model, device, longest, base)
    written = [outputs[0].text for outputs in writer.translate(sources, search)]
    scores = {
        "bleu": metrics.bleu(written, references),
        "chrf": metrics.chrf(written, references),
        "ter": metrics.ter(written, references),
    }
    values = {name: score.value for name, score in scores.items()}
    values["exact_match"] = metrics.exact_match(written, references)
    if source.street is not None:
        right, total = street.pronoun_accuracy(sources, written)
        values["pronoun"] = right / max(1, total)
    signatures = {name: score.signature for name, score in scores.items()}
    return Report(values, len(pairs), time.perf_counter() - began, signatures, {"written": written})


def score_classification(
    task: Classification,
    model: nn.Module,
    source: SourceConfig,
    base: Path,
    device: torch.device,
    longest: int | None = None,
) -> Report:
    """Accuracy, macro-F1 and the confusion matrix."""
    began = time.perf_counter()
    examples = list(read_labelled(source, base))
    for example in examples:
        task.row(example)  # an unknown label is an error with its place
    found = classify(
        model, task.tokenizer, task.lexicon.labels, [example.text for example in examples], device, longest
    )
    given = [max(row, key=row.__getitem__) if row else task.lexicon.labels[0] for row in found]
    expected = [example.label for example in examples]
    matrix = metrics.confusion_matrix(given, expected)
    values = {"accuracy": metrics.accuracy(given, expected), "macro_f1": metrics.macro_f1(given, expected)}
    details = {"labels": list(matrix.labels), "confusion": [list(map(int, row)) for row in matrix.counts]}
    return Report(values, len(examples), time.perf_counter() - began, details=details)


def score_by_loss(
    task: Task, model: nn.Module, preparation: Preparation, split: str, tokens_per_batch: int, device: torch.device
) -> Report:
    """Loss, perplexity, and bits per byte of the text."""
    began = time.perf_counter()
    store = preparation.open(task, split)
    batching = preparation.config.batching(preparation.data)
    values = measure(task, model, measuring_batches(store, batching, tokens_per_batch), device)
    values["perplexity"] = metrics.perplexity(values["loss"], 1)
    tokens = sum(int(lengths.sum()) for lengths in store.lengths.values())
    size = sum(
        len((text.text + text.end).encode()) for text in read_texts(preparation.data.split(split), preparation.base)
    )
    values["bits_per_byte"] = metrics.bits_per_byte(values["loss"] * tokens, size)
    return Report(values, tokens, time.perf_counter() - began)


def score_run(
    recipe: Recipe,
    task: Task,
    model: nn.Module,
    source: SourceConfig,
    preparation: Preparation,
    device: torch.device,
    search: AnySearch | None = None,
    longest: int | None = None,
    others: Sequence[nn.Module] = (),
) -> Report:
    """The scores of a task's model on one source; of several together, where the task writes."""
    if isinstance(task, Translation):
        source.require("pairs", "data")
        search = search or recipe.usual_search
        return score_translation(task, model, source, preparation.base, search, device, longest, others)
    if others:
        raise ConfigError("ensemble", f"only translations are written together, got a run of {recipe.task.kind}")
    if isinstance(task, Classification):
        source.require("labelled", "data")
        return score_classification(task, model, source, preparation.base, device, longest)
    source.require("text", "data")
    asked = replace(preparation, data=preparation.data.but(test=source))
    return score_by_loss(task, model, asked, "test", recipe.train.tokens_per_batch, device)
