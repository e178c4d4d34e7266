"""Completions as OpenAI's clients know them: POST /v1/completions, GET /v1/models."""

from collections.abc import AsyncIterator
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import StreamingResponse

from regard.web.completion import CompletionWork
from regard.web.completion_shapes import Completion, CompletionRequest, Model, Models
from regard.web.errors import OpenAIProblem, Refusal, documented, error_response
from regard.web.pending import answer, pieces
from regard.web.prometheus import Meters
from regard.web.registry import Served, Shelf
from regard.web.text_stream import Piece

EVENT = {"type": "object", "properties": {"data": {"type": "string"}}, "required": ["data"]}
EVENTS = {"text/event-stream": {"schema": EVENT}}


def routes(shelf: Shelf, meters: Meters) -> APIRouter:
    """The routes below /v1."""
    router = APIRouter(prefix="/v1", tags=["completions"])

    @router.post(
        "/completions",
        response_model=Completion,
        responses={
            200: {"content": EVENTS, "description": "The completion, or with `stream` its pieces as events."},
            **documented(OpenAIProblem, 404, 422, 500, 503),
        },
    )
    async def completions(asked: CompletionRequest, request: Request) -> Any:  # noqa: ANN401
        """Write on from a prompt."""
        work = CompletionWork(asked, shelf.named(asked.model, "language_model"))
        if asked.stream:
            heard = pieces(work.served.worker, work.job)
            return StreamingResponse(_events(work, heard, meters), media_type="text/event-stream")
        await answer(request, work.served.worker, work.job)
        _count(work, meters)
        return work.tree([work.choice(passage) for passage in work.passages], work.usage())

    @router.get("/models", response_model=Models, responses=documented(OpenAIProblem))
    async def models() -> dict[str, Any]:
        """The runs that are served."""
        return {"object": "list", "data": [_model(served) for served in shelf.by_name.values()]}

    @router.get("/models/{name}", response_model=Model, responses=documented(OpenAIProblem, 404, 422))
    async def model(name: str) -> dict[str, Any]:
        """One of the runs that are served."""
        return _model(shelf.any(name))

    return router


async def _events(work: CompletionWork, heard: AsyncIterator[Piece], meters: Meters) -> AsyncIterator[str]:
    """Server-sent events: a piece each, the counts if they are wanted, and the word that ends a stream."""
    try:
        async for piece in heard:
            if piece.text or piece.finish or work.asked.logprobs is not None:
                yield work.event([work.part(piece)])
        for passage in work.passages:
            if not passage.limit:  # nothing was to be written, so nothing was heard of it
                yield work.event([work.choice(passage)])
    except Refusal as refusal:  # the status is sent already; OpenAI's clients look for the error in the stream
        yield f"data: {bytes(error_response('/v1/', refusal.status, str(refusal)).body).decode()}\n\n"
        return
    finally:
        _count(work, meters)
    if work.asked.stream_options is not None and work.asked.stream_options.include_usage:
        yield work.event([], work.usage())
    yield "data: [DONE]\n\n"


def _count(work: CompletionWork, meters: Meters) -> None:
    written = work.usage()["completion_tokens"]
    meters.count("regard_tokens_written_total", {"model": work.served.name}, written)


def _model(served: Served) -> dict[str, Any]:
    return {"id": served.name, "object": "model", "created": served.created, "owned_by": "regard"}
