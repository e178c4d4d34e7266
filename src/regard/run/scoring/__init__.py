"""A run tested on data: the scores that its task is known by, each with what it was computed with."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from torch import nn

from regard.data.sources import SourceConfig
from regard.decode.search import AnySearch
from regard.errors import ConfigError
from regard.files.run_folder import CACHE_FOLDER
from regard.metrics.registry import require_registered
from regard.progress import phase
from regard.run.scoring.labels import score_labels, score_multi_labels
from regard.run.scoring.lengths import with_overlong, without_overlong
from regard.run.scoring.loss import score_language_model, score_masked
from regard.run.scoring.report import Report as Report
from regard.run.scoring.report import ScoringRequest as ScoringRequest
from regard.run.scoring.text import score_texts
from regard.run.trained import Run
from regard.tasks.base import Scoring
from regard.tasks.prepare import Preparation
from regard.text.inputs import Overlong

SCORERS: Mapping[Scoring, Callable[[ScoringRequest], Report]] = {
    "texts": score_texts,
    "tokens": score_language_model,
    "masked_tokens": score_masked,
    "labels": score_labels,
    "multi_labels": score_multi_labels,
}


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
