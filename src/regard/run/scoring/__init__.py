"""A run tested on data: the scores that its task is known by, each with what it was computed with."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import cast

from torch import nn

from regard.data.batches import StreamConfig
from regard.data.examples import Example, Pair
from regard.data.fields import AnyField
from regard.data.sources import SourceConfig
from regard.decode.search import AnySearch
from regard.errors import ConfigError, DataError, OverlongError
from regard.files.run_folder import CACHE_FOLDER
from regard.metrics.registry import require_registered
from regard.progress import phase
from regard.run.scoring.report import OverlongSummary, open_source
from regard.run.scoring.report import Report as Report
from regard.run.scoring.report import ScoringRequest as ScoringRequest
from regard.run.scoring.scorers import SCORERS as SCORERS
from regard.run.trained import Run
from regard.tasks.base import Task
from regard.tasks.prepare import Preparation
from regard.text.inputs import Overlong, source_segments

NAMED = 5
"""Examples that a report names."""
AT_ONCE = 1024

OverlongExamples = dict[int, tuple[Example, str]]
"""Examples that are too long, by their number from zero, and what is wrong with each."""


def score_run(
    run: Run,
    source: SourceConfig,
    search: AnySearch | None = None,
    others: Sequence[Run] = (),
    overlong: Overlong | None = None,
) -> Report:
    """The scores of a run's model on one source; of an ensemble, where the task generates text.

    Examples that are too long are cut or left out as in training, unless `overlong` says otherwise.
    """
    recipe = run.recipe
    source.require(recipe.task.content, "data")
    if others and run.task.verb != "translate":
        raise ConfigError("ensemble", f"only translations are generated together, got a run of {recipe.task.kind}")
    run.require_same_vocabulary(others)
    preparation = Preparation(recipe.task, recipe.data, recipe.tokenizer, run.folder / CACHE_FOLDER, model=recipe.model)
    models: list[nn.Module] = [other.model for other in others]
    search = search or recipe.usual_search
    per_batch = recipe.train.tokens_per_batch
    longest = run.longest_with(others)
    request = ScoringRequest(run.task, run.model, source, preparation, run.device, search, per_batch, longest, models)
    with phase("testing"):
        return score(replace(request, overlong=overlong or recipe.data.overlong))


def score(request: ScoringRequest) -> Report:
    """The scores of a model that need not be in a run folder yet."""
    request, overlong = without_overlong(request)
    report = SCORERS[request.task.config.scoring](request)
    require_registered(report.metrics)
    affected = ("loss", "perplexity") if request.task.config.input_limit else ()  # ROUGE scores texts of any length
    return with_overlong(report, overlong, request.overlong, affected)


# Examples that are too long


def find_overlong(request: ScoringRequest) -> OverlongExamples:
    """The examples that are too long for the model, by their number from zero, and what is wrong with each."""
    task, preparation = request.task, request.preparation
    if task.config.splits_inputs:
        return overlong_pairs(task, cast(Sequence[Pair], list(request.read())), request.longest)
    is_stream = isinstance(preparation.config.batching(preparation.data), StreamConfig)
    if task.config.reads is None or is_stream:  # images have one size, and a stream is cut anyway
        return {}
    store, _ = open_source(request)
    if not store.skipped and not store.cut:
        return {}
    fields = {name: field for name, field in store.fields.items() if name in task.config.texts}
    if task.config.input_limit:
        fields.pop("source")  # cut by design, and counted as such
    return dict(_by_fields(task, fields, request.read()))


def overlong_pairs(task: Task, pairs: Sequence[Pair], longest: int | None) -> OverlongExamples:
    """The pairs with a sentence that is too long, by their number from zero, and what is wrong with each."""
    try:
        source_segments([pair.source for pair in pairs], task.vocabularies.tokenizers["source"], longest)
    except OverlongError as error:
        return {number - 1: (pairs[number - 1], problem) for number, problem in error.inputs.items()}
    return {}


def _by_fields(
    task: Task, fields: Mapping[str, AnyField], examples: Iterable[Example]
) -> Iterable[tuple[int, tuple[Example, str]]]:
    remaining, first = iter(examples), 0
    while batch := list(islice(remaining, AT_ONCE)):
        rows = [task.row(example) for example in batch]
        for name, field in fields.items():
            for number, tokens in enumerate(field.encode([row[name] for row in rows])):
                if field.is_overlong(tokens):
                    yield (
                        first + number,
                        (batch[number], f"{name} of {len(tokens)} tokens, the model takes at most {field.max_length}"),
                    )
        first += len(batch)


def without_overlong(request: ScoringRequest) -> tuple[ScoringRequest, OverlongExamples]:
    """The request without examples that are too long, and those examples; DataError where they are an error."""
    if request.overlong == "cut" and request.task.config.gives_trees:
        raise ConfigError("--overlong", "a sentence with its tags cannot be cut; choose skip or error")
    overlongs = find_overlong(request)
    refuse(overlongs, request.overlong)
    left_out = request.overlong == "skip" and not request.task.config.input_limit
    return replace(request, left_out=frozenset(overlongs) if left_out else frozenset()), overlongs


def refuse(overlongs: OverlongExamples, overlong: Overlong) -> None:
    """DataError for the first example that is too long, where that is an error."""
    if overlongs and overlong == "error":
        example, problem = next(iter(overlongs.values()))
        more = f"; {len(overlongs)} examples are too long" if len(overlongs) > 1 else ""
        raise DataError(
            example.location.file, f"{problem}{more}; evaluate the others with --overlong skip", example.location.line
        )


def with_overlong(
    report: Report, overlongs: OverlongExamples, overlong: Overlong, scores: Sequence[str] = ()
) -> Report:
    """The report with the first examples that are too long; `scores`: those that they affect, if not all."""
    if not overlongs:
        return report
    first = [f"{example.location}: {problem}" for example, problem in islice(overlongs.values(), NAMED)]
    named: OverlongSummary = {"treatment": overlong, "count": len(overlongs), "examples": first}
    if scores:
        named["scores"] = list(scores)
    return replace(report, overlong=named)
