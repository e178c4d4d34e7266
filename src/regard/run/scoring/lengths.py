"""Examples that are too long for a model: found before a test begins, listed in its report."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import cast

from regard.data.batches import StreamConfig
from regard.data.examples import Example, Pair
from regard.data.fields import AnyField
from regard.errors import ConfigError, DataError, OverlongError
from regard.run.scoring.loss import open_source
from regard.run.scoring.report import Report, ScoringRequest
from regard.tasks.base import Task
from regard.text.inputs import Overlong, source_segments

NAMED = 5
"""Examples that a report names."""
AT_ONCE = 1024

Overlongs = dict[int, tuple[Example, str]]
"""Examples that are too long, by their number from zero, and what is wrong with each."""


def find_overlong(request: ScoringRequest) -> Overlongs:
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


def overlong_pairs(task: Task, pairs: Sequence[Pair], longest: int | None) -> Overlongs:
    """The pairs with a sentence that is too long, by their number from zero, and what is wrong with each."""
    try:
        source_segments([pair.source for pair in pairs], task.vocabularies.tokenizers["source"], longest)
    except OverlongError as error:
        return {number - 1: (pairs[number - 1], problem) for number, problem in error.inputs.items()}
    return {}


def _by_fields(
    task: Task, fields: Mapping[str, AnyField], examples: Iterable[Example]
) -> Iterable[tuple[int, tuple[Example, str]]]:
    """Examples with a field that is too long."""
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


def without_overlong(request: ScoringRequest) -> tuple[ScoringRequest, Overlongs]:
    """The request without examples that are too long, and those examples; DataError where they are an error."""
    if request.overlong == "cut" and request.task.config.gives_trees:
        raise ConfigError("--overlong", "a sentence with its tags cannot be cut; choose skip or error")
    overlongs = find_overlong(request)
    refuse(overlongs, request.overlong)
    left_out = request.overlong == "skip" and not request.task.config.input_limit
    return replace(request, left_out=frozenset(overlongs) if left_out else frozenset()), overlongs


def refuse(overlongs: Overlongs, overlong: Overlong) -> None:
    """DataError for the first example that is too long, where that is an error."""
    if overlongs and overlong == "error":
        example, problem = next(iter(overlongs.values()))
        more = f"; {len(overlongs)} examples are too long" if len(overlongs) > 1 else ""
        raise DataError(
            example.location.file, f"{problem}{more}; evaluate the others with --overlong skip", example.location.line
        )


def with_overlong(report: Report, overlongs: Overlongs, overlong: Overlong, scores: Sequence[str] = ()) -> Report:
    """The report with the first examples that are too long; `scores`: those that they affect, if not all."""
    if not overlongs:
        return report
    first = [f"{example.location}: {problem}" for example, problem in islice(overlongs.values(), NAMED)]
    named = {"treatment": overlong, "count": len(overlongs), "examples": first}
    return replace(report, overlong=named | ({"scores": list(scores)} if scores else {}))
