"""The training loop: steps until the budget is used up, with validations and checkpoints in between."""

import math
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import Any

from torch import Tensor, nn

from regard.errors import RunError
from regard.files.run_folder import list_checkpoints
from regard.metrics.registry import require_registered
from regard.progress import phase
from regard.tasks.contract import config_of
from regard.train import checkpoint
from regard.train.average import average
from regard.train.budget import Spent
from regard.train.parallel.state import load_weights
from regard.train.saving import CheckpointedTraining
from regard.train.signals import Stopped

FINISHED = "training finished"
STOPPED = "stopped on request"
"""How a run ends that is to be resumed later."""


class Trainer(CheckpointedTraining):
    """Trains a model: `fit` is the loop."""

    def fit(self) -> str:
        """Trains until the budget is used up, patience ends or a stop is requested; says which."""
        self.model.train()
        if self.residual_is_bfloat16:
            self.watcher.detail("residual stream in bfloat16 (halves its memory traffic)")
        began = time.perf_counter() - self.spent.seconds
        if self.validation_due:
            self._validate()
        ended = FINISHED if self.spent.progress(self.config) >= 1 else self._out_of_patience()
        while not ended:
            before = replace(self.spent)
            with phase("compiling") if self.compiles_next else nullcontext():
                line = self.step()
            self.compiles_next = False
            self.spent.seconds = self.world.broadcast(time.perf_counter() - began)
            progress = self.spent.progress(self.config)
            line = self._line("train", line)
            if self.world.is_main:
                self.watcher.step(line, progress)  # may request a stop
            stopping = self._stop_requested()
            ended = FINISHED if progress >= 1 else STOPPED if stopping else ""
            self._log_step(line, bool(ended))
            if (ended and not stopping) or self._is_due(self.config.valid_every or self.config.save_every, before):
                self.validation_due = True
                self.save()
                self._validate()
                stopped = self.validation_due or self._stop_requested()
                ended = ended or (STOPPED if stopped else self._out_of_patience())
                self.spent.seconds = self.world.broadcast(time.perf_counter() - began)
            elif ended or self._is_due(self.config.save_every, before):
                self.save()
                self._prune()
        if ended != STOPPED and self.config.average > 1:
            self._average()
        return ended

    def _is_due(self, interval: float, before: Spent) -> bool:
        """Whether an interval ended with the last step: of so many steps, or of such a share of the budget."""
        if interval >= 1:
            return self.spent.steps % interval == 0
        now, then = (int(spent.progress(self.config) / interval + 1e-9) for spent in (self.spent, before))
        return now > then

    def _out_of_patience(self) -> str:
        patience = self.config.patience
        if patience is not None and self.since_best >= patience:
            return f"no better {self.metric} in {patience} validations"
        return ""

    def _stop_requested(self) -> bool:
        return bool(self.world.broadcast(float(self.stop() is not None)))

    def _log_step(self, line: dict[str, Any], last: bool) -> None:
        """Logs every `log_every`-th step."""
        if last or self.spent.steps % self.config.log_every == 0 or self.spent.steps == 1:
            if self.world.is_main:
                self.log.write(**line)
            self._logged = replace(self.spent)

    def _line(self, split: str, values: Mapping[str, float]) -> dict[str, Any]:
        """A line of metrics.jsonl; speeds are those since the last training line."""
        return {**self.spent.line(split, self._logged), "lr": self.optimiser.lr, **values}

    # Validation

    def _validate(self) -> None:
        """Validates, and marks the checkpoint if it is the best so far; stays due where a stop was requested."""
        metrics, value, loss = self._logged_validation() if self.world.is_main else None, math.nan, math.nan
        measured = not self.world.broadcast(float(metrics is not None))  # logged, but killed before the next step
        if measured:
            metrics = self._validation_metrics()
        self.validation_due = bool(self.world.broadcast(float(not metrics)))
        if self.validation_due:
            return
        if self.world.is_main and metrics is not None:
            if measured:
                line = self._line("valid", metrics)
                self.log.write(**line)
                self.watcher.measured(line)
            if self.metric not in metrics:
                available = ", ".join(sorted(metrics))
                raise RunError(f"train.best: the validation has no metric '{self.metric}'; known: {available}")
            value, loss = metrics[self.metric], metrics.get("loss", math.nan)
        value, loss = self.world.broadcast(value), self.world.broadcast(loss)
        self.since_best += 1
        if self._is_best(value, loss):
            self.best, self.best_loss, self.best_step, self.since_best = value, loss, self.spent.steps, 0
            self._mark_best()
        self._prune()

    def _is_best(self, value: float, loss: float) -> bool:
        """Whether a validation is the best so far; of equal scores, as on small data, the lower loss is."""
        if math.isnan(value) or self.best is None:
            return not math.isnan(value)
        if value == self.best:
            return self.best_loss is not None and loss < self.best_loss
        return self.is_better(value, self.best)

    def _logged_validation(self) -> Mapping[str, float] | None:
        """This step's validation, where it was logged before the run resumed here."""
        line = self.log.validation if self._log_counts else None
        return line if line is not None and line["step"] == self.spent.steps and self.metric in line else None

    def _validation_metrics(self) -> dict[str, float]:
        """Metrics in the main process; all processes take part where the model is partitioned."""
        if self.moving_average is None and not self.partitioned:
            return self._measure(self.model) if self.world.is_main else {}
        weights = self.moving_average.tensors() if self.moving_average else self.weights()
        weights = self.expert_parallel.gather(weights, self.world.is_main)
        if not self.world.is_main:
            return {}
        with self._model_with(weights) as model:
            return self._measure(model)

    def _measure(self, model: nn.Module) -> dict[str, float]:
        """Metrics of a model; none where a stop was requested meanwhile."""
        try:
            with phase("validating"), self.precision.autocast():
                metrics = self.validate(model)
        except Stopped:
            self.model.train()
            return {}
        require_registered(metrics)
        return metrics

    @contextmanager
    def _model_with(self, weights: Mapping[str, Tensor]) -> Iterator[nn.Module]:
        """The model with other weights for a while; where it is partitioned, an unpartitioned copy."""
        if self.partitioned:
            model = self.task.build(config_of(self.model)).to(self.world.device)
            load_weights(model, weights)
            yield model
            return
        before = {name: weight.detach().clone() for name, weight in self.weights().items()}
        load_weights(self.model, weights)
        try:
            yield self.model
        finally:
            load_weights(self.model, before)

    # Mean of checkpoints

    def _average(self) -> None:
        """The mean of the last checkpoints' weights, used if it is better on the validation data."""
        mean, value, loss = self._measure_average() if self.world.is_main else ({}, math.nan, math.nan)
        value, loss = self.world.broadcast(value), self.world.broadcast(loss)
        if self._is_best(value, loss):
            self.best, self.best_loss, self.best_step = value, loss, self.spent.steps
            self.save({"average": mean}, serve="average")
            self._mark_best()
            self._prune()

    def _measure_average(self) -> tuple[dict[str, Tensor], float, float]:
        whole = [path for _, path in list_checkpoints(self.checkpoints) if not checkpoint.broken(path)]
        chosen = whole[: self.config.average]
        mean = average(checkpoint.load(path, ["model"]).model for path in chosen)
        with self._model_with(mean) as model:
            metrics = self._measure(model)
        if not metrics:
            return {}, math.nan, math.nan
        self.log.write(**self._line("valid", {"averaged": len(chosen), **metrics}))
        best = "" if self.best is None else f" (best checkpoint: {self.best:.4f})"
        self.watcher.say(f"mean of {len(chosen)} checkpoints: {self.metric} {metrics[self.metric]:.4f}{best}")
        return mean, metrics[self.metric], metrics.get("loss", math.nan)
