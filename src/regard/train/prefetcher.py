"""The batches of a run as this process computes them; the next one may be built while a device works."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from regard.data.batches import Batch, Batches
from regard.tasks.base import Inputs
from regard.train.parallel.processes import World


class Prefetcher:
    """The position in the training data, and this process's micro-batches there."""

    def __init__(self, batches: Batches, make: Callable[[Batch], Inputs], world: World) -> None:
        self.batches, self.make, self.world = batches, make, world
        self.epoch, self.index = 0, 0
        self.ready: tuple[tuple[int, int, int], list[Inputs]] | None = None
        """Micro-batches that were built ahead, and their position."""

    @property
    def epochs(self) -> float:
        """Epochs so far, as a fraction."""
        return self.epoch + self.index / max(1, self.batches.num_batches(self.epoch))

    def batch(self) -> Batch:
        """The current batch, of all processes."""
        return self.batches.batch(self.epoch, self.index)

    def inputs(self, micro_batches: int) -> list[Inputs]:
        """This process's micro-batches of the current batch; built now, unless they are ready."""
        position, ready, self.ready = (self.epoch, self.index, micro_batches), self.ready, None
        return ready[1] if ready is not None and ready[0] == position else self._build(*position)

    def prefetch(self, micro_batches: int) -> None:
        """Builds the next batch; an error is raised when its turn comes."""
        position = (*self._following(), micro_batches)
        with suppress(Exception):
            self.ready = position, self._build(*position)

    def advance(self) -> None:
        self.epoch, self.index = self._following()

    def restore(self, epoch: int, index: int, epochs: float, batches: int | None = None) -> bool:
        """Back to a batch of an epoch of so many; where it has another number now, to the same share of the epoch.

        Returns whether it is the same batch.
        """
        number = self.batches.num_batches(epoch)
        same = index == 0 or (index < number and batches in (None, number))
        self.epoch, self.index = epoch, index if same else min(number - 1, max(0, int((epochs - epoch) * number)))
        self.ready = None
        return same

    def _following(self) -> tuple[int, int]:
        last = self.index + 1 >= self.batches.num_batches(self.epoch)
        return (self.epoch + 1, 0) if last else (self.epoch, self.index + 1)

    def _build(self, epoch: int, index: int, micro_batches: int) -> list[Inputs]:
        """A batch may have fewer rows than there are micro-batches.

        In one process, empty ones are left out. Several processes must compute equally often, so there a row with
        weight 0 stands in.
        """
        total = micro_batches * self.world.size
        numbers = range(self.world.rank * micro_batches, (self.world.rank + 1) * micro_batches)
        inputs = []
        for number in numbers:
            batch = self.batches.batch(epoch, index, number, total)
            if len(batch.examples):
                inputs.append(self.make(batch))
            elif self.world.size > 1:
                others = (self.batches.batch(epoch, index, other, total) for other in range(total))
                stand_in = next(other for other in others if len(other.examples))
                inputs.append(replace(self.make(stand_in), count=0, tokens=0, flops=0.0))
        return inputs
