"""Equal budgets: every variant may spend what the first variant's recipe spends."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

import torch

from regard.compare.sweep import EqualConfig, Variant, whole_amount
from regard.errors import ConfigError, RegardError
from regard.files.run_folder import CACHE_FOLDER
from regard.models import ModelConfig
from regard.run.recipe import Recipe
from regard.tasks import Task
from regard.tasks.prepare import Preparation
from regard.train.budget import BudgetConfig, Spent
from regard.train.settings import TrainConfig

Model = TypeVar("Model", bound=ModelConfig)
COUNTED_BATCHES = 500  # enough to know what a batch costs on average
PARAMS_TOLERANCE = 0.02


@dataclass
class Planner:
    """Vocabularies and costs of recipes before training; each vocabulary is trained once."""

    folder: Path
    _tasks: dict[str, Task] = field(default_factory=dict)

    def preparation(self, recipe: Recipe) -> Preparation:
        return Preparation(recipe.task, recipe.data, recipe.tokenizer, self.folder / CACHE_FOLDER, model=recipe.model)

    def task(self, recipe: Recipe) -> Task:
        key = repr((recipe.task, recipe.data, recipe.tokenizer, recipe.start))
        if key not in self._tasks:
            initial = recipe.start.load_tokenizers(recipe.task.texts) if recipe.start else None
            self._tasks[key] = recipe.task.task(self.preparation(recipe).learn(initial))
        return self._tasks[key]

    def epoch(self, recipe: Recipe) -> Spent:
        """What one pass over the training data costs."""
        task = self.task(recipe)
        store = self.preparation(recipe).open(task, "train", training=True)
        batching = recipe.task.batching(recipe.data)
        batches = batching.build(store, tokens_per_batch=recipe.train.tokens_per_batch, seed=recipe.seed)
        number = batches.num_batches(0)
        counted = range(min(number, COUNTED_BATCHES))
        inputs = [task.inputs(batches.batch(0, step), recipe.model, torch.device("cpu")) for step in counted]
        share = len(counted) / number
        tokens, flops = sum(part.tokens for part in inputs), sum(part.flops for part in inputs)
        return Spent(steps=number, epochs=1.0, flops=flops / share, tokens=round(tokens / share))

    def recipe_amount(self, recipe: Recipe, by: str) -> float:
        """The amount of this budget kind that the recipe spends."""
        if by == "minutes":
            if recipe.train.minutes is None:
                raise ConfigError("budget", "the first recipe has no train.minutes; say how many: minutes=5")
            return recipe.train.minutes
        epoch = self.epoch(recipe)
        used = epoch.progress(recipe.train)
        if not used:
            raise ConfigError("budget", f"the first recipe's budget is in minutes only; say how much: {by}=1e12")
        return getattr(epoch, by) / used


def equalised(variants: list[Variant], equal: EqualConfig, planner: Planner) -> tuple[list[Variant], float]:
    """The variants with equal budgets, and how much each has; one that cannot be made equal says why."""
    first = variants[0].recipe
    by, amount = equal.by, equal.amount
    if by == "params":
        target = round(amount or planner.task(first).num_params(first.model))
        variants = [_sized(variant, target, planner) for variant in variants]
        by, amount = "tokens", planner.recipe_amount(first, "tokens")
    else:
        target = amount = amount or planner.recipe_amount(first, by)
    recipes = (variant.recipe.but(train=limited(variant.recipe.train, by, amount)) for variant in variants)
    return [replace(variant, recipe=recipe) for variant, recipe in zip(variants, recipes, strict=True)], target


def limited(train: TrainConfig, by: str, amount: float) -> TrainConfig:
    """Training that ends when this much is spent, and not for any other reason."""
    limits = dict.fromkeys(BudgetConfig.model_fields)
    return train.but(**{**limits, by: whole_amount(by, amount)}, patience=None)


def shortened(train: TrainConfig, share: float) -> TrainConfig:
    """The same training with a share of its budget and of its warm-up, where that is in steps."""
    [(by, amount)] = [(name, getattr(train, name)) for name in BudgetConfig.model_fields if getattr(train, name)]
    warmup = train.schedule.warmup
    schedule = train.schedule if warmup < 1 else train.schedule.but(warmup=max(1, round(warmup * share)))
    return limited(train.but(schedule=schedule), by, amount * share)


def _sized(variant: Variant, target: int, planner: Planner) -> Variant:
    try:
        task = planner.task(variant.recipe)
        model = with_params(variant.recipe.model, task.num_params, target)
    except RegardError as error:
        return replace(variant, problem=str(error))
    return replace(variant, recipe=variant.recipe.but(model=model))


def with_params(model: Model, count: Callable[[ModelConfig], int], target: int) -> Model:
    """The model with its width scaled to this many parameters, within 2 %.

    A width is a multiple of the heads, which is coarse; the inner width of the feed-forward part makes up the rest.
    """
    step = 2 * getattr(model, "heads", 1)
    low, high = 0, 1
    while count(model.but(width=high * step)) <= target:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if count(model.but(width=middle * step)) <= target else (low, middle)
    near = [_filled(model.but(width=number * step), count, target) for number in (low, high) if number]
    best = min([model, *near], key=lambda one: abs(math.log(count(one) / target)))
    if abs(count(best) - target) > PARAMS_TOLERANCE * target:
        raise ConfigError(
            "model.width",
            f"no width gives {target:,} parameters within 2 %; the nearest, {best.width}, has {count(best):,}",
        )
    return best


def _filled(model: Model, count: Callable[[ModelConfig], int], target: int) -> Model:
    """The model with the inner width that comes nearest, where it has one: parameters grow in a line with it."""
    part = getattr(model, "feedforward", None)
    if part is None or not hasattr(part, "hidden_of"):
        return model

    def hidden(number: int) -> Model:
        return model.but(feedforward=part.but(hidden=number))

    here = part.hidden_of(model.width)
    per_unit = count(hidden(here + 1)) - count(hidden(here))
    return hidden(max(8, here + round((target - count(hidden(here))) / per_unit)))
