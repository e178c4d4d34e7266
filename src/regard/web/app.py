"""The application: all routes over the runs that are served."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal

from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse
from starlette.exceptions import HTTPException

from regard import __version__
from regard.data.languages import Pair
from regard.errors import RegardError
from regard.web import classify_routes as inside
from regard.web import completions
from regard.web import images as pictures
from regard.web import look_routes as looking
from regard.web import translate_routes as translate
from regard.web.engine import RunEngine
from regard.web.errors import Problem, Refusal, documented, error_response, refusal_of, sentence
from regard.web.guard import LEFT, Gone, Guard
from regard.web.openapi import openapi
from regard.web.prometheus import Meters
from regard.web.registry import EngineFor, Shelf, open_runs
from regard.web.settings import ServeConfig

PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"


def make_app(
    folders: Mapping[str, Path],
    config: ServeConfig = ServeConfig(),  # noqa: B008
    *,
    device: str = "auto",
    languages: Mapping[str, Pair] | None = None,
    engine: EngineFor = RunEngine,
) -> Guard:
    """An ASGI application that serves runs by the names given here."""
    meters = Meters()
    shelf = open_runs(folders, config, meters, device, languages or {}, engine)
    return guarded(shelf, meters, config)


def guarded(shelf: Shelf, meters: Meters, config: ServeConfig) -> Guard:
    """The application behind its only door."""
    return Guard(application(shelf, meters, config), config, meters, give_up=shelf.stop)


def application(shelf: Shelf, meters: Meters, config: ServeConfig) -> FastAPI:
    """The routes, without the guard before them."""

    @asynccontextmanager
    async def life(_app: FastAPI) -> AsyncIterator[None]:
        for served in shelf.by_name.values():
            served.worker.start()
        yield
        shelf.stop()

    app = FastAPI(title="regard", version=__version__, lifespan=life, docs_url=None, redoc_url=None)
    ours = (inside.routes(shelf), pictures.routes(shelf), looking.routes(shelf), state(meters))
    for router in (translate.routes(shelf), completions.routes(shelf, meters), *ours):
        app.include_router(router)
    for kind in (Refusal, RegardError, RequestValidationError, HTTPException, Gone):
        app.add_exception_handler(kind, _explain)
    app.openapi = lambda: openapi(app, shelf, config)  # type: ignore[method-assign]
    return app


def state(meters: Meters) -> APIRouter:
    """Whether the server is well, and what it has done."""
    router = APIRouter(tags=["state"])

    @router.get("/health", responses=documented(Problem))
    async def health() -> dict[str, Literal["ok"]]:
        """Whether the server answers; asks for no key."""
        return {"status": "ok"}

    @router.get("/metrics", response_class=PlainTextResponse, responses=documented(Problem))
    async def metrics() -> PlainTextResponse:
        """Counts for Prometheus."""
        return PlainTextResponse(meters.text(), media_type=PROMETHEUS)

    return router


async def _explain(request: Request, error: Exception) -> JSONResponse:
    """Any refusal in the shape that the route's clients expect."""
    path = request.url.path
    if isinstance(error, RequestValidationError):
        return error_response(path, 422, sentence(error.errors()))
    if isinstance(error, HTTPException):
        known = "; /openapi.json lists what there is" if error.status_code in (404, 405) else ""
        detail = f"{error.detail}: {request.method} {path}{known}" if known else str(error.detail)
        return error_response(path, error.status_code, detail, error.headers)
    if isinstance(error, Gone):
        return error_response(path, LEFT, "the client has left")
    refusal = refusal_of(error) if isinstance(error, RegardError) else error
    assert isinstance(refusal, Refusal)
    return error_response(path, refusal.status, str(refusal), refusal.headers)
