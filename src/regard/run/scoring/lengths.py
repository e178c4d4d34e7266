"""Examples that are too long for a model: found before a test begins, named in its report."""

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
from regard.tasks import Summarisation, Tagging, Task, Translation
from regard.text.inputs import Overlong, source_segments

NAMED = 5
"""Examples that a report names."""
AT_ONCE = 1024

Beyond = dict[int, tuple[Example, str]]
"""Examples that are too long, by their number from zero, and what is wrong with each."""


def find_overlong(request: ScoringRequest) -> Beyond:
    """The examples that are too long for the model, by their number from zero, and what is wrong with each."""
    task, preparation = request.task, request.preparation
    if isinstance(task, Translation):
        pairs = cast(Sequence[Pair], list(request.read()))
        return overlong_pairs(task, pairs, request.longest)
    if not task.config.texts or isinstance(preparation.config.batching(preparation.data), StreamConfig):
        return {}
    if request.source.content == "captions":  # read as images, and the sentences about them are only compared
        return {}
    store, _ = open_source(request)
    if not store.skipped and not store.cut:
        return {}
    fields = {name: field for name, field in store.fields.items() if name in task.config.texts}
    if isinstance(task, Summarisation):
        fields.pop("source")  # cut by design, and counted as such
    return dict(_beyond(task, fields, request.read()))


def overlong_pairs(task: Translation, pairs: Sequence[Pair], longest: int | None) -> Beyond:
    """The pairs with a sentence that is too long, by their number from zero, and what is wrong with each."""
    try:
        source_segments([pair.source for pair in pairs], task.source, longest)
    except OverlongError as error:
        return {number - 1: (pairs[number - 1], problem) for number, problem in error.inputs.items()}
    return {}


def _beyond(
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


def treated(request: ScoringRequest) -> tuple[ScoringRequest, Beyond]:
    """The request without examples that are too long, and those examples; DataError where they are an error."""
    if request.overlong == "cut" and isinstance(request.task, Tagging):
        raise ConfigError("--overlong", "a sentence with its tags cannot be cut; choose skip or error")
    beyond = find_overlong(request)
    refuse(beyond, request.overlong)
    left_out = request.overlong == "skip" and not isinstance(request.task, Summarisation)
    return replace(request, left_out=frozenset(beyond) if left_out else frozenset()), beyond


def refuse(beyond: Beyond, overlong: Overlong) -> None:
    """DataError for the first example that is too long, where that is an error."""
    if beyond and overlong == "error":
        example, problem = next(iter(beyond.values()))
        more = f"; {len(beyond)} examples are too long" if len(beyond) > 1 else ""
        raise DataError(
            example.location.file, f"{problem}{more}; evaluate the others with --overlong skip", example.location.line
        )


def with_overlong(report: Report, beyond: Beyond, overlong: Overlong, scores: Sequence[str] = ()) -> Report:
    """The report, which names the first examples that are too long; `scores` are those it matters to, if not all."""
    if not beyond:
        return report
    first = [f"{example.location}: {problem}" for example, problem in islice(beyond.values(), NAMED)]
    named = {"treatment": overlong, "count": len(beyond), "examples": first}
    return replace(report, overlong=named | ({"scores": list(scores)} if scores else {}))
