"""From a recipe to a trained run folder, or on from where one stopped."""

import shutil
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import torch
from torch import nn

from regard.config import dump_toml
from regard.data.store import Store
from regard.errors import ConfigError, RunError, counted, nearest
from regard.files.atomic import atomic_writer, report_disk_errors
from regard.files.run_folder import (
    CACHE_FOLDER,
    CARD_FILE,
    CHECKPOINTS_FOLDER,
    CURVES_FILE,
    METRICS_FILE,
    NEW_VOCABULARY_FOLDER,
    RECIPE_FILE,
    is_run,
    list_checkpoints,
)
from regard.metrics.baseline import Baseline
from regard.metrics.registry import needs_text
from regard.run.card import write_card
from regard.run.conclusion import copy_baseline, read_baselines, write_baselines
from regard.run.fingerprint import Fingerprint
from regard.run.fresh_folder import fresh_folder
from regard.run.preflight import check_at_once, check_disk, check_test_data, score_generated, try_validation
from regard.run.recipe import Recipe
from regard.run.resume import Resumption
from regard.run.trained import Run, read_vocabularies
from regard.run.unused_settings import refuse_unused
from regard.tasks import Task
from regard.tasks.baseline import trivial_baseline
from regard.tasks.evaluation import limited_steps, measure, measuring_batches
from regard.tasks.prepare import Preparation
from regard.text.training_words import TrainingWords
from regard.train import checkpoint
from regard.train.advice import Facts
from regard.train.adviser import Adviser
from regard.train.curves import curves
from regard.train.log import MetricsLog, read_metrics
from regard.train.loop import STOPPED, Trainer
from regard.train.memory import BYTES_TO_TRAIN, report_out_of_memory, require_memory
from regard.train.monitor import Quiet, Watcher
from regard.train.optimiser import same_rate
from regard.train.parallel.experts import ExpertParallel, choose_expert_parallel, held_params, refuse_expert_parallel
from regard.train.parallel.model import Parallel, choose_parallel, gpu_memory, refuse_none
from regard.train.parallel.processes import World, join_world
from regard.train.parallel.watchdog import Watchdog
from regard.train.precision import Precision, PrecisionSetting, choose_precision
from regard.train.signals import Stopped, StopRequest
from regard.train.trackers import open_trackers


def train_run(recipe: Recipe, out: Path, watcher: Watcher, resume: bool = False, data_changed: bool = False) -> str:
    """Trains into a folder; with `resume`, from its newest whole checkpoint on. Says why it ended.

    Whatever can refuse does so before the first step, and then leaves no new folder behind. Data, tokenizer and
    settings that changed since the checkpoint are refused too, unless `data_changed` accepts them.
    """
    recipe = recipe.but(defaults="fixed")  # as it is now, so that the run repeats
    recipe.check()
    world = join_world(recipe.train.device, alone=recipe.train.parallel == "fsdp")
    refuse_none(recipe.train.parallel, world.size)
    _expert_parallel(recipe, world)
    watcher = Adviser(watcher if world.is_main else Quiet())
    if world.is_main:
        check_at_once(recipe)
    stop, trainers = StopRequest(), list[Trainer]()
    begun = lambda: any(trainer.spent.steps for trainer in trainers)  # noqa: E731
    with report_out_of_memory(), fresh_folder(out, world.rank, begun):
        _refuse_mixing(out, resume)
        saved, problems = _newest(out / CHECKPOINTS_FOLDER) if resume else (None, [])
        resumption = Resumption.of(out, saved, data_changed)
        resumption.check_recipe(recipe)
        refuse_unused(recipe, resumption.before)
        world.barrier()  # before one of us makes this folder a run's
        preparation = Preparation(recipe.task, recipe.data, recipe.tokenizer, out / CACHE_FOLDER, model=recipe.model)
        start = Run.open(Path(recipe.start.run), "cpu", recipe.start.which) if recipe.start and not saved else None
        preparation.words = _words(recipe, out, start, resumed=saved is not None) if world.is_main else None
        task = _task(recipe, preparation, resumption, world, start)
        before = saved.state.get("precision") if saved else None
        precision = _precision(recipe.train.precision, before, world)
        splits = _splits(recipe, task, preparation, world)
        preparation.notes += [*resumption.check_data(splits), *resumption.settings_changed(recipe)]
        _save_words(preparation, out, resumed=saved is not None)
        trainer = _trainer(
            recipe, task, preparation, splits, out, world, watcher, start, precision, lambda: stop.requested
        )
        trainers.append(trainer)
        for sentence in dict.fromkeys([*problems, *preparation.notes]):
            watcher.say(sentence)
        if saved is not None:
            _restore(trainer, saved, out, resumption.same_validation(splits))
            watcher.say(f"resumed at step {saved.step:,}")
        elif resume:
            watcher.say(f"{out}: no checkpoint yet, so the run begins at its beginning")
        if world.is_main:
            _write_beginning(recipe, out, new=saved is None)
        world.barrier()
        resumed = (saved.step if saved else 0) if resume else None
        watcher.facts = _facts(recipe, splits)
        with _log(recipe, out, resumed) if world.is_main else Quiet() as log, stop, Watchdog(world.rank, world.size):
            trainer.log = log
            watcher.started(trainer.metric, read_metrics(out / METRICS_FILE) if world.is_main and resumed else [])
            ended = trainer.fit()
        if world.is_main:
            if ended != STOPPED:
                write_baselines(out, _baselines(recipe, task, splits, preparation, trainer.metric))
            _write_summaries(recipe, task, trainer, out, watcher)
        return ended


def _newest(folder: Path) -> tuple[checkpoint.Checkpoint | None, list[str]]:
    """The newest whole checkpoint, and a sentence for each broken one, the best among them."""
    newest, problems = checkpoint.newest(folder)
    saved = checkpoint.load(newest) if newest else None
    if saved is not None and (problem := checkpoint.broken_best(folder, saved.step)):
        problems.append(f"{problem}; the best checkpoint is chosen anew, from step {saved.step:,} on")
        saved.state.update(best=None, best_step=saved.step, since_best=0)
    return saved, problems


def _facts(recipe: Recipe, splits: Mapping[str, Store]) -> Facts:
    """What is known of the data; of plain text, tokens are counted."""
    train, valid = splits["train"], splits["valid"]
    source = recipe.data.split("train")
    running = source.content == "text"
    return Facts(
        source.unit, len(train), len(valid),
        tokens=_tokens(train) if running else None, valid_tokens=_tokens(valid) if running else None,
        left_out=train.skipped, cut=train.cut, started=recipe.start is not None,
    )  # fmt: skip


def _baselines(
    recipe: Recipe, task: Task, splits: Mapping[str, Store], preparation: Preparation, metric: str
) -> list[Baseline]:
    """What trivial answers score on the validation data, to hold the model against."""
    copies = recipe.task.kind == "translation" and needs_text(metric)
    frequencies = trivial_baseline(task, splits["train"], splits["valid"])
    return [frequencies, *([copy_baseline(recipe, preparation.base)] if copies else [])]


def _write_summaries(recipe: Recipe, task: Task, trainer: Trainer, out: Path, watcher: Watcher) -> None:
    """The picture and the model card; a run is finished without them, whatever keeps them from being written."""
    title = f"{out.absolute().name}: {recipe.task.kind.replace('_', ' ')}"
    drawn = lambda: curves(out / METRICS_FILE, out / CURVES_FILE, title, trainer.metric, read_baselines(out))  # noqa: E731
    for name, write in (
        (CURVES_FILE, drawn),
        (CARD_FILE, lambda: write_card(out, recipe, task, trainer)),
    ):
        try:
            write()
        except Exception as error:
            watcher.say(f"{out / name} could not be written ({error}); the trained model is whole")


def _restore(trainer: Trainer, saved: checkpoint.Checkpoint, out: Path, same_validation: bool) -> None:
    """Goes back to a checkpoint; RunError where it was not written by a run like this one."""
    try:
        trainer.restore(saved, same_validation)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise RunError(
            f"{out / CHECKPOINTS_FOLDER}: step {saved.step} was not saved by a run with these settings ({error}); "
            "resume with the run's own recipe, or start from it in a new --out with model.from"
        ) from None


def _log(recipe: Recipe, out: Path, resumed: int | None) -> MetricsLog:
    trackers = open_trackers(recipe.train.track, out, recipe.tree(), resumed)
    return MetricsLog(out / METRICS_FILE, resumed=resumed, trackers=trackers)


def _refuse_mixing(out: Path, resume: bool) -> None:
    """A folder holds one run: a new one needs an empty folder."""
    if not resume and (is_run(out) or list_checkpoints(out / CHECKPOINTS_FOLDER)):
        raise RunError(f"{out}: a run is here already; go on with --resume, or choose another --out")


def _task(recipe: Recipe, preparation: Preparation, resumption: Resumption, world: World, start: Run | None) -> Task:
    """The task with its vocabularies: learnt by the first process or taken over from the start, read by all.

    Without a checkpoint they are learnt anew: the data may have changed since another process learnt them.
    """
    out = resumption.out
    own = out if resumption.saved is not None else out / NEW_VOCABULARY_FOLDER
    if world.is_main and own != out:
        known = None
        if recipe.start is not None and start is not None:
            recipe.start.require_tokenizer(recipe.tokenizer, start.recipe.tokenizer)
            known = recipe.start.tokenizers(start.task.vocabularies.tokenizers, recipe.task.texts)
        vocabularies = preparation.learn(known)
        needed = sum(len(tokenizer.core.to_str()) for tokenizer in vocabularies.tokenizers.values())
        shutil.rmtree(own, ignore_errors=True)
        with report_disk_errors("the vocabulary", out, needed):
            own.mkdir()
            vocabularies.save(own)
            if measured := preparation.measure_sources():
                measured.save(own)
    world.barrier()
    vocabularies = read_vocabularies(recipe, own)
    preparation.notes += resumption.check_vocabulary(vocabularies)
    task = recipe.task.task(vocabularies)
    _refuse_unknown_best(recipe, task)
    return task


def _words(recipe: Recipe, out: Path, start: Run | None, resumed: bool) -> TrainingWords | None:
    """What takes in the words of the training texts, beside those of the run that this one starts from.

    None where that run, or the one that goes on, does not know its own.
    """
    if recipe.task.reads is None:
        return None
    before = out if resumed else start.folder if start is not None else None
    if before is None:
        return TrainingWords()
    known = TrainingWords.load(before)
    return None if known is None else known.grown()


def _save_words(preparation: Preparation, out: Path, resumed: bool) -> None:
    """Keeps them beside the vocabularies; a run that goes on with the same data has them already."""
    if preparation.words is None or (resumed and not preparation.has_read):
        return
    preparation.read_words()
    with report_disk_errors("the training words", out, 0):
        preparation.words.save(out if resumed else out / NEW_VOCABULARY_FOLDER)


def _write_beginning(recipe: Recipe, out: Path, new: bool) -> None:
    """New vocabularies, then the recipe in force: where a recipe stands, nothing else is missing."""
    text = dump_toml(recipe.tree()).encode()
    if new:
        with report_disk_errors("the vocabulary", out, 0):
            for file in (out / NEW_VOCABULARY_FOLDER).iterdir():
                file.replace(out / file.name)
            (out / NEW_VOCABULARY_FOLDER).rmdir()
    if not (out / RECIPE_FILE).is_file() or (out / RECIPE_FILE).read_bytes() != text:
        with report_disk_errors("the recipe", out, len(text)), atomic_writer(out / RECIPE_FILE) as stream:
            stream.write(text)


def _precision(setting: PrecisionSetting, before: PrecisionSetting | None, world: World) -> Precision:
    """The format of matrix products: as set, as before in a run that goes on, or as the first process measures."""
    if setting != "auto":
        return choose_precision(setting, world.device)
    if before is not None:
        return replace(choose_precision(before, world.device), reason=f"{before}, as before")
    chosen = choose_precision("auto", world.device) if world.is_main else None
    half = world.broadcast(float(chosen is not None and chosen.name == "bfloat16"))
    return chosen or choose_precision("bfloat16" if half else "float32", world.device)


def _refuse_unknown_best(recipe: Recipe, task: Task) -> None:
    """Before the first step: at the first validation, what was trained until then would be lost."""
    best = recipe.train.best
    if best is None:
        return
    if needs_text(best) and task.verb != "translate":
        raise ConfigError("train.best", f"'{best}' needs a task that writes, got {recipe.task.kind}")
    generated = filter(needs_text, recipe.task.scores_on(recipe.data.split("valid")))
    known = {*task.summarise(Counter()), *generated}
    if best not in known:
        raise ConfigError("train.best", f"the validation has no metric '{best}'; {nearest(best, known)}")


def _splits(recipe: Recipe, task: Task, preparation: Preparation, world: World) -> dict[str, Store]:
    """The encoded examples of training and validation: encoded by the first process, then read by the others."""
    first: dict[str, Store] = {}
    if world.is_main:
        first["valid"] = preparation.open(task, "valid")
        check_test_data(recipe, task, preparation)
        first["train"] = preparation.open(task, "train", training=True)
    world.barrier()
    return first or {"valid": preparation.open(task, "valid"), "train": preparation.open(task, "train", training=True)}


def _trainer(
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
) -> Trainer:
    """What trains the model, once everything that it will need is known to work; it has no log yet."""
    divided_among = _expert_parallel(recipe, world)
    config = recipe.train.but(parallel=_parallel(recipe, task, world, divided_among), expert_parallel=divided_among)
    batching = recipe.task.batching(recipe.data)
    store = splits["train"]
    batches = batching.build(store, tokens_per_batch=config.tokens_per_batch, seed=recipe.seed)
    valid = measuring_batches(splits["valid"], batching, config.tokens_per_batch)
    require_memory(task.num_params(recipe.model) // world.size, world.device, BYTES_TO_TRAIN)
    torch.manual_seed(recipe.seed)
    model = task.build(recipe.model)
    if recipe.start is not None:
        known = start.task.vocabularies if start is not None else None
        said = [recipe.start.load(model, start.model, task.vocabularies, known)] if start is not None else []
        for sentence in [*said, *recipe.start.hold(model)]:
            watcher.say(sentence)
    if world.is_main:
        if task.verb in ("translate", "generate"):
            limit = task.generator(model, torch.device("cpu"), None, preparation.base).limit(recipe.usual_search)
            preparation.notes += [limit] if limit else []
        alone = config.parallel != "fsdp" and divided_among == 1
        try_validation(recipe, task, model.to(world.device) if alone else model, valid, preparation, precision.autocast)
        if (sentence := check_disk(out, config, task.num_params(recipe.model))) is not None:
            watcher.say(sentence)
    divided = ExpertParallel(model, world, divided_among)
    if config.parallel != "fsdp":  # which moves each part there by itself, once it is cut up
        model = model.to(world.device)
    several = f" × {world.size} ({config.parallel})" if config.parallel != "none" else ""
    several += f", experts divided among {divided_among}" if divided_among > 1 else ""
    watcher.say(
        f"{_amount(store, recipe)}, {task.num_params(recipe.model):,} parameters, {world.device}{several}, "
        f"{precision.name}"
    )
    watcher.detail(f"data type of matrix products: {precision.reason}")

    steps = limited_steps(valid, splits["valid"], config.valid_limit)

    def validate(candidate: nn.Module) -> dict[str, float]:
        metrics = measure(task, candidate, valid, world.device, lambda _: _heed(stop), steps)
        return metrics | _generated_scores(recipe, task, candidate, preparation, world.device, lambda: _heed(stop))

    return Trainer(
        config, task, model, batches, validate, out,
        seed=recipe.seed, world=world, precision=precision, watcher=watcher, log=Quiet(), stop=stop,
        rates=recipe.start.rates(model) if recipe.start else same_rate, expert_parallel=divided,
        fingerprint=Fingerprint.of(recipe, task.vocabularies, splits).tree(),
    )  # fmt: skip


def _amount(store: Store, recipe: Recipe) -> str:
    """How much training data there is; of plain text in tokens too, which is what a language model predicts."""
    source = recipe.data.split("train")
    amount = counted(len(store), source.unit)
    if source.content != "text":
        return amount
    return f"{counted(_tokens(store), 'token')} in {amount}"


def _tokens(store: Store) -> int:
    return sum(int(lengths.sum()) for lengths in store.lengths.values())


def _parallel(recipe: Recipe, task: Task, world: World, divided_among: int) -> Parallel:
    """How the processes share the work; refused where the task cannot be cut up so."""
    held = held_params(recipe.model, task.num_params, divided_among)
    chosen = choose_parallel(recipe.train.parallel, world.size, held, gpu_memory(world.device))
    if chosen == "fsdp" and getattr(recipe.task, "reward", None) is not None:
        raise ConfigError(
            "train.parallel",
            "task.reward writes texts of different lengths in each process, and fsdp needs all to compute in step; "
            "choose ddp",
        )
    if chosen == "fsdp" and getattr(recipe.task, "adversarial", 0.0):
        raise ConfigError(
            "train.parallel", "task.adversarial reads each batch twice, and fsdp forgets weights in between; choose ddp"
        )
    if chosen == "fsdp" and recipe.train.optimiser.kind == "adafactor":
        raise ConfigError(
            "train.optimiser",
            "adafactor keeps numbers for whole rows and columns, and fsdp cuts these up; choose adamw, muon or sgd, "
            "or train.parallel=ddp",
        )
    return chosen


def _expert_parallel(recipe: Recipe, world: World) -> int:
    """Among how many processes experts are divided; refused where they cannot be."""
    chosen = choose_expert_parallel(recipe.train.expert_parallel, world.size, recipe.model)
    if chosen > 1:
        refuse_expert_parallel(recipe.train.optimiser.kind, getattr(recipe.task, "reward", None) is not None)
    return chosen


def _heed(stop: Callable[[], str | None]) -> None:
    """A validation may take long, and who asks to stop may not wait."""
    if stop() is not None:
        raise Stopped


def _generated_scores(
    recipe: Recipe,
    task: Task,
    model: nn.Module,
    preparation: Preparation,
    device: torch.device,
    watch: Callable[[], None],
) -> dict[str, float]:
    """Scores of what the model generates, where one of them chooses the best checkpoint or some are to be generated."""
    writes = task.verb == "translate" and recipe.train.score_limit
    if not needs_text(recipe.train.best) and not writes:
        return {}
    learning = model.training
    model.eval()
    try:
        return score_generated(recipe, task, model, preparation, device, watch)
    finally:
        model.train(learning)
