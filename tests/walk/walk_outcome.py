"""What a recipe does: trained for a few steps in a folder of its own, all that can be measured of it in one table."""

import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import torch

from regard import api
from regard.data.batches import Batch
from regard.data.source_reader import read_examples
from regard.errors import RegardError
from regard.run import training
from regard.run.recipe import Recipe, resolve_recipe
from regard.run.unused_settings import refuse_unused
from regard.tasks import Task
from regard.tasks.prepare import Preparation
from regard.train.loop import Trainer
from regard.train.monitor import Quiet

TIMES = ("seconds", "tokens_per_second", "flops_per_second", "memory", "share_of_peak")
COPIES = ("recipe.toml", "metrics.jsonl", "tokenizer")
"""Files that hold settings themselves, and so would differ in any case."""
PROMPTS = ["The dog", "cat sees Water zzz ."]


@dataclass
class Outcome:
    """How a recipe ended: the sentence that refused it, or what it made."""

    refusal: str | None = None
    kind: str = ""
    made: dict[str, Any] = field(default_factory=dict)
    idle: list[str] = field(default_factory=list)
    """Parameters that no gradient reaches."""
    text: str | None = None

    def same(self, other: "Outcome") -> bool:
        """Whether nothing that was measured in training differs."""
        return (self.refusal, self.made) == (other.refusal, other.made)

    def differences(self, other: "Outcome") -> list[str]:
        """The names of what differs."""
        return [name for name in {**self.made, **other.made} if self.made.get(name) != other.made.get(name)]


class Heard(Quiet):
    """A watcher that keeps what it is told."""

    def __init__(self) -> None:
        self.sentences: list[str] = []

    def say(self, sentence: str) -> None:
        self.sentences.append(sentence)


@contextmanager
def _quick(trainers: list[Trainer]) -> Iterator[None]:
    """Training without pictures, cards and waiting for disks; the trainer is kept to be looked at."""
    make = training.build_trainer

    def kept(*args: Any, **settings: Any) -> Trainer:
        trainers.append(make(*args, **settings))
        return trainers[-1]

    with (
        mock.patch.object(training, "build_trainer", kept),
        mock.patch.object(training, "write_summaries", return_value=None),
        mock.patch.object(os, "fsync", return_value=None),
    ):
        yield


def train(tree: dict[str, Any], corpus: Path) -> tuple[Outcome, Path]:
    """Trains a recipe; what came of it, and the folder of the run."""
    folder = Path(tempfile.mkdtemp(dir=corpus.parent))
    out, heard, trainers = folder / "run", Heard(), list[Trainer]()
    try:
        recipe = resolve_recipe(tree)
        where = corpus / recipe.data.folder if recipe.data.folder else corpus
        recipe = recipe.but(data=recipe.data.but(folder=str(where)))
        with _quick(trainers):
            ended = training.train_run(recipe, out, heard)
    except RegardError as error:
        return Outcome(refusal=_plain(str(error), corpus), kind=type(error).__name__), out
    made = {"ended": ended, "said": [_plain(sentence, corpus) for sentence in heard.sentences]}
    made |= _files(out) | _lines(out)
    idle, saved = _gradients(trainers[-1])
    made["saved for the gradient"] = saved
    return Outcome(made=made, idle=idle), out


def _plain(sentence: str, corpus: Path) -> str:
    return re.sub(rf"{re.escape(str(corpus.parent))}\S*?(?=[:;,]|$| )", "", sentence)


def _files(out: Path) -> dict[str, Any]:
    made = {}
    for file in sorted(out.rglob("*")):
        name = str(file.relative_to(out))
        if file.is_symlink():
            made[name] = os.readlink(file)
        if "cache" in name or name.startswith(COPIES) or not file.is_file():
            continue
        whole = file.suffix == ".safetensors" or file.parent == out
        made[name] = hashlib.sha256(file.read_bytes()).hexdigest() if whole else "there"
    return made


def _lines(out: Path) -> dict[str, Any]:
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    return {"lines": [{name: value for name, value in line.items() if name not in TIMES} for line in lines]}


@dataclass
class Prepared:
    """A task with its vocabularies and one batch of it, which models of many settings share."""

    task: Task
    batch: Batch

    @classmethod
    def of(cls, recipe: Recipe, corpus: Path) -> "Prepared":
        """Reads and encodes the data of a recipe."""
        data = recipe.data.but(folder=str(corpus))
        cache = Path(tempfile.mkdtemp(dir=corpus.parent))
        preparation = Preparation(recipe.task, data, recipe.tokenizer, cache, model=recipe.model)
        task = recipe.task.task(preparation.learn())
        store = preparation.open(task, "train", training=True)
        batches = recipe.task.batching(data).build(store, tokens_per_batch=recipe.train.tokens_per_batch, seed=1)
        return cls(task, batches.batch(0, 0))

    def outcome(self, recipe: Recipe) -> Outcome:
        """The losses and gradients of a model that was never trained: much sooner than a whole training."""
        try:
            recipe.check()
            refuse_unused(recipe)
            torch.manual_seed(1)
            model = self.task.build(recipe.model)
            inputs = self.task.inputs(self.batch, recipe.model, torch.device("cpu"))
            losses = self.task.losses(model, inputs)
        except RegardError as error:
            return Outcome(refusal=str(error), kind=type(error).__name__)
        losses.objective.backward()
        slopes = {name: (tuple(weight.shape), _size(weight.grad)) for name, weight in model.named_parameters()}
        model.eval()
        with torch.no_grad():
            measured = self.task.measure(model, inputs)
        made = {
            "loss": float(losses.objective.detach()),
            "flops": inputs.flops,
            "gradients": slopes,
            "measured": measured,
        }
        return Outcome(made=made, idle=[name for name, (_, size) in slopes.items() if not size])


def _size(gradient: torch.Tensor | None) -> float:
    return 0.0 if gradient is None else float(gradient.abs().sum())


def _gradients(trainer: Trainer) -> tuple[list[str], int]:
    """Parameters that a loss does not reach, and the numbers that autograd keeps for the gradient of one batch."""
    model, task, kept = trainer.model, trainer.task, [0]

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        kept[0] += tensor.numel()
        return tensor

    model.train()
    model.zero_grad(set_to_none=True)
    torch.manual_seed(0)
    batch = trainer.batches.batch(0, 0)
    with trainer.precision.autocast(), torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        loss = task.loss(model, task.inputs(batch, model.config, torch.device("cpu")))
    saved = kept[0]
    loss.backward()
    idle = [name for name, weight in model.named_parameters()
            if weight.requires_grad and (weight.grad is None or not bool(weight.grad.ne(0).any()))]  # fmt: skip
    return idle, saved


def use(outcome: Outcome, out: Path) -> None:
    """Adds what the trained model says, and how well it does on the test data."""
    if outcome.refusal is not None or outcome.text is not None:
        return
    said: list[Any] = []
    with mock.patch.object(os, "fsync", return_value=None):
        try:
            run = api.load(out, "cpu")
            said.append(_answers(run))
            if run.recipe.data.test is not None:
                examples = read_examples(run.source("test"), Path(run.recipe.data.folder or ""))
                scored = api.evaluate(run, "test")
                said.append([run.task.row(example) for example in examples])
                said += [scored.metrics, getattr(scored, "signature", None), getattr(scored, "notes", None)]
        except RegardError as error:
            said.append(str(error).replace(str(out), ""))
    outcome.text = repr(said)


def _answers(run: Any) -> object:
    if run.recipe.task.kind.startswith("image_"):
        base = Path(run.recipe.data.folder)
        files = [str(file) for file in sorted(base.rglob("test-images/*/*.png"))[:4]]
        return (
            run.task.classify(run.model, files, run.device)
            if run.task.verb == "classify"
            else api.translate(run, files)
        )
    if run.task.verb == "classify":
        return run.task.classify(run.model, PROMPTS, run.device, run.longest, True)
    if run.task.verb == "translate":
        return api.translate(run, PROMPTS)
    if run.task.verb == "generate":
        return api.generate(run, PROMPTS)
    return run.task.fill(run.model, ["The <mask> ."], run.device)


def forget(out: Path) -> None:
    """Removes what a recipe made."""
    shutil.rmtree(out.parent, ignore_errors=True)


__all__ = ["Outcome", "Recipe", "forget", "train", "use"]
