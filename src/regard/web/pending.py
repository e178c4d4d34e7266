"""Between a route and a worker: a job is handed in, and given up when its client leaves."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from fastapi import Request

from regard.errors import RegardError
from regard.web.errors import refusal_of
from regard.web.guard import Gone
from regard.web.jobs import Job
from regard.web.text_stream import Passage, Piece
from regard.web.worker import Worker


async def answer(request: Request, worker: Worker, job: Job) -> list[Any]:
    """The results of a job, one an item."""
    _submit(worker, job)
    answered, gone = asyncio.wrap_future(job.future), asyncio.ensure_future(_until_gone(request))
    try:
        await asyncio.wait({answered, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not answered.done():
            raise Gone
        async with worker.turn:
            return answered.result()
    except RegardError as error:
        raise refusal_of(error) from error
    finally:
        gone.cancel()
        answered.cancel()
        job.leave()


def pieces(worker: Worker, job: Job) -> AsyncIterator[Piece]:
    """What is written, as it comes; whoever stops listening stops the writing. A full queue refuses at once."""
    loop, heard = asyncio.get_running_loop(), asyncio.Queue[Piece | None]()

    def tell(piece: Piece | None) -> None:
        loop.call_soon_threadsafe(heard.put_nowait, piece)

    for passage in job.items:
        assert isinstance(passage, Passage)
        passage.listen = tell
    job.future.add_done_callback(lambda _: tell(None))
    _submit(worker, job)
    return _heard(heard, job)


async def _heard(heard: "asyncio.Queue[Piece | None]", job: Job) -> AsyncIterator[Piece]:
    try:
        while (piece := await heard.get()) is not None:
            yield piece
        job.future.result()
    except RegardError as error:
        raise refusal_of(error) from error
    finally:
        job.leave()


def _submit(worker: Worker, job: Job) -> None:
    try:
        worker.submit(job)
    except RegardError as error:
        raise refusal_of(error) from None


async def _until_gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
