"""What recipes must share for scores to have a common unit: task, examples, and a vocabulary for means over tokens.

All of it is checked before anything is trained.
"""

from collections.abc import Mapping
from pathlib import Path

from regard.compare.budget import Planner
from regard.compare.queue import scored_split
from regard.data.sources import SourceConfig
from regard.errors import ConfigError, DataError, nearest
from regard.metrics.registry import METRICS
from regard.run.recipe import Recipe
from regard.run.scoring.report import fingerprint_of, targets_of

Recipes = Mapping[str, Recipe]
"""Recipes by the names that messages call them."""


def refuse_other_tasks(recipes: Recipes) -> None:
    """Refuses recipes of different tasks, whose scores mean different things."""
    for first, other in _differing({name: recipe.task.kind for name, recipe in recipes.items()}):
        one, two = recipes[first].task.kind, recipes[other].task.kind
        raise ConfigError("task", f"'{first}' is {one} and '{other}' is {two}; only recipes of one task are compared")


def refuse_other_data(recipes: Recipes) -> list[str]:
    """Refuses recipes that are tested, or whose checkpoints are chosen, on different examples.

    Where the validation data is held out of different training data, recipes can be compared all the same; the names
    of those are given back, for the table to say so.
    """
    for first, other in _differing({name: scored_split(recipe) for name, recipe in recipes.items()}):
        raise ConfigError(
            "data.test",
            f"'{first}' is tested on {scored_split(recipes[first])} data and '{other}' on "
            f"{scored_split(recipes[other])} data; give both data.test, or neither",
        )
    refuse_other_split(recipes, scored_split(next(iter(recipes.values()))))
    refuse_other_split({name: recipe for name, recipe in recipes.items() if not recipe.data.holds_out}, "valid")
    return [other for _, other in _other_examples(recipes, "valid")]


def refuse_other_split(recipes: Recipes, split: str) -> None:
    """Refuses recipes whose examples of a split differ."""
    for first, other in _other_examples(recipes, split):
        one, two = (_named(recipes[name].data.split(split)) for name in (first, other))
        raise ConfigError(
            f"data.{split}", f"'{first}' ({one}) and '{other}' ({two}) have different examples; give both the same"
        )


def choose_metric(recipes: Recipes, requested: str | None, planner: Planner) -> str:
    """The score that recipes are compared by; ConfigError for one that they do not have, or have no common unit in."""
    first = next(iter(recipes.values()))
    scores = first.task.scores_on(first.data.split(scored_split(first)))
    available = [name for name in scores if METRICS[name].is_quality]
    if requested is not None and requested not in available:
        raise ConfigError(
            "metric", f"{first.task.kind} is not tested by '{requested}'; {nearest(requested, available)}"
        )
    chosen = requested or available[0]
    if METRICS[chosen].comparable != "same_targets":
        return chosen
    apart = next(iter(_other_targets(recipes, planner)), None)
    if apart is None:
        return chosen
    others = [name for name in available if METRICS[name].comparable != "same_targets"]
    if requested is None and others:
        return others[0]
    raise _without_unit(chosen, apart, others)


def refuse_other_targets(recipes: Recipes, planner: Planner, score: str) -> None:
    """Refuses recipes whose values of a score are means over different targets."""
    for apart in _other_targets(recipes, planner):
        raise _without_unit(score, apart, [])


def _without_unit(name: str, apart: tuple[str, str, str, str], others: list[str]) -> ConfigError:
    first, other, one, two = apart
    advice = f"compare by {' or '.join(others)}" if others else "give both the same tokenizer and labels"
    return ConfigError("metric", f"{name} has no common unit: '{first}' predicts {one} and '{other}' {two}; {advice}")


def _other_targets(recipes: Recipes, planner: Planner) -> list[tuple[str, str, str, str]]:
    """Recipes that predict other targets than the first: both names, and what each predicts.

    Vocabularies and labels follow from settings and training data; they are trained here only where these differ.
    """

    def settings(recipe: Recipe) -> str:
        data, masking = (recipe.data.split("train"), recipe.data.folder), recipe.task.target_masking
        return repr((recipe.task.kind, masking, data, recipe.tokenizer, recipe.start))

    if not _differing({name: settings(recipe) for name, recipe in recipes.items()}):
        return []
    targets = {}
    for name, recipe in recipes.items():
        try:
            targets[name] = targets_of(planner.task(recipe))
        except DataError:  # its run fails, and its row says why
            continue
    return [(first, other, targets[first], targets[other]) for first, other in _differing(targets)]


def _differing(values: Mapping[str, str | None]) -> list[tuple[str, str]]:
    """The first name and each one whose value is another; None differs from nothing."""
    values = {name: value for name, value in values.items() if value is not None}
    first = next(iter(values), "")
    return [(first, name) for name, value in values.items() if value != values[first]]


def _other_examples(recipes: Recipes, split: str) -> list[tuple[str, str]]:
    """The first name and each one whose examples of a split are others; data is read only where settings differ."""
    sources = {name: (recipe.data.split(split), Path(recipe.data.folder or "")) for name, recipe in recipes.items()}
    if len({repr(source) for source in sources.values()}) < 2:
        return []
    examples = {repr(source): _readable_fingerprint(*source) for source in sources.values()}
    return _differing({name: examples[repr(source)] for name, source in sources.items()})


def _readable_fingerprint(source: SourceConfig, base: Path) -> str | None:
    """The fingerprint of examples; None where they cannot be read: the run fails then, and its row says why."""
    try:
        return fingerprint_of(source, base)
    except DataError:
        return None


def _named(source: SourceConfig) -> str:
    """How messages call a source."""
    files = " and ".join(file.name for file in source.files())
    part = "held out" if getattr(source, "held_out", False) else source.part
    return f"{files or source.hub or f'street/{source.street}'}{f', {part}' if part else ''}"
