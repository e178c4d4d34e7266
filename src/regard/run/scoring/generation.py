"""Scores of what a model writes beside what a person wrote."""

import time
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, cast

from regard import metrics
from regard.data import street
from regard.data.examples import Pair
from regard.data.sources import SourceConfig
from regard.decode import Ensemble
from regard.errors import DataError, located
from regard.run.scoring.report import Report, ScoringRequest, fingerprint


def score_translation(request: ScoringRequest) -> Report:
    """BLEU, chrF, TER and exact match of the translations; pronouns on the embedded corpus; attachment of trees."""
    began = time.perf_counter()
    sources, references, written = write_all(request)
    return report_written(sources, references, written, request.source, began)


def report_written(
    sources: list[str], references: list[str], written: list[str], source: SourceConfig, began: float
) -> Report:
    """The report of what was written beside what a person wrote."""
    scores = {
        "bleu": metrics.bleu(written, references),
        "chrf": metrics.chrf(written, references),
        "ter": metrics.ter(written, references),
    }
    values = {name: score.value for name, score in scores.items()}
    values["exact_match"] = metrics.exact_match(written, references)
    if source.street is not None:
        right, total = street.pronoun_accuracy(sources, written)
        values |= {"pronoun": right / total} if total else {}  # of no pronoun at all, no share is right
    if source.is_treebank and source.target == "brackets":
        attached = metrics.attachment(written, references)
        values |= {"uas": attached.uas, "las": attached.las}
    return Report(
        values,
        len(sources),
        time.perf_counter() - began,
        {name: score.signature for name, score in scores.items()},
        {"written": written},
        {"written": written, "references": references},
        fingerprint(zip(sources, references, strict=True)),
    )


def write_all(request: ScoringRequest) -> tuple[list[str], list[str], list[str]]:
    """The sources of a split of pairs, their references, and what the model writes for each."""
    read = enumerate(cast(Iterable[Pair], request.read()))
    pairs = [pair for number, pair in read if number not in request.left_out]
    if not pairs:
        raise DataError("data", "no example is left to test: all are too long for the model; see data.max_length")
    sources, references = [pair.source for pair in pairs], [pair.target for pair in pairs]
    together: list[Any] = [request.model, *request.others]
    stepper = Ensemble(together) if request.others else request.model
    generator = request.task.generator(stepper, request.device, request.longest, request.preparation.base)
    generator = replace(generator, watch=request.watch)
    with located([pair.location.origin for pair in pairs]):
        outputs = generator.translate(sources, request.search, cut=request.overlong == "cut")
    written = [found[0].text for found in outputs]
    return sources, references, written
