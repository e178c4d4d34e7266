"""The training loop: what happens at each step, and what a run needs to stop anywhere and go on exactly.

Which examples a step sees and which numbers dropout draws are pure functions of (seed, step), so a checkpoint needs no
state of any random generator, and any number of processes makes the same step.
"""

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Literal, Protocol

import torch
from pydantic import NonNegativeFloat, NonNegativeInt, PositiveInt
from torch import Tensor, nn

from regard.data.batches import Batch, Batches, StreamBatches
from regard.errors import Failure, RunError
from regard.tasks.base import Inputs, Task
from regard.train import checkpoint
from regard.train.average import MovingAverageConfig, average
from regard.train.budget import BudgetConfig, Spent
from regard.train.compiling import compile_blocks
from regard.train.distributed import Team
from regard.train.links import BEST, checkpoints, point
from regard.train.optimiser import AdamWConfig, OptimiserConfig, same_rate
from regard.train.precision import Precision, PrecisionSetting, clip_gradients, not_finite
from regard.train.schedule import NoamConfig, ScheduleConfig
from regard.train.trackers import TrackerName


class TrainConfig(BudgetConfig):
    """How the model is trained."""

    tokens_per_batch: PositiveInt = 4096
    """Tokens of a batch, all processes and parts of it together."""
    accumulate: PositiveInt = 1
    """Compute each batch in so many parts, one after another, to save memory; the result is the same."""
    optimiser: OptimiserConfig = AdamWConfig()
    """What changes the weights."""
    schedule: ScheduleConfig = NoamConfig()
    """Learning rate over time."""
    clip: NonNegativeFloat = 1.0
    """Largest norm of the gradient; longer ones are scaled down. 0: no limit."""
    precision: PrecisionSetting = "auto"
    """Number format of matrix products; weights are always float32."""
    compile: Literal["auto", "on", "off"] = "auto"
    """torch.compile; auto: on a GPU, for streams of text, which have one shape, and runs that earn back the time."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where to compute; auto: on a GPU if there is one."""
    save_every: PositiveInt = 500
    """Steps between checkpoints."""
    valid_every: PositiveInt | None = None
    """Steps between validations; those between checkpoints when left out."""
    log_every: PositiveInt = 50
    """Steps between lines of metrics.jsonl."""
    keep: PositiveInt = 2
    """Newest checkpoints that are kept, beside the best and the last."""
    best: str | None = None
    """Metric on the validation data that chooses the best checkpoint, such as loss, accuracy or bleu; the task's usual
    one when left out."""
    patience: PositiveInt | None = None
    """Stop after so many validations without a better one."""
    average: NonNegativeInt = 0
    """At the end, use the mean of the weights of so many last checkpoints, if it is better on the validation data."""
    moving_average: MovingAverageConfig | None = None
    """Keep a moving average of the weights and use it in their place."""
    track: tuple[TrackerName, ...] = ()
    """Show the run live in trackio, tensorboard or both, beside metrics.jsonl (pip install 'regard[track]')."""


class Watcher(Protocol):
    """Who is told how a run goes."""

    def step(self, line: Mapping[str, Any], progress: float) -> None:
        """A step was made."""

    def measured(self, line: Mapping[str, Any]) -> None:
        """The model was measured on the validation data."""

    def say(self, sentence: str) -> None:
        """Something a person should know."""


class Log(Protocol):
    """Where the numbers of a run are written."""

    def write(self, **line: Any) -> None:  # noqa: ANN401
        """Appends a line."""

    def sync(self) -> None:
        """Waits until all lines are safe."""


HIGHER_IS_BETTER = {"accuracy", "bleu", "chrf", "exact_match", "pronoun", "macro_f1", "rouge_l"}


class _Losses(nn.Module):
    """The loss as a module, so that a team can wrap it as one."""

    def __init__(self, task: Task, model: nn.Module) -> None:
        super().__init__()
        self.task, self.model = task, model

    def forward(self, inputs: Inputs) -> Tensor:
        return self.task.loss(self.model, inputs)


class Trainer:
    """One run: a model, its data, and how far it has come."""

    def __init__(
        self,
        config: TrainConfig,
        task: Task,
        model: nn.Module,
        batches: Batches,
        judge: Callable[[nn.Module], dict[str, float]],
        folder: Path,
        *,
        seed: int,
        team: Team,
        precision: Precision,
        watcher: Watcher,
        log: Log,
        stop: Callable[[], str | None] = lambda: None,
        rates: Callable[[str], float] = same_rate,
    ) -> None:
        self.config, self.task, self.model, self.batches, self.judge = config, task, model, batches, judge
        self.folder, self.seed, self.team, self.precision = folder, seed, team, precision
        self.watcher, self.log, self.stop = watcher, log, stop
        self.schedule = config.schedule.build(model.config.width)  # type: ignore[union-attr]
        self.optimiser = config.optimiser.build(model, 0.0, rates)
        self.moving = config.moving_average.build(model) if config.moving_average else None
        if self._compiles():
            compile_blocks(model)
        self.losses = team.wrap(_Losses(task, model))
        self.metric = config.best or task.best_metric
        self.spent = Spent()
        self.epoch, self.index = 0, 0
        self.best: float | None = None
        self.since_best = 0
        self._logged: dict[str, float] = {}

    def _compiles(self) -> bool:
        enough = (self.config.steps or math.inf) >= 500
        auto = self.team.device.type == "cuda" and enough and isinstance(self.batches, StreamBatches)
        return {"on": True, "off": False, "auto": auto}[self.config.compile]

    # The run as a whole

    def fit(self) -> str:
        """Trains until the budget is spent, patience ends or somebody asks to stop; says why it ended."""
        self.model.train()
        began = time.perf_counter() - self.spent.seconds
        ended = ""
        while not ended:
            line = self.step()
            self.spent.seconds = self.team.agree(time.perf_counter() - began)
            progress = self.spent.progress(self.config)
            asked = self.team.agree(float(self.stop() is not None))
            ended = "the budget is spent" if progress >= 1 else "stopped on request" if asked else ""
            self._report(line, progress, bool(ended))
            if not asked and (ended or self.spent.steps % (self.config.valid_every or self.config.save_every) == 0):
                self._validate()
                ended = ended or self._out_of_patience()
                self.spent.seconds = self.team.agree(time.perf_counter() - began)
            if ended or self.spent.steps % self.config.save_every == 0:
                self.save()
        if ended != "stopped on request" and self.config.average > 1:
            self._average()
        return ended

    def step(self) -> dict[str, Any]:
        """One change of the weights."""
        inputs = self._next_inputs()
        count = self.team.total(sum(part.count for part in inputs))
        self._seed()
        lr = self.schedule.rate(self.spent.steps + 1, self.spent.progress(self.config))
        self.optimiser.set_lr(lr)
        self.optimiser.zero_grad()
        total = torch.zeros((), device=self.team.device)
        for part in inputs:
            with self.precision.autocast():
                loss = self.losses(part) / count * (part.count > 0)
            (loss * self.team.size).backward()  # the team's gradients are averaged, and should be summed
            total += loss.detach()
        loss = torch.tensor(self.team.total(float(total))) if self.team.size > 1 else total
        pulse = clip_gradients(self.model.parameters(), self.config.clip or None, loss)
        if not pulse.finite:
            self._refuse_step(pulse.loss)
        self.optimiser.step()
        if self.moving:
            self.moving.update()
        self.spent.steps += 1
        self.spent.tokens += int(self.team.total(sum(part.tokens for part in inputs)))
        self.spent.flops += self.team.total(sum(part.flops for part in inputs))
        self._advance()
        return {"loss": pulse.loss, "lr": lr, "gradient_norm": pulse.norm}

    def _next_inputs(self) -> list[Inputs]:
        """This process's parts of the next batch.

        A batch may have fewer rows than parts. Alone, empty parts are left out; in a team, where all processes must
        compute equally often, a part of one row that counts for nothing stands in.
        """
        parts, all_parts = self.config.accumulate, self.config.accumulate * self.team.size
        made = []
        for number in range(self.team.rank * parts, (self.team.rank + 1) * parts):
            batch = self.batches.batch(self.epoch, self.index, number, all_parts)
            if len(batch.examples):
                made.append(self._inputs(batch))
            elif self.team.size > 1:
                stand_in = next(
                    other
                    for other in (self.batches.batch(self.epoch, self.index, n, all_parts) for n in range(all_parts))
                    if len(other.examples)
                )
                made.append(replace(self._inputs(stand_in), count=0, tokens=0, flops=0.0))
        return made

    def _inputs(self, batch: Batch) -> Inputs:
        return self.task.inputs(batch, self.model.config, self.team.device)

    def _advance(self) -> None:
        self.index += 1
        number = self.batches.num_batches(self.epoch)
        if self.index >= number:
            self.epoch, self.index = self.epoch + 1, 0
        self.spent.epochs = self.epoch + self.index / max(1, number)

    def _seed(self) -> None:
        """Dropout of a step is the same whether the run came here in one go or not."""
        torch.manual_seed((self.seed * 1_000_003 + self.spent.steps) * 4_096 + self.team.rank)

    def _refuse_step(self, loss: float) -> None:
        where = not_finite(self.model)
        batch = self.batches.batch(self.epoch, self.index)
        examples = ", ".join(str(number) for number in batch.examples[:8].tolist())
        raise Failure(
            f"step {self.spent.steps + 1}: the loss is {loss} and the gradient not finite in "
            f"{', '.join(where[:3]) or 'no single parameter'}; batch {self.index} of epoch {self.epoch} "
            f"(examples {examples}, …); the weights were not changed. Lower train.schedule.lr or look at these examples"
        )

    # What is told and kept

    def _report(self, line: dict[str, Any], progress: float, last: bool) -> None:
        """Tells the watcher at every step, and writes a line every so often."""
        spent = self.spent
        told = self._line("train", line)
        if self.team.leads:
            self.watcher.step(told, progress)
        if last or spent.steps % self.config.log_every == 0 or spent.steps == 1:
            if self.team.leads:
                self.log.write(**told)
            self._logged = {"seconds": spent.seconds, "tokens": spent.tokens, "flops": spent.flops}

    def _line(self, split: str, numbers: Mapping[str, float]) -> dict[str, Any]:
        """A line of metrics.jsonl; speeds are those since the last line about training."""
        spent, since = self.spent, self._logged
        seconds = max(1e-9, spent.seconds - since.get("seconds", 0.0))
        return {
            "step": spent.steps,
            "split": split,
            "epoch": round(spent.epochs, 4),
            "tokens": spent.tokens,
            "flops": spent.flops,
            "seconds": spent.seconds,
            "tokens_per_second": (spent.tokens - since.get("tokens", 0)) / seconds,
            "flops_per_second": (spent.flops - since.get("flops", 0)) / seconds,
            "lr": self.optimiser.lr,
            **numbers,
        }

    def _validate(self) -> None:
        """Measures the model, and remembers whether it is the best so far."""
        value = math.nan
        if self.team.leads:
            metrics = self._judged()
            line = self._line("valid", metrics)
            self.log.write(**line)
            self.watcher.measured(line)
            if self.metric not in metrics:
                known = ", ".join(sorted(metrics))
                raise RunError(f"train.best: the validation has no metric '{self.metric}'; known: {known}")
            value = metrics[self.metric]
        value = self.team.agree(value)
        self.since_best += 1
        if self.best is None or self._better(value, self.best):
            self.best, self.since_best = value, 0
            self._best_is_next = True

    _best_is_next = False

    def _judged(self) -> dict[str, float]:
        with self.precision.autocast():
            if self.moving is None:
                return self.judge(self.model)
            with self.moving.in_place():
                return self.judge(self.model)

    def _better(self, value: float, than: float) -> bool:
        return value > than if self.metric in HIGHER_IS_BETTER else value < than

    def _out_of_patience(self) -> str:
        patience = self.config.patience
        if patience is not None and self.since_best >= patience:
            return f"no better {self.metric} in {patience} validations"
        return ""

    # Checkpoints

    def state(self) -> dict[str, Any]:
        """All that is no tensor and that a run needs to go on."""
        return {
            "spent": asdict(self.spent),
            "epoch": self.epoch,
            "index": self.index,
            "best": self.best,
            "since_best": self.since_best,
            "metric": self.metric,
            "optimiser": self.optimiser.scalars(),
            "moving": self.moving.scalars() if self.moving else None,
            "serve": "moving" if self.moving else "model",
            "precision": self.precision.name,
        }

    def save(self, extra: Mapping[str, Mapping[str, Tensor]] | None = None, serve: str | None = None) -> None:
        """Writes a checkpoint; `serve` names the weights to be used from it, if not the usual ones."""
        if self.team.leads:
            self.log.sync()  # a checkpoint must not outlive the lines before it
            folder = self.folder / "checkpoints"
            further = {"moving": self.moving.tensors()} if self.moving else {}
            state = {**self.state(), **({"serve": serve} if serve else {})}
            weights = dict(self.model.named_parameters())
            checkpoint.save(
                folder, self.spent.steps, weights, self.optimiser.tensors(), state, {**further, **(extra or {})}
            )
            if self._best_is_next:
                point(folder, BEST, self.spent.steps)
            checkpoint.prune(folder, max(self.config.keep, self.config.average))
        self._best_is_next = False
        self.team.wait()

    def restore(self, saved: checkpoint.Checkpoint) -> None:
        """Goes back to where a checkpoint was written, to the bit."""
        put_weights(self.model, saved.model)
        self.optimiser.restore(saved.optimizer, saved.state["optimiser"])
        if self.moving:
            self.moving.restore(saved.extra["moving"], saved.state["moving"])
        state = saved.state
        self.spent = Spent(**state["spent"])
        self.epoch, self.index = state["epoch"], state["index"]
        self.best, self.since_best = state["best"], state["since_best"]
        self._logged = {"seconds": self.spent.seconds, "tokens": self.spent.tokens, "flops": self.spent.flops}

    def _average(self) -> None:
        """The mean of the last checkpoints' weights, used if the validation data likes it better."""
        mean, value = self._judged_average() if self.team.leads else ({}, math.nan)
        value = self.team.agree(value)
        if self.best is None or self._better(value, self.best):
            self.best, self._best_is_next = value, True
            self.save({"average": mean}, serve="average")

    def _judged_average(self) -> tuple[dict[str, Tensor], float]:
        chosen = [path for _, path in checkpoints(self.folder / "checkpoints")][: self.config.average]
        mean = average(checkpoint.load(path, ["model"]).model for path in chosen)
        own = {name: weight.detach().clone() for name, weight in self.model.named_parameters()}
        put_weights(self.model, mean)
        with self.precision.autocast():
            metrics = self.judge(self.model)
        put_weights(self.model, own)
        self.log.write(**self._line("valid", {"averaged": len(chosen), **metrics}))
        best = "" if self.best is None else f" (best checkpoint: {self.best:.4f})"
        self.watcher.say(f"mean of {len(chosen)} checkpoints: {self.metric} {metrics[self.metric]:.4f}{best}")
        return mean, metrics[self.metric]


@torch.no_grad()
def put_weights(model: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Copies weights into a model; RunError where names or sizes differ."""
    own = dict(model.named_parameters())
    for name in {*own, *weights}:
        if name not in own or name not in weights:
            side = "checkpoint" if name in own else "model"
            raise RunError(f"the {side} has no '{name}'; is this the run's own recipe?")
        if own[name].shape != weights[name].shape:
            raise RunError(f"'{name}': expected {tuple(own[name].shape)}, got {tuple(weights[name].shape)}")
        own[name].copy_(weights[name])
