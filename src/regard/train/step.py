"""One training step: forward, backward, clip, optimiser.

Which examples a step reads and which values dropout zeroes are pure functions of (seed, step), so a checkpoint needs no
state of any random generator, and any number of processes computes the same step.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from regard.data.batches import Batch, Batches
from regard.errors import ConfigError
from regard.metrics.registry import metric
from regard.nn.experts import Experts
from regard.nn.fast.sdpa import cudnn_attention, disable_cudnn_attention
from regard.nn.loss import Losses
from regard.tasks.base import Inputs, Task
from regard.tasks.contract import config_of
from regard.train.budget import Spent
from regard.train.compilation import compile_blocks, why_compile
from regard.train.cuda_graph import CannotCaptureError, CapturedSteps, StepScalars, choose_shapes
from regard.train.memory import is_out_of_memory, keep_freed_memory
from regard.train.monitor import Log, Watcher
from regard.train.optimiser import same_rate
from regard.train.parallel.experts import ExpertParallel
from regard.train.parallel.model import checkpoint_blocks, shard
from regard.train.parallel.processes import World
from regard.train.precision import Precision, set_residual_dtype
from regard.train.prefetcher import Prefetcher
from regard.train.settings import TrainConfig
from regard.train.step_statistics import (
    NonFiniteBatches,
    PendingStatistics,
    StepStatistics,
    clip_gradients,
    describe_non_finite,
    grad_scale,
    gradient_norm,
)


class _Losses(nn.Module):
    """The loss as a module, so that DDP or FSDP can wrap it as one."""

    def __init__(self, task: Task, model: nn.Module) -> None:
        super().__init__()
        self.task, self.model = task, model

    def forward(self, inputs: Inputs) -> Losses:
        return self.task.losses(self.model, inputs)


class TrainingStep(ABC):
    """A model with its optimiser, schedule and data, and how far training has come."""

    def __init__(
        self,
        config: TrainConfig,
        task: Task,
        model: nn.Module,
        batches: Batches,
        validate: Callable[[nn.Module], dict[str, float]],
        folder: Path,
        *,
        seed: int,
        world: World,
        precision: Precision,
        watcher: Watcher,
        log: Log,
        stop: Callable[[], str | None] = lambda: None,
        rates: Callable[[str], float] = same_rate,
        expert_parallel: ExpertParallel | None = None,
        fingerprint: Mapping[str, Any] | None = None,
    ) -> None:
        self.config, self.task, self.model, self.batches, self.validate = config, task, model, batches, validate
        self.folder, self.seed, self.world, self.precision = folder, seed, world, precision
        self.watcher, self.log, self.stop, self.fingerprint = watcher, log, stop, fingerprint
        self.schedule = config.schedule.build(model.config.width)  # type: ignore[union-attr]
        keep_freed_memory(world.device)
        disable_cudnn_attention()
        self.fsdp, self.expert_parallel = config.parallel == "fsdp", expert_parallel or ExpertParallel(model, world)
        self.partitioned = self.fsdp or self.expert_parallel.size > 1
        """Whether no process holds the whole model."""
        self.memory_splits = 1
        """Extra micro-batch splits chosen after an out-of-memory error."""
        launched = self._why_not_captured()
        if config.cuda_graph and launched:
            raise ConfigError("train.cuda_graph", f"steps cannot be CUDA graphs here: {launched}; leave it out")
        if reason := why_compile(model, config, batches, world.device):
            compile_blocks(model, any_length=batches.one_row and not config.cuda_graph)
            watcher.detail(f"blocks are compiled, {reason}; the first steps take longer")
        self.compiles_next = bool(reason)
        self.residual_is_bfloat16 = set_residual_dtype(model, config.residual_dtype, precision)
        if config.activation_checkpointing:
            checkpoint_blocks(model)
        losses = _Losses(task, model)
        if self.fsdp:  # before the optimiser is built, which keeps state for this process's shards only
            shard(losses, world, precision, self.expert_parallel.parameters)
        self.optimiser = config.optimiser.build(model, 0.0, rates)
        self.moving_average = config.moving_average.build(model) if config.moving_average else None
        self.losses = losses if self.fsdp else world.wrap_ddp(losses, self.expert_parallel.parameters)
        self.metric = config.best or task.best_metric
        self.is_better = metric(self.metric, "train.best").better
        self.spent = Spent()
        self.captured: CapturedSteps | None = None
        self.prefetcher = Prefetcher(batches, self._inputs, world)
        if config.cuda_graph:
            self.captured = self._capture_steps()
        self.saved_step = 0
        self._non_finite = NonFiniteBatches(config.skip_bad, watcher.say)

    @abstractmethod
    def save(self) -> None:
        """Writes a checkpoint."""

    def step(self) -> dict[str, Any]:
        """One update of the weights; its loss, learning rate and gradient norm."""
        lr = self.schedule.rate(self.spent.steps + 1, self.spent.progress(self.config))
        with self._saved_on_error():
            inputs, statistics = self._captured_step(lr) or self._plain_step(lr)
        if statistics.finite:
            self._non_finite.in_a_row = 0
        else:
            with self._saved_on_error():
                self._skip(statistics)
        self.spent.steps += 1
        self.spent.tokens += int(self.world.sum(sum(part.tokens for part in inputs)))
        self.spent.flops += self.world.sum(sum(part.flops for part in inputs))
        self.prefetcher.advance()
        self.spent.epochs = self.prefetcher.epochs
        skipped = {"skipped": self.spent.skipped} if self.spent.skipped else {}
        losses = {"loss": statistics.loss}
        if statistics.plain is not None:
            losses = {"loss": statistics.plain, "objective": statistics.loss}
        return {**losses, "lr": lr, "gradient_norm": statistics.norm, **skipped}

    def _plain_step(self, lr: float) -> tuple[list[Inputs], StepStatistics]:
        """Kernel by kernel: on a CPU, in several processes or micro-batches."""
        self.optimiser.set_lr(lr)
        # A batch that is too large for the shape that blocks were compiled for is computed without compiling anew.
        with torch.compiler.set_stance("force_eager") if self.captured else nullcontext():
            inputs, loss, plain = self._compute_gradients()
        if self.world.size > 1:
            loss = torch.tensor(self.world.sum(float(loss)))
            plain = None if plain is None else torch.tensor(self.world.sum(float(plain)))
        statistics = self._update(loss, plain)
        if statistics.finite and self.moving_average:
            self.moving_average.update()
        return inputs, statistics

    # As a CUDA graph

    def _capture_steps(self) -> CapturedSteps:
        """Training steps as CUDA graphs."""
        scalars = StepScalars(len(self.optimiser.learning_rates(0.0)), self.world.device)
        shapes = choose_shapes(self.batches, lambda step: self._host_inputs(self.batches.batch(0, step)))
        return CapturedSteps(self._compute_step, scalars, shapes)

    def _why_not_captured(self) -> str:
        """Why steps cannot be CUDA graphs; empty where they can."""
        kind = self.config.optimiser.kind
        reasons = {
            "there is no GPU": self.world.device.type != "cuda",
            "several processes train together": self.world.size > 1 or self.partitioned,
            "train.accumulate divides batches": self.micro_batches > 1,
            "train.activation_checkpointing computes again": self.config.activation_checkpointing,
            f"train.optimiser is {kind}, not adamw or muon": kind not in ("adamw", "muon"),
            "experts count all tokens, padding too": any(isinstance(part, Experts) for part in self.model.modules()),
            "task.reward generates texts": getattr(self.task.config, "reward", None) is not None,
        }
        return next((reason for reason, holds in reasons.items() if holds), "")

    def _captured_step(self, lr: float) -> tuple[list[Inputs], StepStatistics] | None:
        """The step as a CUDA graph; None where it cannot be one."""
        if self.captured is None or self.micro_batches > 1:
            return None
        [inputs] = self._next_inputs()
        if not self.captured.takes(inputs):
            return None
        average = self.moving_average
        weight = average.next_weight if average else 0.0
        self.optimiser.lr = lr
        try:
            tensor = self.captured.run(inputs, self.optimiser.learning_rates(lr), weight, self._seed_dropout)
            pending = PendingStatistics(tensor)
            self.prefetcher.prefetch(self.micro_batches)
            statistics = pending.read()
        except (CannotCaptureError, torch.OutOfMemoryError) as error:
            reason = "memory is short" if isinstance(error, torch.OutOfMemoryError) else str(error)
            self.watcher.say(f"train.cuda_graph: steps are launched kernel by kernel from here on, as {reason}")
            self.captured = self.prefetcher.ready = None
            return None
        if statistics.finite and average:
            average.updates += 1
        return [inputs], statistics

    def _compute_step(self, inputs: Inputs, scalars: StepScalars) -> Tensor:
        """All of a step on the device; returns objective, gradient norm, and plain loss where that is another."""
        self.optimiser.zero_grad()
        self.optimiser.read_rates_from(scalars.lr)
        with self.precision.autocast(), cudnn_attention(self.batches.one_shape):
            losses = self.losses(inputs)
            loss = losses.objective / scalars.count
        loss.backward()
        parameters = [parameter for parameter in self.model.parameters() if parameter.grad is not None]
        plain = [] if losses.plain is None else [losses.plain / scalars.scored]
        statistics = torch.stack([loss.detach().float(), gradient_norm(parameters).float(), *plain])
        found_inf = torch.maximum((~statistics[:2].isfinite().all()).float(), scalars.hold)
        scale = grad_scale(statistics[1], self.config.clip) if self.config.clip else None
        self.optimiser.step(found_inf, scale)
        if self.moving_average:
            self.moving_average.update_on_device(scalars.average_weight * (1 - found_inf))
        return statistics

    # Forward and backward

    def _compute_gradients(self) -> tuple[list[Inputs], Tensor, Tensor | None]:
        """Inputs, objective and plain loss of the next batch; out of memory, again in smaller micro-batches."""
        while True:
            try:
                return self._accumulate_gradients()
            except RuntimeError as error:
                if not is_out_of_memory(error) or not self._can_split():
                    raise
            self._split()  # out of the handler, where the error still holds the tensors of the failed pass

    def _accumulate_gradients(self) -> tuple[list[Inputs], Tensor, Tensor | None]:
        """Inputs of the next batch, its objective, and its plain loss where that is another."""
        self.optimiser.zero_grad()
        inputs = self._next_inputs()
        count = self.world.sum(sum(part.count for part in inputs))
        self._seed_dropout()
        total, plain = torch.zeros((), device=self.world.device), None
        for number, part in enumerate(inputs, start=1):
            self.expert_parallel.set_counted(part.tokens > 0)
            with self.world.no_sync(self.losses, more=number < len(inputs)):
                with self.precision.autocast(), cudnn_attention(self.batches.one_shape):
                    losses = self.losses(part)
                    loss = losses.objective / count * (part.count > 0)
                (loss * self.world.size).backward()  # DDP and FSDP average gradients, which should be summed
            total += loss.detach()
            if losses.plain is not None:
                plain = (0.0 if plain is None else plain) + losses.plain * (part.count > 0)
        self.expert_parallel.sum_gradients()
        scored = count if plain is None else self.world.sum(sum(part.scored for part in inputs))
        return inputs, total, None if plain is None else plain / max(1, scored)

    @property
    def micro_batches(self) -> int:
        """Parts in which this process computes its share of a batch."""
        return self.config.accumulate * self.memory_splits

    def _can_split(self) -> bool:
        """A micro-batch has at least one example; and several processes must all compute equally often."""
        alone = self.world.size == 1 and not self.fsdp
        return alone and self.micro_batches < len(self.prefetcher.batch().examples)

    def _split(self) -> None:
        self.memory_splits *= 2
        self.optimiser.zero_grad()
        torch.cuda.empty_cache()
        self.watcher.say(
            f"step {self.spent.steps + 1}: out of memory; batches are computed in {self.micro_batches} parts from here "
            f"on, as with train.accumulate={self.micro_batches}"
        )

    def _next_inputs(self) -> list[Inputs]:
        return self.prefetcher.inputs(self.micro_batches)

    def _inputs(self, batch: Batch) -> Inputs:
        """A batch on the device, or where steps are captured, on the host in one of few shapes."""
        if self.captured is not None and self.micro_batches == 1:
            fitted = self.captured.shapes.fit(self._host_inputs(batch))
            if fitted is not None:
                return fitted
        return self.task.inputs(batch, config_of(self.model), self.world.device)

    def _host_inputs(self, batch: Batch) -> Inputs:
        return self.task.inputs(batch, config_of(self.model), torch.device("cpu"))

    def _seed_dropout(self) -> None:
        """Dropout of a step is the same whether the run was interrupted before or not."""
        seed = (self.seed * 1_000_003 + self.spent.steps) * 4_096 + self.world.rank
        torch.default_generator.manual_seed(seed)  # torch.manual_seed records the stack, for devices that are not used
        if self.world.device.type == "cuda":
            torch.cuda.manual_seed(seed)

    # Update

    def _update(self, loss: Tensor, plain: Tensor | None) -> StepStatistics:
        """Clips the gradients and updates the weights, unless something is not finite.

        A fused optimiser on a GPU checks that on the device, while this process builds the next batch.
        """
        limit, parameters = self.config.clip or None, [p for p in self.model.parameters() if p.grad is not None]
        norm = self.expert_parallel.gradient_norm(parameters).float().to(loss.device)
        values = [] if plain is None else [plain.float().to(loss.device)]
        pending = PendingStatistics(torch.stack([loss.detach().float(), norm, *values]))
        if self.optimiser.checks_on_device and self.world.size == 1:
            self.optimiser.step(pending.found_inf(), grad_scale(norm, limit) if limit else None)
            self.prefetcher.prefetch(self.micro_batches)
            return pending.read()
        statistics = pending.read()
        if statistics.finite:
            clip_gradients(parameters, limit, statistics)
            self.optimiser.step()
        return statistics

    def _skip(self, statistics: StepStatistics) -> None:
        """Stops at a non-finite loss or gradient, or counts the batch; either way no weight changed."""
        location = f"batch {self.prefetcher.index} of epoch {self.prefetcher.epoch}"
        if self.captured is not None:  # the gradients of a graph are not those of its parameters
            self.prefetcher.ready, captured, self.captured = None, self.captured, None
            self._accumulate_gradients()
            self.captured = captured
        tokenizers = self.task.vocabularies.tokenizers
        self._non_finite.handle(
            describe_non_finite(
                self.spent.steps + 1, statistics, self.model, location, self.prefetcher.batch(), tokenizers
            )
        )
        self.spent.skipped += 1

    @contextmanager
    def _saved_on_error(self) -> Iterator[None]:
        """Saves the steps since the last checkpoint before an error ends the run; no weight changes within it."""
        try:
            yield
        except Exception:
            alone = self.world.size == 1 and not self.partitioned  # several processes save together or not at all
            if alone and self.spent.steps > self.saved_step:
                with suppress(Exception):  # the first error is the one to report
                    if all(bool(weight.isfinite().all()) for weight in self.weights().values()):
                        self.save()
            raise

    def weights(self) -> dict[str, nn.Parameter]:
        return dict(self.model.named_parameters())
