"""From a store to the arrays of a training step: settings, the plan, the tokens of a batch.

batches = BucketedConfig().build(store, tokens_per_batch=4096, seed=1)
for step in range(batches.num_batches(epoch)):
    batch = batches.batch(epoch, step)          # or batch(epoch, step, rank, world): one process's part of it
    batch.fields["source"].tokens               # int64 [rows, time]
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Literal

import numpy as np
from jaxtyping import Int64, UInt8
from pydantic import Field

from regard.config import BARE_KIND, BY_KIND, Config
from regard.data.collate import Packed, Padded, Ragged, pack, pad, take
from regard.data.plan import BucketedPlan, PackedPlan, Plan, shard
from regard.data.store import Store
from regard.data.stream import Order, StreamPlan


@dataclass(frozen=True, eq=False)
class Batch:
    """What one training step takes: each field's tokens, the labels, and which examples they come from."""

    fields: dict[str, Padded | Packed]
    labels: dict[str, Int64[np.ndarray, " rows"]]
    examples: Int64[np.ndarray, " rows"]
    """Numbers of the examples in the store; in a stream, where each row begins."""
    seed: int = 0
    """Beside the epoch, what a task's own random choices about an example follow from."""
    epoch: int = 0
    images: dict[str, UInt8[np.ndarray, "rows height width channels"]] = field(default_factory=dict)
    """Pixels by field, where examples have images."""
    origins: tuple[str, Int64[np.ndarray, " rows"]] | None = None
    """The file of the examples and the line of each, where these are known."""


class Batches(ABC):
    """The batches of every epoch, each a pure function of (seed, epoch, step)."""

    one_shape = False
    """Whether all have the same shape, but for an epoch's last: what is prepared for a shape then pays."""
    one_row = False
    """Whether each is one row, of whatever length: what is prepared for rows of any length then pays."""

    @abstractmethod
    def num_batches(self, epoch: int) -> int:
        """How many batches an epoch has."""

    @abstractmethod
    def batch(self, epoch: int, step: int, rank: int = 0, world: int = 1) -> Batch:
        """A batch, or the part of it that process `rank` of `world` takes; a part may have no rows."""


class BucketedConfig(Config):
    """Examples of similar length share a batch: shuffled pools are sorted by length, then the batches are shuffled.

    The budget counts rows times the longest sequence, padding included, of the source or the target, whichever is more.
    """

    kind: Literal["bucketed"] = "bucketed"
    pool: int = Field(50, ge=1)
    """Batches' worth of examples that are sorted together, at most a quarter of all: more pads less, and mixes less."""

    def build(self, store: Store, *, tokens_per_batch: int, seed: int = 0) -> Batches:
        plan = BucketedPlan(store.lengths, tokens_per_batch=tokens_per_batch, seed=seed, pool=self.pool)
        return ExampleBatches(store, plan, pad, seed=seed)


class PackedConfig(Config):
    """Examples stand one after another in one row without padding; attention keeps them apart by their lengths.

    The budget counts the tokens of the source or the target, whichever is more.
    """

    kind: Literal["packed"] = "packed"
    window: int = Field(8, ge=1)
    """Batches that are open at a time while an example looks for one with room: more are fuller, and slower to plan."""

    def build(self, store: Store, *, tokens_per_batch: int, seed: int = 0) -> Batches:
        plan = PackedPlan(store.lengths, tokens_per_batch=tokens_per_batch, seed=seed, window=self.window)
        return ExampleBatches(store, plan, pack, seed=seed)


class ExampleBatches(Batches):
    """Batches of whole examples, padded or packed as `lay` does it."""

    def __init__(self, store: Store, plan: Plan, lay: Callable[[Ragged], Padded | Packed], *, seed: int = 0) -> None:
        self.store, self.plan, self.lay, self.seed = store, plan, lay, seed
        self.one_row = lay is pack
        self._tokens = np.sum(list(store.lengths.values()), axis=0)

    def num_batches(self, epoch: int) -> int:
        return self.plan.num_batches(epoch)

    def largest(self) -> list[int]:
        """Those batches of the first epoch that have the most examples, the longest one, or the most of a field."""
        lengths = np.stack(list(self.store.lengths.values()), axis=1)
        batches = [lengths[self.plan.examples(0, step)] for step in range(self.num_batches(0))]
        sizes = np.array([[len(rows), rows.max(), *rows.sum(axis=0), *(rows - 1).sum(axis=0)] for rows in batches])
        return np.unique(sizes.argmax(axis=0)).tolist()

    def batch(self, epoch: int, step: int, rank: int = 0, world: int = 1) -> Batch:
        examples = self.plan.examples(epoch, step)
        examples = examples[shard(self._tokens[examples], rank, world)]
        ragged = {name: self.store.gather(name, examples, seed=self.seed, epoch=epoch) for name in self.store.fields}
        labels = {name: values[examples] for name, values in self.store.labels.items()}
        images = self.store.images(examples, seed=self.seed, epoch=epoch)
        fields = {name: self.lay(rows) for name, rows in ragged.items()}
        origins = (self.store.file, self.store.lines[examples]) if self.store.file else None
        return Batch(fields, labels, examples, self.seed, epoch, images, origins)


class StreamConfig(Config):
    """One long text in rows of equal length, for language models; examples run on into one another.

    The budget counts predicted tokens: rows times `context`.
    """

    kind: Literal["stream"] = "stream"
    context: int = Field(256, ge=1)
    """Tokens that a row predicts, each from those before it in the row."""
    measured_context: int | None = Field(None, ge=1)
    """Tokens of a row of validation and test data, if another: recurrent models can use more than they trained on."""
    order: Order = "random"
    """Where rows begin: anywhere (random), or at cuts end to end, in another order each epoch (shuffled) or not."""
    field: str = "text"
    """The field of the examples that holds the text."""

    def build(self, store: Store, *, tokens_per_batch: int, seed: int = 0) -> Batches:
        tokens = len(store.stream(self.field))
        plan = StreamPlan(tokens, context=self.context, tokens_per_batch=tokens_per_batch, seed=seed, order=self.order)
        return StreamBatches(store, plan, field=self.field)


class StreamBatches(Batches):
    """Batches of rows from one long stream; a row has `context + 1` tokens, so inputs and answers overlap."""

    one_shape = True

    def __init__(self, store: Store, plan: StreamPlan, *, field: str = "text") -> None:
        self.plan, self.field = plan, field
        self._stream = store.stream(field)

    def num_batches(self, epoch: int) -> int:
        return self.plan.num_batches(epoch)

    def batch(self, epoch: int, step: int, rank: int = 0, world: int = 1) -> Batch:
        starts = self.plan.starts(epoch, step)
        starts = starts[shard(self.plan.lengths(starts) - 1, rank, world)]
        rows = take(self._stream, starts, self.plan.lengths(starts))
        return Batch({self.field: pad(rows)}, {}, starts, self.plan.seed, epoch)


BatchingConfig = Annotated[BucketedConfig | PackedConfig | StreamConfig, BY_KIND, BARE_KIND]
