"""One thread that owns a run's model, and the bounded queue before it.

A batch is what waits at the moment the model is free: nobody waits for company, and nobody who could share is left.
"""

import asyncio
import logging
import threading
from collections import deque
from concurrent.futures import InvalidStateError
from contextlib import suppress

from regard.errors import Failure, RegardError
from regard.web.engine import Engine
from regard.web.jobs import Job
from regard.web.prometheus import Meters

ANSWERS_AT_ONCE = 4
"""Answers of one batch that go out before the loop hears whoever else asks, such as for /health."""
log = logging.getLogger("regard.serve")


class Busy(RegardError):  # noqa: N818
    """More requests wait than the queue holds."""


class Stopping(RegardError):  # noqa: N818
    """The server is going away."""


class Worker:
    """Answers jobs in the order they come, those with the same ask together."""

    def __init__(self, name: str, engine: Engine, *, queue: int, tokens_per_batch: int, meters: Meters) -> None:
        self.name, self.engine, self.meters = name, engine, meters
        self.queue, self.tokens_per_batch = queue, tokens_per_batch
        self.turn = asyncio.Semaphore(ANSWERS_AT_ONCE)
        self._waiting: deque[Job] = deque()
        self._at_work: list[Job] = []
        self._ready = threading.Condition()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name=f"regard {name}", daemon=True)
        meters.watch("regard_queue_requests", "Requests that wait for the model.", {"model": name}, self.waiting)

    def start(self) -> None:
        """Begins to answer."""
        self._thread.start()

    def stop(self, seconds: float) -> None:
        """Refuses what waits and what comes, and ends after the batch at hand, which has so many seconds left."""
        with self._ready:
            self._stopping = True
            left = list(self._waiting)
            self._waiting.clear()
            self._ready.notify_all()
        for job in left:
            if job.future.set_running_or_notify_cancel():
                job.future.set_exception(Stopping("the server is stopping"))
        if self._thread.is_alive():
            self._thread.join(seconds)
        self._give_up()

    def _give_up(self) -> None:
        """Tells those whose batch has not ended that it is too late."""
        for job in self._at_work:
            job.leave()
            with suppress(InvalidStateError):  # it has ended after all
                job.future.set_exception(Stopping("the server is stopping"))

    def waiting(self) -> int:
        """Jobs that are not begun."""
        return len(self._waiting)

    def submit(self, job: Job) -> None:
        """Puts a job in the queue, at once or not at all."""
        with self._ready:
            if self._stopping:
                raise Stopping("the server is stopping")
            if len(self._waiting) >= self.queue:
                self._waiting = deque(waiting for waiting in self._waiting if not waiting.future.cancelled())
            if len(self._waiting) >= self.queue:
                raise Busy(f"{self.name} is busy: {self.queue} requests wait already; try again soon")
            self._waiting.append(job)
            self._ready.notify()

    def _run(self) -> None:
        while batch := self._take():
            self._at_work = batch
            self._answer(batch)
            self._at_work = []

    def _take(self) -> list[Job]:
        """The first that waits, and all behind it that may share its batch and fit in; none when told to stop."""
        with self._ready:
            while not self._stopping:
                if batch := self._gather():
                    return batch
                self._ready.wait()
            return []

    def _gather(self) -> list[Job]:
        batch: list[Job] = []
        kept: deque[Job] = deque()
        rows = longest = 0
        for job in self._waiting:
            rows_then, longest_then = rows + len(job.items), max(longest, job.longest)
            fits = not batch or (job.ask == batch[0].ask and rows_then * longest_then <= self.tokens_per_batch)
            if not fits:
                kept.append(job)
            elif job.future.set_running_or_notify_cancel():  # those whose client has left are dropped here
                batch.append(job)
                rows, longest = rows_then, longest_then
        self._waiting = kept
        return batch

    def _answer(self, batch: list[Job]) -> None:
        ask, items = batch[0].ask, [item for job in batch for item in job.items]
        try:
            results = iter(ask.answer(self.engine, items))
        except Exception as error:  # whatever it was, the thread must live for the others
            self._fail(batch, error)
            return
        self.meters.count("regard_batches_total", {"model": self.name})
        self.meters.count("regard_batched_inputs_total", {"model": self.name}, len(items))
        for job in batch:
            own = [next(results) for _ in job.items]
            with suppress(InvalidStateError):  # given up while it was at work
                job.future.set_result(own)

    def _fail(self, batch: list[Job], error: Exception) -> None:
        """Where one of several was at fault, each is tried alone."""
        if len(batch) > 1 and batch[0].ask.repeatable:
            for job in batch:
                self._answer([job])
            return
        if not isinstance(error, RegardError):
            log.error("%s failed on %r", self.name, batch[0].ask, exc_info=error)
            error = Failure("the model failed on this input; the server's log says why")
        for job in batch:
            with suppress(InvalidStateError):
                job.future.set_exception(error)
