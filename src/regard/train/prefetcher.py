"""The batches of a run as this process computes them, one after another; the next may be made while a device works."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from regard.data.batches import Batch, Batches
from regard.tasks.base import Inputs
from regard.train.parallel.processes import Team


class Feed:
    """Where a run stands in its data, and this process's parts of the batch there."""

    def __init__(self, batches: Batches, make: Callable[[Batch], Inputs], team: Team) -> None:
        self.batches, self.make, self.team = batches, make, team
        self.epoch, self.index = 0, 0
        self._ready: tuple[tuple[int, int, int], list[Inputs]] | None = None

    @property
    def epochs(self) -> float:
        """Epochs that are over, with the share of this one."""
        return self.epoch + self.index / max(1, self.batches.num_batches(self.epoch))

    def batch(self) -> Batch:
        """The batch at this place, for all processes."""
        return self.batches.batch(self.epoch, self.index)

    def inputs(self, parts: int) -> list[Inputs]:
        """This process's parts of the batch at this place; made now, unless they are ready."""
        place, ready, self._ready = (self.epoch, self.index, parts), self._ready, None
        return ready[1] if ready is not None and ready[0] == place else self._made(*place)

    def look_ahead(self, parts: int) -> None:
        """Makes the inputs of the batch after this one; what fails now fails once more when its turn has come."""
        place = (*self._following(), parts)
        with suppress(Exception):
            self._ready = place, self._made(*place)

    def advance(self) -> None:
        """On to the next batch."""
        self.epoch, self.index = self._following()

    def restore(self, epoch: int, index: int, epochs: float, batches: int | None = None) -> bool:
        """Back to a batch of an epoch that had so many; where it has another number now, to the same share of it.

        Returns whether it is the same batch.
        """
        number = self.batches.num_batches(epoch)
        same = index == 0 or (index < number and batches in (None, number))
        self.epoch, self.index = epoch, index if same else min(number - 1, max(0, int((epochs - epoch) * number)))
        self._ready = None
        return same

    def _following(self) -> tuple[int, int]:
        last = self.index + 1 >= self.batches.num_batches(self.epoch)
        return (self.epoch + 1, 0) if last else (self.epoch, self.index + 1)

    def _made(self, epoch: int, index: int, parts: int) -> list[Inputs]:
        """A batch may have fewer rows than parts.

        Alone, empty parts are left out; in a team, where all processes must compute equally often, a part of one row
        that counts for nothing stands in.
        """
        everyones = parts * self.team.size
        own = range(self.team.rank * parts, (self.team.rank + 1) * parts)
        made = []
        for number in own:
            batch = self.batches.batch(epoch, index, number, everyones)
            if len(batch.examples):
                made.append(self.make(batch))
            elif self.team.size > 1:
                others = (self.batches.batch(epoch, index, other, everyones) for other in range(everyones))
                stand_in = next(other for other in others if len(other.examples))
                made.append(replace(self.make(stand_in), count=0, tokens=0, flops=0.0))
        return made
