"""Trains a run: from a recipe to a run folder, or on from its newest checkpoint."""

import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from regard.config import dump_toml
from regard.data.store import Store
from regard.errors import RunError
from regard.files.atomic import report_disk_errors, write_atomic
from regard.files.lock import RunLock
from regard.files.run_folder import (
    CACHE_FOLDER,
    CHECKPOINTS_FOLDER,
    LOCK_FILE,
    METRICS_FILE,
    NEW_VOCABULARY_FOLDER,
    PLUGINS_FOLDER,
    RECIPE_FILE,
    WRITTEN,
    is_run,
    list_checkpoints,
)
from regard.nn.fast.sdpa import disable_cudnn_attention
from regard.run.conclusion import write_baselines, write_summaries, write_thresholds
from regard.run.preflight import check_at_once, check_test_data
from regard.run.recipe import Recipe
from regard.run.resume import Resumption, latest_checkpoint, restore
from regard.run.trained import Run, read_vocabularies
from regard.run.trainer import build_trainer, count_tokens, expert_parallel_size, precision_of, refuse_unknown_best
from regard.run.unused_settings import refuse_unused
from regard.tasks import Task
from regard.tasks.prepare import Preparation
from regard.text.training_words import TrainingWords
from regard.train.advice import Adviser, Facts
from regard.train.log import MetricsLog, open_trackers, read_metrics
from regard.train.loop import STOPPED, Trainer
from regard.train.memory import report_out_of_memory
from regard.train.monitor import Quiet, Watcher
from regard.train.parallel.model import refuse_none
from regard.train.parallel.processes import World, join_world
from regard.train.parallel.watchdog import Watchdog
from regard.train.signals import StopRequest


def train_run(
    recipe: Recipe,
    out: Path,
    watcher: Watcher,
    resume: bool = False,
    data_changed: bool = False,
    stop: StopRequest | None = None,
) -> str:
    """Trains into a folder; with `resume`, from its newest whole checkpoint on. Returns why it ended.

    Whatever can be refused is refused before the first step, and then no new folder is left behind. Data, tokenizer and
    settings that changed since the checkpoint are refused too, unless `data_changed` accepts them.
    """
    recipe = recipe.but(defaults="fixed")  # as resolved now, so that the run can be repeated
    recipe.check()
    world = join_world(recipe.train.device, alone=recipe.train.parallel == "fsdp")
    disable_cudnn_attention()
    refuse_none(recipe.train.parallel, world.size)
    expert_parallel_size(recipe, world)
    watcher = Adviser(watcher if world.is_main else Quiet())
    if world.is_main:
        check_at_once(recipe)
    stop, trainers = stop or StopRequest(), list[Trainer]()

    def begun() -> bool:
        return any(trainer.spent.steps for trainer in trainers)

    with report_out_of_memory(), locked_folder(out, world.rank, begun):
        refuse_mixing(out, resume)
        saved, problems = latest_checkpoint(out / CHECKPOINTS_FOLDER) if resume else (None, [])
        resumption = Resumption.of(out, saved, data_changed)
        resumption.check_recipe(recipe)
        refuse_unused(recipe, resumption.before)
        world.barrier()  # before the main process writes into the folder
        preparation = Preparation(recipe.task, recipe.data, recipe.tokenizer, out / CACHE_FOLDER, model=recipe.model)
        start = Run.open(Path(recipe.start.run), "cpu", recipe.start.which) if recipe.start and not saved else None
        preparation.words = _training_words(recipe, out, start, resumed=saved is not None) if world.is_main else None
        task = _task(recipe, preparation, resumption, world, start)
        precision = precision_of(recipe.train.precision, saved.state.get("precision") if saved else None, world)
        splits = _splits(recipe, task, preparation, world)
        preparation.notes += [*resumption.check_data(splits), *resumption.settings_changed(recipe)]
        _save_training_words(preparation, out, resumed=saved is not None)
        trainer = build_trainer(
            recipe, task, preparation, splits, out, world, watcher, start, precision, lambda: stop.requested,
            saved.state.get("packed", False) if saved else None,
        )  # fmt: skip
        trainers.append(trainer)
        for sentence in dict.fromkeys([*problems, *preparation.notes]):
            watcher.say(sentence)
        if saved is not None:
            restore(trainer, saved, out, resumption.same_validation(splits))
            watcher.say(f"resumed at step {saved.step:,}")
        elif resume:
            watcher.say(f"{out}: no checkpoint yet, so training starts from the beginning")
        if world.is_main:
            _write_vocabularies_and_recipe(recipe, out, new=saved is None)
        world.barrier()
        resumed = (saved.step if saved else 0) if resume else None
        watcher.facts = _facts(recipe, splits)
        with _log(recipe, out, resumed) if world.is_main else Quiet() as log, stop, Watchdog(world.rank, world.size):
            trainer.log = log
            watcher.started(trainer.metric, read_metrics(out / METRICS_FILE) if world.is_main and resumed else [])
            ended = trainer.fit()
        if world.is_main:
            if ended != STOPPED:
                write_baselines(out, recipe, task, splits, preparation.base, trainer.metric)
                write_thresholds(out, task, splits["valid"], recipe.train.tokens_per_batch)
            write_summaries(out, recipe, task, trainer, watcher)
        return ended


@contextmanager
def locked_folder(folder: Path, rank: int, begun: Callable[[], bool]) -> Iterator[None]:
    """Holds the lock of a run folder; an error before training has `begun` removes what this run wrote there."""
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    with RunLock(folder, rank=rank):
        before = {path.name for path in folder.iterdir()} if rank == 0 else set()  # nobody else writes under the lock
        try:
            yield
        except BaseException:
            if rank == 0 and not begun():
                with suppress(OSError):  # the first error is the one to report
                    _remove_new(folder, before, made)
            raise


def _remove_new(folder: Path, before: set[str], made: list[Path]) -> None:
    for path in {path for name in WRITTEN for path in folder.glob(name)}:
        if path.name not in before:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    if made and [path.name for path in folder.iterdir()] == [LOCK_FILE]:
        (folder / LOCK_FILE).unlink()
        for path in made:  # the innermost first; one that holds something stays
            path.rmdir()


def refuse_mixing(out: Path, resume: bool) -> None:
    """A folder holds one run: a new one needs an empty folder."""
    if not resume and (is_run(out) or list_checkpoints(out / CHECKPOINTS_FOLDER)):
        raise RunError(f"{out}: a run is here already; continue it with --resume, or choose another --out")


def _log(recipe: Recipe, out: Path, resumed: int | None) -> MetricsLog:
    trackers = open_trackers(recipe.train.track, out, recipe.tree(), resumed)
    return MetricsLog(out / METRICS_FILE, resumed=resumed, trackers=trackers)


def _facts(recipe: Recipe, splits: Mapping[str, Store]) -> Facts:
    """What is known of the data; of plain text, tokens are counted."""
    train, valid = splits["train"], splits["valid"]
    source = recipe.data.split("train")
    is_text = source.content == "text"
    return Facts(
        source.unit, len(train), len(valid),
        tokens=count_tokens(train) if is_text else None, valid_tokens=count_tokens(valid) if is_text else None,
        left_out=train.skipped, cut=train.cut, started=recipe.start is not None,
    )  # fmt: skip


# Vocabularies and data


def _task(recipe: Recipe, preparation: Preparation, resumption: Resumption, world: World, start: Run | None) -> Task:
    """The task with its vocabularies: trained by the main process, or taken over from the start; read by all.

    Without a checkpoint they are trained anew: the data may have changed since an earlier attempt.
    """
    out = resumption.out
    folder = out if resumption.saved is not None else out / NEW_VOCABULARY_FOLDER
    if world.is_main and folder != out:
        taken_over = None
        if recipe.start is not None and start is not None:
            recipe.start.require_tokenizer(recipe.tokenizer, start.recipe.tokenizer)
            taken_over = recipe.start.tokenizers(start.tokenizers, recipe.task.texts)
        vocabularies = preparation.learn(taken_over)
        needed = sum(len(tokenizer.core.to_str()) for tokenizer in vocabularies.tokenizers.values())
        shutil.rmtree(folder, ignore_errors=True)
        with report_disk_errors("the vocabulary", out, needed):
            folder.mkdir()
            vocabularies.save(folder)
            if measured := preparation.measure_sources():
                measured.save(folder)
    world.barrier()
    vocabularies = replace(read_vocabularies(recipe, folder), thresholds={})  # those are tuned when training ends
    preparation.notes += resumption.check_vocabulary(vocabularies)
    task = recipe.task.task(vocabularies)
    refuse_unknown_best(recipe, task)
    return task


def _splits(recipe: Recipe, task: Task, preparation: Preparation, world: World) -> dict[str, Store]:
    """The encoded examples of training and validation: encoded by the main process, then read by the others."""
    encoded: dict[str, Store] = {}
    if world.is_main:
        encoded["valid"] = preparation.open(task, "valid")
        check_test_data(recipe, task, preparation)
        encoded["train"] = preparation.open(task, "train", training=True)
    world.barrier()
    return encoded or {
        "valid": preparation.open(task, "valid"),
        "train": preparation.open(task, "train", training=True),
    }


def _training_words(recipe: Recipe, out: Path, start: Run | None, resumed: bool) -> TrainingWords | None:
    """Collects the words of the training texts, beside those of the run that this one starts from.

    None where that run, or the one that resumes, does not know its own.
    """
    if recipe.task.reads is None:
        return None
    before = out if resumed else start.folder if start is not None else None
    if before is None:
        return TrainingWords()
    words = TrainingWords.load(before)
    return None if words is None else words.grown()


def _save_training_words(preparation: Preparation, out: Path, resumed: bool) -> None:
    """Beside the vocabularies; a run that resumes with the same data has them already."""
    if preparation.words is None or (resumed and not preparation.has_read):
        return
    preparation.read_words()
    with report_disk_errors("the training words", out, 0):
        preparation.words.save(out if resumed else out / NEW_VOCABULARY_FOLDER)


def _write_vocabularies_and_recipe(recipe: Recipe, out: Path, new: bool) -> None:
    """The recipe last: where there is one, nothing else is missing."""
    if new:
        with report_disk_errors("the vocabulary", out, 0):
            for file in (out / NEW_VOCABULARY_FOLDER).iterdir():
                file.replace(out / file.name)
            (out / NEW_VOCABULARY_FOLDER).rmdir()
    for plugin in map(Path, (plugin.file for plugin in recipe.plugins)):
        (out / PLUGINS_FOLDER).mkdir(exist_ok=True)
        if not (out / PLUGINS_FOLDER / plugin.name).exists():
            write_atomic(out / PLUGINS_FOLDER / plugin.name, plugin.read_text(encoding="utf-8"))
    text = dump_toml(recipe.tree())
    if not is_run(out) or (out / RECIPE_FILE).read_bytes() != text.encode():
        write_atomic(out / RECIPE_FILE, text)
