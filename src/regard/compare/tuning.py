"""A learning rate for each variant, since an untuned baseline is no baseline: short runs, judged on validation data."""

import math

from regard.compare.budget import shortened
from regard.compare.queue import Job, Queue
from regard.compare.sweep import SweepConfig, Variant


def tuned(variants: list[Variant], config: SweepConfig, queue: Queue) -> list[Variant]:
    """The variants, each with the learning rate whose short run had the lowest validation loss."""
    tries = {variant.name: _tries(variant, config) for variant in variants if variant.problem is None}
    done = queue.work([job for jobs in tries.values() for job in jobs.values()])
    losses = {
        name: {rate: done[job.key].valid.get("loss", math.inf) for rate, job in jobs.items()}
        for name, jobs in tries.items()
    }
    return [_with_best(variant, losses.get(variant.name, {})) for variant in variants]


def _tries(variant: Variant, config: SweepConfig) -> dict[float, Job]:
    """A short run for each learning rate."""
    recipe, found = variant.recipe.but(seed=config.seeds[0]), {}
    for factor in config.tune_factors:
        rate = float(f"{recipe.train.schedule.lr * factor:.3g}")
        train = shortened(recipe.train, config.tune_share)
        train = train.but(schedule=train.schedule.but(lr=rate))
        found[rate] = Job(f"tune/{variant.folder}/lr-{rate:g}", recipe.but(train=train), tested=False)
    return found


def _with_best(variant: Variant, losses: dict[float, float]) -> Variant:
    if variant.problem is not None:
        return variant
    finite = {rate: loss for rate, loss in losses.items() if math.isfinite(loss)}
    if not finite:
        return Variant(variant.name, variant.recipe, "no learning rate that was tried could be trained with")
    train = variant.recipe.train
    best = min(finite, key=finite.__getitem__)
    return Variant(variant.name, variant.recipe.but(train=train.but(schedule=train.schedule.but(lr=best))))
