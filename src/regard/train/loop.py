"""The training loop: what happens at each step, and what a run needs to stop anywhere and go on exactly.

Which examples a step sees and which numbers dropout draws are pure functions of (seed, step), so a checkpoint needs no
state of any random generator, and any number of processes makes the same step.
"""

import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from regard.data.batches import Batch, Batches
from regard.errors import RunError
from regard.files.run_folder import BEST, CHECKPOINTS_FOLDER, link_checkpoint, list_checkpoints
from regard.metrics.registry import metric, require_registered
from regard.nn.fast.attention import of_one_shape
from regard.nn.loss import Losses
from regard.progress import phase
from regard.tasks.base import Inputs, Task
from regard.train import checkpoint
from regard.train.average import average
from regard.train.budget import Spent
from regard.train.compilation import compile_blocks, why_compile
from regard.train.memory import is_want_of_memory, keep_freed_memory
from regard.train.monitor import Log, Watcher
from regard.train.non_finite import BadBatches, account
from regard.train.optimiser import same_rate
from regard.train.parallel.experts import DividedExperts
from regard.train.parallel.model import checkpoint_blocks, shard
from regard.train.parallel.processes import Team
from regard.train.parallel.state import put_weights
from regard.train.precision import Beat, Precision, Pulse, clip_gradients
from regard.train.prefetcher import Feed
from regard.train.residual_dtype import carry_between_blocks
from regard.train.settings import TrainConfig
from regard.train.signals import Stopped

FINISHED = "training finished"
STOPPED = "stopped on request"
"""How a run ends that is to go on later."""


class _Losses(nn.Module):
    """The loss as a module, so that a team can wrap it as one."""

    def __init__(self, task: Task, model: nn.Module) -> None:
        super().__init__()
        self.task, self.model = task, model

    def forward(self, inputs: Inputs) -> Losses:
        return self.task.losses(self.model, inputs)


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
        divided: DividedExperts | None = None,
        fingerprint: Mapping[str, Any] | None = None,
    ) -> None:
        self.config, self.task, self.model, self.batches, self.judge = config, task, model, batches, judge
        self.folder, self.seed, self.team, self.precision = folder, seed, team, precision
        self.watcher, self.log, self.stop, self.fingerprint = watcher, log, stop, fingerprint
        self.schedule = config.schedule.build(model.config.width)  # type: ignore[union-attr]
        keep_freed_memory(team.device)
        self.sharded, self.divided = config.parallel == "fsdp", divided or DividedExperts(model, team)
        self.in_pieces = self.sharded or self.divided.size > 1
        if why := why_compile(model, config, batches, team.device):
            compile_blocks(model, any_length=batches.one_row)
            watcher.detail(f"blocks are compiled, {why}; the first steps take longer")
        self._compiles = bool(why)
        """Whether the next step compiles the model first."""
        self.carries = carry_between_blocks(model, config.between_blocks, precision)
        if config.activation_checkpointing:
            checkpoint_blocks(model)
        losses = _Losses(task, model)
        if self.sharded:  # before the optimiser is built, which holds state only for the parts that are here
            shard(losses, team, precision, self.divided.parameters)
        self.optimiser = config.optimiser.build(model, 0.0, rates)
        self.moving = config.moving_average.build(model) if config.moving_average else None
        self.losses = losses if self.sharded else team.wrap(losses, self.divided.parameters)
        self.metric = config.best or task.best_metric
        self.is_better = metric(self.metric, "train.best").better
        self.spent = Spent()
        self.feed = Feed(batches, self._inputs, team)
        self.since_best = 0
        self.best: float | None = None
        self.best_loss: float | None = None
        self.best_step: int | None = None
        self.splits = 1
        """In how many parts memory makes us compute what `accumulate` leaves whole."""
        self.due = False
        """Whether the validation of this step is pending: its checkpoint is written first, so that a failure, a stop or
        a kill during the validation costs nothing; a run that resumes from such a checkpoint validates first of all."""
        self._saved = 0
        """Step of the newest checkpoint."""
        self._measured_before = True
        """Whether a validation that was logged before the run resumed still counts."""
        self._bad = BadBatches(config.skip_bad, watcher.say)
        self._logged = Spent()

    # The run as a whole

    def fit(self) -> str:
        """Trains until the budget is spent, patience ends or somebody asks to stop; says why it ended."""
        self.model.train()
        if self.carries:
            self.watcher.detail("residual stream in bfloat16 (halves its memory traffic)")
        began = time.perf_counter() - self.spent.seconds
        if self.due:
            self._validate()
        ended = FINISHED if self.spent.progress(self.config) >= 1 else self._out_of_patience()
        while not ended:
            before = replace(self.spent)
            with phase("compiling") if self._compiles else nullcontext():
                line = self.step()
            self._compiles = False
            self.spent.seconds = self.team.agree(time.perf_counter() - began)
            progress = self.spent.progress(self.config)
            asked = self.team.agree(float(self.stop() is not None))
            ended = FINISHED if progress >= 1 else STOPPED if asked else ""
            self._report(line, progress, bool(ended))
            if (ended and not asked) or self._due(self.config.valid_every or self.config.save_every, before):
                self.due = True
                self.save()
                self._validate()
                ended = ended or (STOPPED if self.due else self._out_of_patience())
                self.spent.seconds = self.team.agree(time.perf_counter() - began)
            elif ended or self._due(self.config.save_every, before):
                self.save()
                self._prune()
        if ended != STOPPED and self.config.average > 1:
            self._average()
        return ended

    def _due(self, interval: float, before: Spent) -> bool:
        """Whether an interval ended with the last step: one of so many steps, or of such a share of the budget."""
        if interval >= 1:
            return self.spent.steps % interval == 0
        now, then = (int(spent.progress(self.config) / interval + 1e-9) for spent in (self.spent, before))
        return now > then

    def step(self) -> dict[str, Any]:
        """One change of the weights."""
        lr = self.schedule.rate(self.spent.steps + 1, self.spent.progress(self.config))
        self.optimiser.set_lr(lr)
        with self._kept():
            inputs, total, plain = self._gradients()
        if self.team.size > 1:
            total = torch.tensor(self.team.total(float(total)))
            plain = None if plain is None else torch.tensor(self.team.total(float(plain)))
        pulse = self._change(total, plain)
        if pulse.finite:
            self._bad.in_a_row = 0
            if self.moving:
                self.moving.update()
        else:
            with self._kept():
                self._pass_over(pulse)
        self.spent.steps += 1
        self.spent.tokens += int(self.team.total(sum(part.tokens for part in inputs)))
        self.spent.flops += self.team.total(sum(part.flops for part in inputs))
        self.feed.advance()
        self.spent.epochs = self.feed.epochs
        skipped = {"skipped": self.spent.skipped} if self.spent.skipped else {}
        losses = {"loss": pulse.loss} if plain is None else {"loss": pulse.plain, "objective": pulse.loss}
        return {**losses, "lr": lr, "gradient_norm": pulse.norm, **skipped}

    @contextmanager
    def _kept(self) -> Iterator[None]:
        """Saves the steps since the last checkpoint before an error ends the run; within it, no weight changes."""
        try:
            yield
        except Exception:
            alone = self.team.size == 1 and not self.in_pieces  # processes of a team save together or not at all
            if alone and self.spent.steps > self._saved:
                with suppress(Exception):  # the first error is the one to report
                    if all(bool(weight.isfinite().all()) for weight in self._weights().values()):
                        self.save()
            raise

    def _change(self, loss: Tensor, plain: Tensor | None) -> Pulse:
        """Clips the gradients and changes the weights by them, unless they are no numbers.

        A GPU can find that out by itself: it goes on while this process makes the next batch, and looks only then.
        """
        limit, trained = self.config.clip or None, [p for p in self.model.parameters() if p.grad is not None]
        beat = Beat(loss, self.divided.norm(trained), plain)
        if self.optimiser.decides and self.team.size == 1:
            self.optimiser.step(beat.unsound(), beat.excess(limit) if limit else None)
            self.feed.look_ahead(self.parts)
            return beat.read()
        pulse = beat.read()
        if pulse.finite:
            clip_gradients(trained, limit, pulse)
            self.optimiser.step()
        return pulse

    def _gradients(self) -> tuple[list[Inputs], Tensor, Tensor | None]:
        """The next batch, its losses and its gradients; where memory does not suffice, once more in smaller parts."""
        while True:
            try:
                return self._accumulated()
            except RuntimeError as error:
                if not is_want_of_memory(error) or not self._can_halve():
                    raise
            self._halve()  # here, where the error no longer holds what was computed

    def _accumulated(self) -> tuple[list[Inputs], Tensor, Tensor | None]:
        """The next batch, its objective, its plain loss where that is another, and its gradients, part after part."""
        self.optimiser.zero_grad()
        inputs = self._next_inputs()
        count = self.team.total(sum(part.count for part in inputs))
        self._seed()
        total, plain = torch.zeros((), device=self.team.device), None
        for number, part in enumerate(inputs, start=1):
            self.divided.count(part.tokens > 0)
            with self.team.own_gradients(self.losses, more=number < len(inputs)):
                with self.precision.autocast(), of_one_shape(self.batches.one_shape):
                    losses = self.losses(part)
                    loss = losses.objective / count * (part.count > 0)
                (loss * self.team.size).backward()  # the team's gradients are averaged, and should be summed
            total += loss.detach()
            if losses.plain is not None:
                plain = (0.0 if plain is None else plain) + losses.plain * (part.count > 0)
        self.divided.sum_gradients()
        scored = count if plain is None else self.team.total(sum(part.scored for part in inputs))
        return inputs, total, None if plain is None else plain / max(1, scored)

    @property
    def parts(self) -> int:
        """In how many parts this process computes its share of a batch."""
        return self.config.accumulate * self.splits

    def _can_halve(self) -> bool:
        """A part of one example is the smallest; and the processes of a team must all compute equally often."""
        alone = self.team.size == 1 and not self.sharded
        return alone and self.parts < len(self.feed.batch().examples)

    def _halve(self) -> None:
        self.splits *= 2
        self.optimiser.zero_grad()
        torch.cuda.empty_cache()
        self.watcher.say(
            f"step {self.spent.steps + 1}: memory is full; batches are computed in {self.parts} parts from here on, "
            f"as train.accumulate={self.parts} would"
        )

    def _next_inputs(self) -> list[Inputs]:
        """This process's parts of the next batch."""
        return self.feed.inputs(self.parts)

    def _inputs(self, batch: Batch) -> Inputs:
        return self.task.inputs(batch, self.model.config, self.team.device)

    def _seed(self) -> None:
        """Dropout of a step is the same whether the run came here in one go or not."""
        seed = (self.seed * 1_000_003 + self.spent.steps) * 4_096 + self.team.rank
        torch.default_generator.manual_seed(seed)  # torch.manual_seed also takes down the stack, for devices not in use
        if self.team.device.type == "cuda":
            torch.cuda.manual_seed(seed)

    def _pass_over(self, pulse: Pulse) -> None:
        """Stops at a loss or gradient that is no number, or counts the batch: in either case no weight changes."""
        batch, place = self.feed.batch(), f"batch {self.feed.index} of epoch {self.feed.epoch}"
        words = self.task.vocabularies.tokenizers
        self._bad.pass_over(account(self.spent.steps + 1, pulse, self.model, place, batch, words))
        self.spent.skipped += 1

    # What is told and kept

    def _report(self, line: dict[str, Any], progress: float, last: bool) -> None:
        """Tells the watcher at every step, and writes a line every so often."""
        told = self._line("train", line)
        if self.team.leads:
            self.watcher.step(told, progress)
        if last or self.spent.steps % self.config.log_every == 0 or self.spent.steps == 1:
            if self.team.leads:
                self.log.write(**told)
            self._logged = replace(self.spent)

    def _line(self, split: str, numbers: Mapping[str, float]) -> dict[str, Any]:
        """A line of metrics.jsonl; speeds are those since the last line about training."""
        return {**self.spent.line(split, self._logged), "lr": self.optimiser.lr, **numbers}

    def _validate(self) -> None:
        """Measures the model, and marks its checkpoint if it is the best so far; later, where it must stop now."""
        metrics, value, loss = self._logged_validation() if self.team.leads else None, math.nan, math.nan
        measured = not self.team.agree(float(metrics is not None))  # or a kill came after its line and before the next
        if measured:
            metrics = self._judged()
        self.due = bool(self.team.agree(float(not metrics)))
        if self.due:
            return
        if self.team.leads and metrics is not None:
            if measured:
                line = self._line("valid", metrics)
                self.log.write(**line)
                self.watcher.measured(line)
            if self.metric not in metrics:
                known = ", ".join(sorted(metrics))
                raise RunError(f"train.best: the validation has no metric '{self.metric}'; known: {known}")
            value, loss = metrics[self.metric], metrics.get("loss", math.nan)
        value, loss = self.team.agree(value), self.team.agree(loss)
        self.since_best += 1
        if self._is_best(value, loss):
            self.best, self.best_loss, self.best_step, self.since_best = value, loss, self.spent.steps, 0
            if self.team.leads:
                link_checkpoint(self.folder / CHECKPOINTS_FOLDER, BEST, self.spent.steps)
        self._prune()

    def _is_best(self, value: float, loss: float) -> bool:
        """Whether a validation is the best so far; of equal scores, as small data often gives, the lower loss is."""
        if math.isnan(value) or self.best is None:
            return not math.isnan(value)
        if value == self.best:
            return self.best_loss is not None and loss < self.best_loss
        return self.is_better(value, self.best)

    def _logged_validation(self) -> Mapping[str, float] | None:
        """The line of this step's validation that the run had written before it resumed here."""
        line = self.log.validation if self._measured_before else None
        return line if line is not None and line["step"] == self.spent.steps and self.metric in line else None

    def _judged(self) -> dict[str, float]:
        """What the validation data says; in the first process only, but all take part where the model is cut up."""
        if self.moving is None and not self.in_pieces:
            return self._measured(self.model) if self.team.leads else {}
        weights = self.divided.gathered(self.moving.tensors() if self.moving else self._weights(), self.team.leads)
        if not self.team.leads:
            return {}
        with self._holding(weights) as model:
            return self._measured(model)

    def _measured(self, model: nn.Module) -> dict[str, float]:
        try:
            with phase("validating"), self.precision.autocast():
                metrics = self.judge(model)
        except Stopped:
            self.model.train()
            return {}
        require_registered(metrics)
        return metrics

    @contextmanager
    def _holding(self, weights: Mapping[str, Tensor]) -> Iterator[nn.Module]:
        """The model with other weights for a while; where it is cut up, a copy of it in one piece."""
        if self.in_pieces:
            model = self.task.build(self.model.config).to(self.team.device)
            put_weights(model, weights)
            yield model
            return
        own = {name: weight.detach().clone() for name, weight in self._weights().items()}
        put_weights(self.model, weights)
        try:
            yield self.model
        finally:
            put_weights(self.model, own)

    def _weights(self) -> dict[str, nn.Parameter]:
        return dict(self.model.named_parameters())

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
            "epoch": self.feed.epoch,
            "index": self.feed.index,
            "batches": self.batches.num_batches(self.feed.epoch),
            "best": self.best,
            "best_loss": self.best_loss,
            "best_step": self.best_step,
            "since_best": self.since_best,
            "metric": self.metric,
            "optimiser": self.optimiser.scalars(),
            "moving": self.moving.scalars() if self.moving else None,
            "serve": "moving" if self.moving else "model",
            "splits": self.splits,
            "due": self.due,
            "precision": self.precision.name,
            "between_blocks": self.carries,
            **({"fingerprint": self.fingerprint} if self.fingerprint else {}),
        }

    def save(self, extra: Mapping[str, Mapping[str, Tensor]] | None = None, serve: str | None = None) -> None:
        """Writes a checkpoint; `serve` names the weights to be used from it, if not the usual ones."""
        leads, gathered = self.team.leads, self.divided.gathered
        weights, moments = gathered(self._weights(), leads), gathered(self.optimiser.tensors(), leads)
        further = {"moving": gathered(self.moving.tensors(), leads)} if self.moving else {}
        if self.team.leads:
            self.log.sync()  # a checkpoint must not outlive the lines before it
            state = {**self.state(), **({"serve": serve} if serve else {})}
            folder, further = self.folder / CHECKPOINTS_FOLDER, {**further, **(extra or {})}
            checkpoint.save(folder, self.spent.steps, weights, moments, state, further)
        self._saved = self.spent.steps
        self.team.wait()

    def _prune(self) -> None:
        """Removes old checkpoints, once it is known whether the newest is the best."""
        if self.team.leads:
            checkpoint.prune(self.folder / CHECKPOINTS_FOLDER, max(self.config.keep, self.config.average))
        self.team.wait()

    def restore(self, saved: checkpoint.Checkpoint, same_validation: bool = True) -> None:
        """Goes back to where a checkpoint was written, to the bit; its scores count only on the same validation data.

        Where batches have another size or number now, it resumes at the same share of the epoch.
        """
        saved = self.divided.own(saved)
        put_weights(self.model, saved.model)
        self.optimiser.restore(saved.optimizer, saved.state["optimiser"])
        state = saved.state
        if self.moving and state["moving"] is not None:
            self.moving.restore(saved.extra["moving"], state["moving"])
        elif self.config.moving_average:
            self.moving = self.config.moving_average.build(self.model)
            self.watcher.say(f"train.moving_average: starts from the weights of step {saved.step:,}")
        self.spent = Spent(**state["spent"])
        if not self.feed.restore(state["epoch"], state["index"], self.spent.epochs, state.get("batches")):
            self.watcher.say(
                f"epoch {self.feed.epoch} has another number of batches now: resuming at batch {self.feed.index}, so "
                "some examples of this epoch may repeat or be left out"
            )
        comparable = same_validation and state.get("metric", self.metric) == self.metric
        self._measured_before = comparable
        self.best, self.since_best = (state["best"], state["since_best"]) if comparable else (None, 0)
        self.best_loss = state.get("best_loss") if comparable else None
        if not comparable:
            self.watcher.say("the best checkpoint is chosen anew: scores before and after cannot be compared")
        self.due = state.get("due", False)
        self.best_step, self.splits = state.get("best_step"), state.get("splits", 1)
        before = state.get("between_blocks", False)
        self.carries = carry_between_blocks(self.model, self.config.between_blocks, self.precision, before)
        if self.team.leads and self.best_step == saved.step:  # a kill may have come before the name was given
            link_checkpoint(self.folder / CHECKPOINTS_FOLDER, BEST, saved.step)
        self._saved, self._logged = saved.step, replace(self.spent)

    def _average(self) -> None:
        """The mean of the last checkpoints' weights, used if the validation data likes it better."""
        mean, value, loss = self._judged_average() if self.team.leads else ({}, math.nan, math.nan)
        value, loss = self.team.agree(value), self.team.agree(loss)
        if self._is_best(value, loss):
            self.best, self.best_loss, self.best_step = value, loss, self.spent.steps
            self.save({"average": mean}, serve="average")
            if self.team.leads:
                link_checkpoint(self.folder / CHECKPOINTS_FOLDER, BEST, self.spent.steps)
            self._prune()

    def _judged_average(self) -> tuple[dict[str, Tensor], float, float]:
        whole = [path for _, path in list_checkpoints(self.folder / CHECKPOINTS_FOLDER) if not checkpoint.broken(path)]
        chosen = whole[: self.config.average]
        mean = average(checkpoint.load(path, ["model"]).model for path in chosen)
        with self._holding(mean) as model:
            metrics = self._measured(model)
        if not metrics:
            return {}, math.nan, math.nan
        self.log.write(**self._line("valid", {"averaged": len(chosen), **metrics}))
        best = "" if self.best is None else f" (best checkpoint: {self.best:.4f})"
        self.watcher.say(f"mean of {len(chosen)} checkpoints: {self.metric} {metrics[self.metric]:.4f}{best}")
        return mean, metrics[self.metric], metrics.get("loss", math.nan)
