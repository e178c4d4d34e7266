"""Settings of a recipe that would change nothing: refused when training starts, never when a run is used."""

from collections.abc import Iterator
from pathlib import Path

from regard.config import Unused, unused_sentences
from regard.errors import ConfigError
from regard.models import ModelConfig
from regard.models.recurrent.single_stack import RecurrentConfig
from regard.models.stack import StackConfig
from regard.nn.attention.kinds import MemoryCompressedConfig
from regard.run.recipe import Recipe
from regard.run.trained import read_run_recipe
from regard.train.parallel.experts import has_experts

USUAL_BLOCK: int = MemoryCompressedConfig.model_fields["block"].default
"""Where stride does not divide it, another must be given, even if nothing else reads it."""


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
    model, train = recipe.model, recipe.train
    yield from recipe.task.unused(model, recipe.data, recipe.tokenizer)
    yield from _in_model(model)
    if isinstance(model, RecurrentConfig):
        yield from _in_recurrent(model)
    if not isinstance(model, StackConfig):
        for path in ("train.residual_dtype", "model.initialise.shrink"):
            yield Unused(path, f"on {model.kind}, which has no Transformer blocks")
    if not has_experts(model):
        yield Unused("train.expert_parallel", "on a model without experts")
    if not train.optimiser.weight_decay:
        for name in ("decay_on", "decoupled"):
            yield Unused(f"train.optimiser.{name}", "with train.optimiser.weight_decay = 0")
    yield from _in_data(recipe)
    if train.average == 1:
        yield Unused("train.average", "as the mean of one checkpoint, which is that checkpoint")
    if not any(model.dropout.tree().values()) and not getattr(getattr(model, "feedforward", None), "noise", False):
        yield Unused("task.consistency", "without model.dropout, as both readings of a batch are then the same")


def _in_data(recipe: Recipe) -> Iterator[Unused]:
    if recipe.data.valid is not None:
        yield Unused("data.held_out", "beside data.valid")
    if not recipe.task.generates or recipe.task.content == "text":
        yield Unused("train.score_limit", f"on {recipe.task.kind}, whose validations generate no text")
    if recipe.tokenizer.kind == "byte":
        yield Unused("tokenizer.sample", "on bytes, which are not trained on any text")


def _in_model(model: ModelConfig) -> Iterator[Unused]:
    if _kind(model, "norm") == "none":
        for name in ("norm_place", "final_norm", "embedding.norm"):
            yield Unused(f"model.{name}", "with model.norm = none")
    if _kind(model, "feedforward") == "none":
        yield Unused("model.dropout.feedforward", "with model.feedforward = none")
    attention = getattr(model, "attention", None)
    encodes = model.shape in ("encoder", "vision") or getattr(model, "decoder_attention", None) is not None
    if isinstance(attention, MemoryCompressedConfig) and encodes and not USUAL_BLOCK % attention.stride:
        yield Unused("model.attention.block", "in an encoder, where queries see the whole memory")
    if getattr(getattr(model, "head", None), "transform", None) is None:
        yield Unused("model.head.transform_epsilon", "without model.head.transform")
    if getattr(model, "stages", ()):
        yield Unused("model.kernel", "beside model.stages, each of which has its own")


def _in_recurrent(model: RecurrentConfig) -> Iterator[Unused]:
    drop = model.dropout
    if _kind(model, "attention") in (None, "none"):
        yield Unused("model.dropout.attention", f"on {model.kind} without attention")
        yield Unused("model.readout", f"on {model.kind} without attention")
    if max(model.depth, getattr(model, "decoder_depth", None) or 1) == 1:
        yield Unused("model.dropout.between", "with model.depth = 1")
    if not (drop.embedding or drop.between or drop.output):
        yield Unused("model.dropout.locked", "without model.dropout.embedding, between or output")
    if (cell := getattr(model, "cell", "lstm")) != "lstm":
        yield Unused("model.initialise.forget", f"on {cell}, which has no forget gate of its own")


def _kind(model: ModelConfig, part: str) -> str | None:
    return getattr(getattr(model, part, None), "kind", None)
