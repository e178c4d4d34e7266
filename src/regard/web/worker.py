"""Jobs, and the thread of each run that owns its model and executes them.

A batch is whatever is queued when the model becomes free: no job waits for a batch to fill up.
"""

import asyncio
import logging
import threading
from collections import deque
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from fastapi import Request

from regard.errors import Failure, RegardError
from regard.web.engine import Engine
from regard.web.prometheus import ServerMetrics
from regard.web.requests import BusyError, DisconnectError, StoppingError, request_error
from regard.web.text_stream import Chunk, TextStream

RESPONSES_AT_ONCE = 4
"""Responses of one batch that are sent before the event loop serves other requests, such as /health."""
log = logging.getLogger("regard.serve")


Item = TypeVar("Item")
Result = TypeVar("Result")
TakenItem = TypeVar("TakenItem", contravariant=True)
GivenResult = TypeVar("GivenResult", covariant=True)


class Work(Protocol[TakenItem, GivenResult]):
    """What a route wants of a model; jobs whose work is equal may share a batch."""

    repeatable: ClassVar[bool]
    """Whether each job of a failed batch is tried again alone."""

    def run(self, engine: Engine, items: Sequence[TakenItem]) -> Sequence[GivenResult]:
        """One result for each item."""
        ...


@dataclass(eq=False)
class Job(Generic[Item, Result]):
    """What one request wants of one run."""

    work: Work[Item, Result]
    items: Sequence[Item]
    """Texts, images or streams."""
    longest: int
    """Tokens of the longest item, read and generated."""
    future: "Future[list[Result]]" = field(default_factory=Future)
    """One result for each item."""

    def cancel(self) -> None:
        """The client has disconnected: a queued job is dropped, a running generation stops."""
        self.future.cancel()
        for item in self.items:
            if isinstance(item, TextStream):
                item.cancel()


AnyJob = Job[Any, Any]


class Worker:
    """Executes jobs in the order they come, those with equal work together."""

    def __init__(self, name: str, engine: Engine, *, queue: int, tokens_per_batch: int, metrics: ServerMetrics) -> None:
        self.name, self.engine, self.metrics = name, engine, metrics
        self.queue, self.tokens_per_batch = queue, tokens_per_batch
        self.responses = asyncio.Semaphore(RESPONSES_AT_ONCE)
        self._queued: deque[AnyJob] = deque()
        self._running: list[AnyJob] = []
        self._ready = threading.Condition()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name=f"regard {name}", daemon=True)
        metrics.watch("regard_queue_requests", "Requests in the queue.", {"model": name}, lambda: len(self._queued))

    def start(self) -> None:
        self._thread.start()

    def stop(self, seconds: float) -> None:
        """Refuses queued and new jobs, and ends after the current batch or these seconds."""
        with self._ready:
            self._stopping = True
            refused = list(self._queued)
            self._queued.clear()
            self._ready.notify_all()
        for job in refused:
            if job.future.set_running_or_notify_cancel():
                job.future.set_exception(StoppingError("the server is stopping"))
        if self._thread.is_alive():
            self._thread.join(seconds)
        for job in self._running:
            job.cancel()
            with suppress(InvalidStateError):  # it has finished after all
                job.future.set_exception(StoppingError("the server is stopping"))

    def submit(self, job: AnyJob) -> None:
        """Queues a job; a full queue refuses it at once."""
        with self._ready:
            if self._stopping:
                raise StoppingError("the server is stopping")
            if len(self._queued) >= self.queue:
                self._queued = deque(queued for queued in self._queued if not queued.future.cancelled())
            if len(self._queued) >= self.queue:
                raise BusyError(f"{self.name} is busy: {self.queue} requests are queued already; try again soon")
            self._queued.append(job)
            self._ready.notify()

    def _run(self) -> None:
        while batch := self._next_batch():
            self._running = batch
            self._execute(batch)
            self._running = []

    def _next_batch(self) -> list[AnyJob]:
        """Waits for a job; empty when the worker is stopped."""
        with self._ready:
            while not self._stopping:
                if batch := self._gather():
                    return batch
                self._ready.wait()
            return []

    def _gather(self) -> list[AnyJob]:
        """The first job of the queue, and all behind it with equal work that fit into its batch."""
        batch: list[AnyJob] = []
        remaining: deque[AnyJob] = deque()
        rows = longest = 0
        for job in self._queued:
            new_rows, new_longest = rows + len(job.items), max(longest, job.longest)
            fits = not batch or (job.work == batch[0].work and new_rows * new_longest <= self.tokens_per_batch)
            if not fits:
                remaining.append(job)
            elif job.future.set_running_or_notify_cancel():  # drops those whose client has disconnected
                batch.append(job)
                rows, longest = new_rows, new_longest
        self._queued = remaining
        return batch

    def _execute(self, batch: list[AnyJob]) -> None:
        work, items = batch[0].work, [item for job in batch for item in job.items]
        try:
            results = iter(work.run(self.engine, items))
        except Exception as error:  # whatever it was, the thread must survive for the other jobs
            self._fail(batch, error)
            return
        self.metrics.count("regard_batches_total", {"model": self.name})
        self.metrics.count("regard_batched_inputs_total", {"model": self.name}, len(items))
        for job in batch:
            job_results = [next(results) for _ in job.items]
            with suppress(InvalidStateError):  # cancelled while it was running
                job.future.set_result(job_results)

    def _fail(self, batch: list[AnyJob], error: Exception) -> None:
        """Tries each job alone where one of several may be at fault."""
        if len(batch) > 1 and batch[0].work.repeatable:
            for job in batch:
                self._execute([job])
            return
        if not isinstance(error, RegardError):
            log.error("%s failed on %r", self.name, batch[0].work, exc_info=error)
            error = Failure("the model failed on this input; the server's log says why")
        for job in batch:
            with suppress(InvalidStateError):
                job.future.set_exception(error)


async def results_of(request: Request, worker: Worker, job: Job[Item, Result]) -> list[Result]:
    """The results of a job, one for each item; the job is cancelled when the client disconnects."""
    _submit(worker, job)
    finished, disconnected = asyncio.wrap_future(job.future), asyncio.ensure_future(_disconnect(request))
    try:
        await asyncio.wait({finished, disconnected}, return_when=asyncio.FIRST_COMPLETED)
        if not finished.done():
            raise DisconnectError
        async with worker.responses:
            return finished.result()
    except RegardError as error:
        raise request_error(error) from error
    finally:
        disconnected.cancel()
        finished.cancel()
        job.cancel()


def chunks_of(worker: Worker, job: AnyJob) -> AsyncIterator[Chunk]:
    """The chunks of a job's streams as they come; closing the iterator cancels the job."""
    loop, queue = asyncio.get_running_loop(), asyncio.Queue[Chunk | None]()

    def put(chunk: Chunk | None) -> None:
        loop.call_soon_threadsafe(queue.put_nowait, chunk)

    for stream in job.items:
        assert isinstance(stream, TextStream)
        stream.on_chunk = put
    job.future.add_done_callback(lambda _: put(None))
    _submit(worker, job)  # before the iterator starts, so that a full queue is still an HTTP status
    return _chunks(queue, job)


async def _chunks(queue: "asyncio.Queue[Chunk | None]", job: AnyJob) -> AsyncIterator[Chunk]:
    try:
        while (chunk := await queue.get()) is not None:
            yield chunk
        job.future.result()
    except RegardError as error:
        raise request_error(error) from error
    finally:
        job.cancel()


def _submit(worker: Worker, job: AnyJob) -> None:
    try:
        worker.submit(job)
    except RegardError as error:
        raise request_error(error) from None


async def _disconnect(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
