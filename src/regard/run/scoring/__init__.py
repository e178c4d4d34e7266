"""A run tested on data: the scores that its task is known by, each with what it was computed with."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from torch import nn

from regard.data.sources import SourceConfig
from regard.decode.search import AnySearch
from regard.errors import ConfigError
from regard.files.run_folder import CACHE_FOLDER
from regard.metrics.registry import require_registered
from regard.progress import phase
from regard.run.scoring.generation import score_translation
from regard.run.scoring.images import score_image_description
from regard.run.scoring.labels import score_labels
from regard.run.scoring.lengths import treated, with_overlong
from regard.run.scoring.loss import score_language_model
from regard.run.scoring.masked_language_model import score_masked
from regard.run.scoring.report import Report as Report
from regard.run.scoring.report import ScoringRequest as ScoringRequest
from regard.run.scoring.summaries import score_summarisation
from regard.run.trained import Run
from regard.tasks import (
    Classification,
    ImageClassification,
    ImageDescription,
    LanguageModel,
    MaskedLanguageModel,
    Summarisation,
    Tagging,
    Task,
    Translation,
)
from regard.tasks.prepare import Preparation
from regard.text.inputs import Overlong

SCORERS: dict[type[Task], Callable[[ScoringRequest], Report]] = {
    Translation: score_translation,
    LanguageModel: score_language_model,
    MaskedLanguageModel: score_masked,
    Classification: score_labels,
    ImageClassification: score_labels,
    ImageDescription: score_image_description,
    Tagging: score_labels,
    Summarisation: score_summarisation,
}


def score_run(
    run: Run,
    source: SourceConfig,
    search: AnySearch | None = None,
    others: Sequence[Run] = (),
    overlong: Overlong | None = None,
) -> Report:
    """The scores of a run's model on one source; of several together, where the task writes.

    Examples that are too long are cut or left out as in training, if `overlong` does not say otherwise.
    """
    recipe = run.recipe
    source.require(recipe.task.content, "data")
    if others and run.task.verb != "translate":
        raise ConfigError("ensemble", f"only translations are written together, got a run of {recipe.task.kind}")
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
    request, beyond = treated(request)
    report = SCORERS[type(request.task)](request)
    require_registered(report.metrics)
    some = (
        ("loss", "perplexity") if isinstance(request.task, Summarisation) else ()
    )  # ROUGE compares texts of any length
    return with_overlong(report, beyond, request.overlong, some)
