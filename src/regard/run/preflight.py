"""What is checked before the first step: whatever else would fail in a validation, in a test or while generating."""

import shutil
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

import torch
from torch import nn

from regard.data import street
from regard.data.batches import Batches
from regard.data.examples import Example
from regard.data.source_reader import read_examples, read_pairs
from regard.data.sources import SourceConfig
from regard.decode import GreedyConfig
from regard.decode.constraints import SearchBase
from regard.decode.search import AnySearch
from regard.errors import ConfigError, DataError, RunError
from regard.metrics.registry import needs_text
from regard.progress import tracked
from regard.run.recipe import Recipe
from regard.run.scoring import ScoringRequest, score
from regard.tasks import Task
from regard.tasks.contract import as_stepper, config_of, evaluation_mode
from regard.tasks.prepare import Preparation
from regard.train.log import require_trackers
from regard.train.settings import TrainConfig

TRIED_EXAMPLES, TRIED_TOKENS = 4, 2
EXTRA_TOKENS = 10
"""Tokens that a validation may generate beyond the longest reference."""
FLOATS_PER_PARAMETER = 3
"""In a checkpoint: the weight and what the optimiser keeps of its gradient and of the square of it."""


def check_at_once(recipe: Recipe) -> None:
    """Quick checks before vocabularies are trained: the first example of each split can be read."""
    require_trackers(recipe.train.track)
    for split in ("train", "valid", "test"):
        source = getattr(recipe.data, split)
        if source is not None and next(iter(read_examples(source, Path(recipe.data.folder or ""))), None) is None:
            raise DataError(_name(source), f"expected examples for data.{split}, got none")


def _name(source: SourceConfig) -> str:
    return str(source.file or source.source or source.images or source.hub or f"street/{source.street}")


def check_test_data(recipe: Recipe, task: Task, preparation: Preparation) -> None:
    """Reads the test data once to its end, labels included, before training."""
    if recipe.data.test is None:
        return
    unit = f"{recipe.data.test.unit}s"
    for example in tracked(read_examples(recipe.data.test, preparation.base), "reading data.test", unit=unit):
        task.row(example)


def try_validation(
    recipe: Recipe,
    task: Task,
    model: nn.Module,
    valid: Batches,
    preparation: Preparation,
    autocast: Callable[[], AbstractContextManager[object]],
) -> None:
    """A small validation and test: one example through the model, a few generated tokens and their scores."""
    device = next(model.parameters()).device
    with torch.no_grad(), autocast(), evaluation_mode(model):
        rows = len(valid.batch(0, 0).examples)
        inputs = task.inputs(valid.batch(0, 0, 0, rows), config_of(model), device)
        metrics = task.summarise(task.measure(model, inputs))
        if task.verb == "generate":
            train = recipe.data.train
            generator = task.generator(as_stepper(model), device, recipe.longest_input, preparation.base)
            generator.generate([""], _short(recipe.usual_search), documents=train is None or not train.is_running_text)
        elif task.verb == "translate":
            metrics |= _try_translation(recipe, task, model, preparation, device)
    best = recipe.train.best or task.best_metric
    if best == "pronoun" and _has_pronouns(recipe.data.split("valid"), preparation.base):
        return  # though perhaps not in the first few examples
    if best not in metrics:
        raise ConfigError("train.best", f"the validation has no metric '{best}'; known: {', '.join(sorted(metrics))}")


def _try_translation(
    recipe: Recipe, task: Task, model: nn.Module, preparation: Preparation, device: torch.device
) -> dict[str, float]:
    """The scores of a few tokens for a few validation examples, by the search that the trained model will use."""
    source, search = recipe.data.split("valid").but(limit=TRIED_EXAMPLES), _short(recipe.usual_search)
    unnoted = replace(preparation, notes=[])  # notes about a few examples are not worth telling
    request = ScoringRequest(
        task, model, source, unnoted, device, search, recipe.train.tokens_per_batch, recipe.longest_input
    )
    return score(replace(request, overlong="cut")).metrics


def _has_pronouns(source: SourceConfig, base: Path) -> bool:
    if source.street is None:
        return False
    pairs = list(read_pairs(source, base))
    return street.pronoun_accuracy([pair.source for pair in pairs], [pair.target for pair in pairs])[1] > 0


def score_generated(
    recipe: Recipe,
    task: Task,
    model: nn.Module,
    preparation: Preparation,
    device: torch.device,
    watch: Callable[[], None] = lambda: None,
) -> dict[str, float]:
    """Scores of what the model generates for the validation data, of which `train.score_limit` is the most.

    The search is greedy, its rules those of the recipe's search:
    With search = "greedy" they are those of a test on the same data. What `watch` raises before a batch ends it.
    """
    source, per_batch, longest = recipe.data.split("valid"), recipe.train.tokens_per_batch, recipe.longest_input
    limit = recipe.train.score_limit
    examples = preparation.examples("valid", limit) if limit else None
    longest_reference = max((len(_reference(task, example)) for example in examples or ()), default=0)
    greedy = GreedyConfig(**{name: getattr(recipe.usual_search, name) for name in SearchBase.model_fields})
    if longest_reference:  # an untrained model would generate to the limit
        greedy = greedy.but(
            max_length=max(greedy.min_length + 1, min(greedy.max_length, longest_reference + EXTRA_TOKENS))
        )
    request = ScoringRequest(task, model, source, preparation, device, greedy, per_batch, longest)
    scores = score(replace(request, overlong=recipe.data.overlong, watch=watch, examples=examples)).metrics
    return scores if examples is None else {name: value for name, value in scores.items() if needs_text(name)}


def _reference(task: Task, example: Example) -> Sequence[int]:
    tokenizer, text = task.vocabularies.tokenizers.get("target"), getattr(example, "target", "")
    return tokenizer.encode(text) if tokenizer is not None else ()


def _short(search: AnySearch) -> AnySearch:
    return search.but(max_length=min(search.max_length, search.min_length + TRIED_TOKENS))


def check_disk(folder: Path, config: TrainConfig, parameters: int) -> str | None:
    """RunError where not even one checkpoint fits on the disk; a sentence where all that are kept would not."""
    usage = shutil.disk_usage(folder)
    checkpoint_bytes = 4 * parameters * (FLOATS_PER_PARAMETER + (config.moving_average is not None))
    checkpoints = max(config.keep, config.average, 2) + 2  # the best, and the one that is being written
    if not usage.total or usage.free >= checkpoint_bytes * checkpoints:
        return None
    sizes = f"a checkpoint takes about {checkpoint_bytes / 2**20:,.0f} MiB and {usage.free / 2**20:,.0f} MiB are free"
    if usage.free < checkpoint_bytes:
        raise RunError(f"{folder}: {sizes}; make room, or choose an --out on another disk")
    return f"{folder}: {sizes}, less than the {checkpoints} that are kept at a time; make room, or lower train.keep"
