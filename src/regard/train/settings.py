"""The `[train]` table of a recipe: how the model is trained, how long, and what is kept."""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveInt

from regard.train.average import MovingAverageConfig
from regard.train.budget import BudgetConfig
from regard.train.log import TrackerName
from regard.train.optimiser import AdamWConfig, OptimiserConfig
from regard.train.parallel.experts import ExpertParallelSetting
from regard.train.parallel.model import ParallelSetting
from regard.train.precision import PrecisionSetting
from regard.train.schedule import NoamConfig, ScheduleConfig

Interval = PositiveInt | Annotated[float, Field(gt=0, lt=1)]
"""Steps, or a share of the budget."""


class TrainConfig(BudgetConfig):
    """How the model is trained."""

    renamed: ClassVar[Mapping[str, str]] = {"between_blocks": "residual_dtype"}

    tokens_per_batch: PositiveInt = 4096
    """Tokens of a batch, all processes and parts of it together."""
    accumulate: int = Field(1, ge=1, le=4096)
    """Compute each batch in so many parts, one after another, to save memory; the result is the same."""
    optimiser: OptimiserConfig = AdamWConfig()
    """What changes the weights."""
    schedule: ScheduleConfig = NoamConfig()
    """Learning rate over time."""
    clip: NonNegativeFloat = 1.0
    """Largest norm of the gradient; longer ones are scaled down. 0: no limit."""
    skip_bad: bool = False
    """Pass over and count batches whose loss or gradient is not a number, in place of stopping at the first one."""
    precision: PrecisionSetting = "auto"
    """Data type of matrix products; weights are always float32."""
    residual_dtype: PrecisionSetting = "auto"
    """Data type of the residual stream while training. auto: bfloat16 on a GPU with pre-norm, else float32."""
    compile: Literal["auto", "on", "off"] = "auto"
    """torch.compile; auto: on a GPU, for streams of text, which have one shape, and packed batches, which are one row;
    and for runs that earn back the time."""
    cuda_graph: bool = False
    """Launch each training step on a GPU as one CUDA graph. Batches are padded to few shapes for it; translation packs
    them into rows of one size."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where to compute; auto: on a GPU if there is one."""
    parallel: ParallelSetting = "auto"
    """On several processes, which torchrun starts: `ddp` gives each a copy of the model, `fsdp` cuts weights and
    optimiser state up among them; `none` is one process. auto: ddp, or fsdp where copies would fill half of a GPU."""
    expert_parallel: ExpertParallelSetting = 1
    """Divide the experts of each mixture among so many processes, to which tokens travel; it must divide the number of
    experts and that of processes. All else stays as `parallel` has it. auto: as many as possible; 1: not divided."""
    activation_checkpointing: bool = False
    """Keep only what goes into each block, and compute the rest again for the gradient: less memory, more work."""
    save_every: Interval = 500
    """Steps between checkpoints, or a share of the budget such as 0.1; one is written before each validation too, so
    that a failure there costs nothing."""
    valid_every: Interval | None = None
    """Steps between validations, or a share of the budget such as 0.1; as between checkpoints when left out."""
    valid_limit: PositiveInt | None = None
    """Most examples of the validation data (of a stream: rows) that a validation measures, evenly spread; all when left
    out."""
    score_limit: NonNegativeInt | None = None
    """Most validation examples that a validation generates texts for, to score them (BLEU, ROUGE …); when left out, all
    where `best` is such a score, else none."""
    log_every: PositiveInt = 50
    """Steps between lines of metrics.jsonl."""
    keep: PositiveInt = 2
    """Newest checkpoints that are kept, beside the best and the last."""
    best: str | None = None
    """Metric on the validation data that chooses the best checkpoint, such as loss, accuracy or bleu; the task's usual
    one when left out. Scores of generated text are those of a greedy search, whatever `search` says."""
    patience: PositiveInt | None = None
    """Stop after so many validations without a better one."""
    average: NonNegativeInt = 0
    """At the end, use the mean of the weights of so many last checkpoints, if it is better on the validation data."""
    moving_average: MovingAverageConfig | None = None
    """Keep a moving average of the weights and use it in their place."""
    track: tuple[TrackerName, ...] = ()
    """Show the run live in trackio, tensorboard or both, beside metrics.jsonl (pip install 'regard[track]')."""
