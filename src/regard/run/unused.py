"""Settings of a recipe that would change nothing: refused when training starts, never when a run is used."""

from collections.abc import Iterator
from pathlib import Path

from regard.config import Unused, unused_sentences
from regard.errors import ConfigError
from regard.models.stack import StackConfig
from regard.run.opened import read_run_recipe
from regard.run.recipe import Recipe
from regard.train.expert_parallel import has_experts


def refuse_unused(recipe: Recipe, before: Recipe | None = None) -> None:
    """ConfigError for a setting without effect that is neither a default nor taken over.

    What a resumed run had before, or the run that this one starts from, was not set here and is accepted.
    """
    if before is None and recipe.start is not None:
        before = read_run_recipe(Path(recipe.start.run))
    for path, sentence in unused_sentences(recipe, unused(recipe), before):
        raise ConfigError(path, sentence)


def unused(recipe: Recipe) -> Iterator[Unused]:
    """All settings that change nothing in this recipe, and why."""
    yield from recipe.task.unused(recipe.model, recipe.data, recipe.tokenizer)
    if not has_experts(recipe.model):
        yield Unused("train.expert_parallel", "on a model without experts")
    if getattr(getattr(recipe.model, "attention", None), "kind", "none") == "none":
        yield Unused("model.dropout.attention", f"on {recipe.model.kind} without attention")
    if not isinstance(recipe.model, StackConfig):
        for path in ("train.between_blocks", "model.initialise.shrink"):
            yield Unused(path, f"on {recipe.model.kind}, which has no Transformer blocks")
