"""Checkpoints of a training run: all its state saved, and restored to the bit."""

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from torch import Tensor

from regard.files.run_folder import BEST, CHECKPOINTS_FOLDER, link_checkpoint
from regard.train import checkpoint
from regard.train.budget import Spent
from regard.train.parallel.state import load_weights
from regard.train.precision import set_residual_dtype
from regard.train.step import TrainingStep


class CheckpointedTraining(TrainingStep):
    """Training steps whose state can be saved; among it, which validation was the best."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:  # noqa: ANN401
        super().__init__(*arguments, **settings)
        self.checkpoints = self.folder / CHECKPOINTS_FOLDER
        self.best: float | None = None
        self.best_loss: float | None = None
        self.best_step: int | None = None
        self.since_best = 0
        """Validations since the best one."""
        self.validation_due = False
        """Whether the validation of this step is pending: its checkpoint is written first, so that an error, a stop or
        a kill during the validation costs nothing; a run that resumes from such a checkpoint validates first of all."""
        self._log_counts = True
        """Whether a validation that was logged before the run resumed still counts."""
        self._logged = Spent()

    def state(self) -> dict[str, Any]:
        """All state that is not a tensor."""
        moving = self.moving_average
        return {
            "spent": asdict(self.spent),
            "epoch": self.prefetcher.epoch,
            "index": self.prefetcher.index,
            "batches": self.batches.num_batches(self.prefetcher.epoch),
            "best": self.best,
            "best_loss": self.best_loss,
            "best_step": self.best_step,
            "since_best": self.since_best,
            "metric": self.metric,
            "optimiser": self.optimiser.scalars(),
            "moving": moving.scalars() if moving else None,
            "serve": "moving" if moving else "model",
            "splits": self.memory_splits,
            "due": self.validation_due,
            "precision": self.precision.name,
            "packed": self.batches.one_row,
            "between_blocks": self.residual_is_bfloat16,
            **({"fingerprint": self.fingerprint} if self.fingerprint else {}),
        }

    def save(self, extra: Mapping[str, Mapping[str, Tensor]] | None = None, serve: str | None = None) -> None:
        """Writes a checkpoint; `serve` names the weights to be used from it, if not the usual ones."""
        is_main, gather = self.world.is_main, self.expert_parallel.gather
        weights, moments = gather(self.weights(), is_main), gather(self.optimiser.tensors(), is_main)
        further = {"moving": gather(self.moving_average.tensors(), is_main)} if self.moving_average else {}
        if is_main:
            self.log.sync()  # a checkpoint must not outlive the lines before it
            state = {**self.state(), **({"serve": serve} if serve else {})}
            checkpoint.save(self.checkpoints, self.spent.steps, weights, moments, state, {**further, **(extra or {})})
        self.saved_step = self.spent.steps
        self.world.barrier()

    def _prune(self) -> None:
        """Removes old checkpoints, once it is known whether the newest is the best."""
        if self.world.is_main:
            checkpoint.prune(self.checkpoints, max(self.config.keep, self.config.average))
        self.world.barrier()

    def _mark_best(self) -> None:
        if self.world.is_main:
            link_checkpoint(self.checkpoints, BEST, self.spent.steps)

    def restore(self, saved: checkpoint.Checkpoint, same_validation: bool = True) -> None:
        """Restores a checkpoint, to the bit; its scores count only on the same validation data.

        Where batches have another size or number now, it resumes at the same share of the epoch.
        """
        saved = self.expert_parallel.shard_checkpoint(saved)
        load_weights(self.model, saved.model)
        self.optimiser.restore(saved.optimizer, saved.state["optimiser"])
        state = saved.state
        if self.moving_average and state["moving"] is not None:
            self.moving_average.restore(saved.extra["moving"], state["moving"])
        elif self.config.moving_average:
            self.moving_average = self.config.moving_average.build(self.model)
            self.watcher.say(f"train.moving_average: starts from the weights of step {saved.step:,}")
        self.spent = Spent(**state["spent"])
        if not self.prefetcher.restore(state["epoch"], state["index"], self.spent.epochs, state.get("batches")):
            self.watcher.say(
                f"epoch {self.prefetcher.epoch} has another number of batches now: resuming at batch "
                f"{self.prefetcher.index}, so some examples of this epoch may repeat or be left out"
            )
        self._restore_best(state, same_validation)
        self.validation_due = state.get("due", False)
        self.memory_splits = state.get("splits", 1)
        before = state.get("between_blocks", False)
        self.residual_is_bfloat16 = set_residual_dtype(self.model, self.config.residual_dtype, self.precision, before)
        if self.best_step == saved.step:  # a kill may have come before `best` was linked
            self._mark_best()
        self.saved_step, self._logged = saved.step, replace(self.spent)

    def _restore_best(self, state: Mapping[str, Any], same_validation: bool) -> None:
        comparable = same_validation and state.get("metric", self.metric) == self.metric
        self._log_counts = comparable
        self.best, self.since_best = (state["best"], state["since_best"]) if comparable else (None, 0)
        self.best_loss = state.get("best_loss") if comparable else None
        self.best_step = state.get("best_step")
        if not comparable:
            self.watcher.say("the best checkpoint is chosen anew: scores before and after cannot be compared")
