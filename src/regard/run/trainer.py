"""The trainer of a recipe: its model, batches, parallelism, precision and validation."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import torch
from torch import nn

from regard.data.batches import PackedConfig
from regard.data.store import Store
from regard.errors import ConfigError, counted, nearest
from regard.metrics.registry import needs_text
from regard.models.stack import stacks_of
from regard.run.fingerprint import Fingerprint
from regard.run.preflight import check_disk, score_generated, try_validation
from regard.run.recipe import Recipe
from regard.run.trained import Run
from regard.tasks import Task
from regard.tasks.contract import as_stepper, evaluation_mode
from regard.tasks.evaluation import limited_steps, measure, measuring_batches
from regard.tasks.prepare import Preparation
from regard.train.compilation import fits_any_length
from regard.train.loop import Trainer
from regard.train.memory import BYTES_TO_TRAIN, require_memory
from regard.train.monitor import Quiet, Watcher
from regard.train.optimiser import same_rate
from regard.train.parallel.experts import ExpertParallel, choose_expert_parallel, held_params, refuse_expert_parallel
from regard.train.parallel.model import Parallel, choose_parallel, gpu_memory
from regard.train.parallel.processes import World
from regard.train.precision import Precision, PrecisionSetting, choose_precision
from regard.train.signals import Stopped


def build_trainer(
    recipe: Recipe,
    task: Task,
    preparation: Preparation,
    splits: Mapping[str, Store],
    out: Path,
    world: World,
    watcher: Watcher,
    start: Run | None,
    precision: Precision,
    stop: Callable[[], str | None],
    packed: bool | None = None,
) -> Trainer:
    """The trainer, once everything that it will need is known to work; it has no log yet.

    `packed`: whether a run that resumes had packed batches.
    """
    expert_size = expert_parallel_size(recipe, world)
    config = recipe.train.but(parallel=parallel_kind(recipe, task, world, expert_size), expert_parallel=expert_size)
    batching, num_params = recipe.task.batching(recipe.data), task.num_params(recipe.model)
    valid = measuring_batches(splits["valid"], batching, config.tokens_per_batch)
    require_memory(num_params // world.size, world.device, BYTES_TO_TRAIN)
    torch.manual_seed(recipe.seed)
    model = task.build(recipe.model)
    if packs(recipe, model, precision) if packed is None else packed and recipe.data.batching is None:
        batching = PackedConfig()
    batches = batching.build(splits["train"], tokens_per_batch=config.tokens_per_batch, seed=recipe.seed)
    _initialise_from_run(recipe, task, model, start, watcher)
    if world.is_main:
        if task.verb in ("translate", "generate"):
            generator = task.generator(as_stepper(model), torch.device("cpu"), None, preparation.base)
            limit = generator.limit(recipe.usual_search)
            preparation.notes += [limit] if limit else []
        unpartitioned = config.parallel != "fsdp" and expert_size == 1
        candidate = model.to(world.device) if unpartitioned else model
        try_validation(recipe, task, candidate, valid, preparation, precision.autocast)
        if (sentence := check_disk(out, config, num_params)) is not None:
            watcher.say(sentence)
    expert_parallel = ExpertParallel(model, world, expert_size)
    if config.parallel != "fsdp":  # which moves each shard by itself
        model = model.to(world.device)
    several = f" × {world.size} ({config.parallel})" if config.parallel != "none" else ""
    several += f", experts divided among {expert_size}" if expert_size > 1 else ""
    amount = _amount(splits["train"], recipe)
    watcher.say(f"{amount}, {num_params:,} parameters, {world.device}{several}, {precision.name}")
    watcher.detail(f"data type of matrix products: {precision.reason}")

    steps = limited_steps(valid, splits["valid"], config.valid_limit)

    def raise_stopped() -> None:  # a validation may take long, and a stop must not wait for it
        if stop() is not None:
            raise Stopped

    def validate(candidate: nn.Module) -> dict[str, float]:
        metrics = measure(task, candidate, valid, world.device, lambda _: raise_stopped(), steps)
        if needs_text(recipe.train.best) or (task.verb == "translate" and config.score_limit):
            with evaluation_mode(candidate):
                metrics |= score_generated(recipe, task, candidate, preparation, world.device, raise_stopped)
        return metrics

    return Trainer(
        config, task, model, batches, validate, out,
        seed=recipe.seed, world=world, precision=precision, watcher=watcher, log=Quiet(), stop=stop,
        rates=recipe.start.rates(model) if recipe.start else same_rate, expert_parallel=expert_parallel,
        fingerprint=Fingerprint.of(recipe, task.vocabularies, splits).tree(),
    )  # fmt: skip


def packs(recipe: Recipe, model: nn.Module, precision: Precision) -> bool:
    """Whether batches are packed where the recipe does not say: for CUDA graphs, as all of them then have one shape.

    That is for Transformers whose attention is one kernel over packed sequences, and that drop no whole rows.
    """
    if recipe.data.batching is not None or not recipe.task.packs or not recipe.train.cuda_graph:
        return False
    stacks = stacks_of(model)
    drops_rows = any(stack.config.dropout.layer for stack in stacks)
    return precision.dtype is torch.bfloat16 and bool(stacks) and fits_any_length(model) and not drops_rows


def _initialise_from_run(recipe: Recipe, task: Task, model: nn.Module, start: Run | None, watcher: Watcher) -> None:
    """Weights of the run to start from, if any, and what is frozen; a run that resumes has its own weights."""
    if recipe.start is None:
        return
    if start is not None:
        watcher.say(recipe.start.load(model, start.model, task.vocabularies, start.task.vocabularies))
    for sentence in recipe.start.hold(model):
        watcher.say(sentence)


def _amount(store: Store, recipe: Recipe) -> str:
    """How much training data there is; of plain text in tokens too, which is what a language model predicts."""
    source = recipe.data.split("train")
    amount = counted(len(store), source.unit)
    if source.content != "text":
        return amount
    return f"{counted(count_tokens(store), 'token')} in {amount}"


def count_tokens(store: Store) -> int:
    return sum(int(lengths.sum()) for lengths in store.lengths.values())


def refuse_unknown_best(recipe: Recipe, task: Task) -> None:
    """ConfigError for a metric that no validation will have; before the first step, as it would be lost otherwise."""
    best = recipe.train.best
    if best is None:
        return
    if needs_text(best) and task.verb != "translate":
        raise ConfigError("train.best", f"'{best}' needs a task that generates text, got {recipe.task.kind}")
    generated = filter(needs_text, recipe.task.scores_on(recipe.data.split("valid")))
    available = {*task.summarise(Counter()), *generated}
    if best not in available:
        raise ConfigError("train.best", f"the validation has no metric '{best}'; {nearest(best, available)}")


def parallel_kind(recipe: Recipe, task: Task, world: World, expert_size: int) -> Parallel:
    """DDP, FSDP or neither; ConfigError where the task or the optimiser does not work with it."""
    held = held_params(recipe.model, task.num_params, expert_size)
    chosen = choose_parallel(recipe.train.parallel, world.size, held, gpu_memory(world.device))
    if chosen == "fsdp" and getattr(recipe.task, "reward", None) is not None:
        raise ConfigError(
            "train.parallel",
            "task.reward generates texts of different lengths in each process, and fsdp needs all to compute in step; "
            "choose ddp",
        )
    if chosen == "fsdp" and getattr(recipe.task, "adversarial", 0.0):
        raise ConfigError(
            "train.parallel", "task.adversarial reads each batch twice, and fsdp reshards weights between; choose ddp"
        )
    if chosen == "fsdp" and recipe.train.optimiser.kind == "adafactor":
        raise ConfigError(
            "train.optimiser",
            "adafactor keeps statistics of whole rows and columns, which fsdp shards; choose adamw, muon or sgd, "
            "or train.parallel=ddp",
        )
    return chosen


def expert_parallel_size(recipe: Recipe, world: World) -> int:
    """Processes over which experts are divided; ConfigError where they cannot be."""
    size = choose_expert_parallel(recipe.train.expert_parallel, world.size, recipe.model)
    if size > 1:
        refuse_expert_parallel(recipe.train.optimiser.kind, getattr(recipe.task, "reward", None) is not None)
    return size


def precision_of(setting: PrecisionSetting, before: PrecisionSetting | None, world: World) -> Precision:
    """The data type of matrix products: as set, as before in a run that resumes, or as the main process measures."""
    if setting != "auto":
        return choose_precision(setting, world.device)
    if before is not None:
        return replace(choose_precision(before, world.device), reason=f"{before}, as before")
    chosen = choose_precision("auto", world.device) if world.is_main else None
    half = world.broadcast(float(chosen is not None and chosen.name == "bfloat16"))
    return chosen or choose_precision("bfloat16" if half else "float32", world.device)
