"""The application, its OpenAPI document, and the server: granian in this process, with a graceful shutdown."""

import asyncio
import gc
import logging
import signal
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal

from fastapi import APIRouter, FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.responses import PlainTextResponse
from granian.constants import HTTPModes, Interfaces
from granian.http import HTTP1Settings
from granian.server.embed import Server

from regard import __version__
from regard.data.languages import Pair
from regard.errors import ConfigError
from regard.web import classify, completions, documents, look, translate
from regard.web.engine import RunEngine
from regard.web.guard import Guard
from regard.web.prometheus import ServerMetrics
from regard.web.registry import ANY_TASK, EngineFor, ModelRegistry, open_runs
from regard.web.requests import HANDLED, Json, OpenAIProblemBody, Problem, documented, handle_error
from regard.web.settings import ServeConfig

ROUTES = (translate.routes, documents.routes, completions.routes, classify.routes, look.routes)
"""A new route is a new module here."""
PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"
DEFAULTS = ServeConfig()
SIGNALS = (signal.SIGTERM, signal.SIGINT)
ABORT_SECONDS = 2.0  # to send the errors of aborted requests
log = logging.getLogger("regard.serve")


def make_app(
    folders: Mapping[str, Path],
    config: ServeConfig = DEFAULTS,
    *,
    device: str = "auto",
    languages: Mapping[str, Pair] | None = None,
    engine: EngineFor = RunEngine,
) -> Guard:
    """An ASGI application that serves run folders under these names."""
    metrics = ServerMetrics()
    return guarded(open_runs(folders, config, metrics, device, languages or {}, engine), metrics, config)


def guarded(registry: ModelRegistry, metrics: ServerMetrics, config: ServeConfig) -> Guard:
    return Guard(application(registry, metrics, config), config, metrics, give_up=registry.stop)


def application(registry: ModelRegistry, metrics: ServerMetrics, config: ServeConfig) -> FastAPI:
    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        for served in registry.by_name.values():
            served.worker.start()
        yield
        registry.stop()

    app = FastAPI(title="regard", version=__version__, lifespan=lifespan, docs_url=None, redoc_url=None)
    for routes in ROUTES:
        app.include_router(routes(registry, metrics))
    app.include_router(state_routes(metrics))
    for kind in HANDLED:
        app.add_exception_handler(kind, handle_error)
    app.openapi = lambda: openapi(app, registry, config)
    return app


def state_routes(server_metrics: ServerMetrics) -> APIRouter:
    router = APIRouter(tags=["state"])

    @router.get("/health", responses=documented(Problem))
    async def health() -> dict[str, Literal["ok"]]:
        """Whether the server responds; needs no key."""
        return {"status": "ok"}

    @router.get("/metrics", response_class=PlainTextResponse, responses=documented(Problem))
    async def metrics() -> PlainTextResponse:
        """Metrics for Prometheus."""
        return PlainTextResponse(server_metrics.text(), media_type=PROMETHEUS)

    return router


def openapi(app: FastAPI, registry: ModelRegistry, config: ServeConfig) -> Json:
    """FastAPI's document with the runs, languages and keys of this server; made once."""
    if app.openapi_schema is None:
        document = get_openapi(title=app.title, version=app.version, routes=app.routes)
        schemas = document["components"]["schemas"]
        for model in (translate.TranslateRequest, Problem, OpenAIProblemBody):
            schemas[model.__name__] = model.model_json_schema(ref_template="#/components/schemas/{model}")
        schemas["OpenAIProblem"] = {
            "type": "object",
            "properties": {"error": {"$ref": f"#/components/schemas/{OpenAIProblemBody.__name__}"}},
            "required": ["error"],
            "additionalProperties": False,
        }
        _restrict_to_runs(schemas, registry)
        if config.api_key is not None:
            _require_key(document)
        app.openapi_schema = document
    return app.openapi_schema


def _restrict_to_runs(schemas: dict[str, Json], registry: ModelRegistry) -> None:
    """Lists the runs that a request may name: those of its schema's `task`."""
    pairs = [served.pair for served in registry.of_task("translation")]
    _restrict(schemas["TranslateRequest"], "source", [*(pair.source for pair in pairs), "auto"])
    _restrict(schemas["TranslateRequest"], "target", [pair.target for pair in pairs])
    for schema in schemas.values():
        if "task" in schema:
            task = schema.pop("task")
            runs = registry.by_name.values() if task == ANY_TASK else registry.of_task(task)
            names = [served.name for served in runs]
            _restrict(schema, "model", names)
            if names and "model" in schema.get("example", {}):
                schema["example"]["model"] = names[0]


def _restrict(schema: Json, field: str, values: list[str]) -> None:
    """Restricts a text field to some values; where it may be null, it still may."""
    about = schema["properties"][field]
    text = next((kind for kind in about.get("anyOf", []) if kind.get("type") == "string"), about)
    if values:
        text["enum"] = sorted(set(values))


def _require_key(document: Json) -> None:
    document["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
    for path, methods in document["paths"].items():
        for operation in methods.values():
            operation["security"] = [] if path == "/health" else [{"key": []}]


def serve(app: Guard, config: ServeConfig, ready: Callable[[str], None]) -> None:
    """Serves until a signal, then finishes running requests; `ready` is called with the address."""
    port = free_port(config.host, config.port)
    gc.collect()
    gc.freeze()  # what is loaded by now stays, and collecting it again and again would delay responses

    async def run() -> None:
        stop, loop = asyncio.Event(), asyncio.get_running_loop()
        for number in SIGNALS:
            loop.add_signal_handler(number, stop.set)
        await serve_until(stop, app, config, port, ready)

    asyncio.run(run())


async def serve_until(
    stop: asyncio.Event, app: Guard, config: ServeConfig, port: int, ready: Callable[[str], None]
) -> None:
    """Serves until `stop` is set; running requests then have `stop_seconds`."""
    server = make_server(app, config, port)
    serving, stopping = asyncio.ensure_future(server.serve()), asyncio.ensure_future(stop.wait())
    await _until_open(config.host, port, serving)
    ready(f"http://{f'[{config.host}]' if ':' in config.host else config.host}:{port}")
    await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
    server.stop()
    finished, _ = await asyncio.wait({serving}, timeout=config.stop_seconds)
    if not finished:
        log.warning("some requests did not finish within %g s", config.stop_seconds)
        app.give_up()
        await asyncio.wait({serving}, timeout=ABORT_SECONDS)
    stopping.cancel()


def make_server(app: Guard, config: ServeConfig, port: int) -> Server:
    """granian with our limits; HTTP/1 only, since its timeout for headers applies only there."""
    return Server(
        app,
        address=config.host,
        port=port,
        interface=Interfaces.ASGI,
        http=HTTPModes.http1,
        websockets=False,
        backlog=config.connections,
        backpressure=config.connections,
        http1_settings=HTTP1Settings(header_read_timeout=int(config.read_seconds * 1000)),
        log_enabled=False,
    )


async def _until_open(host: str, port: int, serving: "asyncio.Future[None]") -> None:
    """Waits until the port accepts connections."""
    while not serving.done():
        try:
            _, writer = await asyncio.open_connection(host if host not in ("0.0.0.0", "::") else None, port)
        except OSError:
            await asyncio.sleep(0.02)
        else:
            writer.close()
            return


def free_port(host: str, port: int) -> int:
    """The port if it is free; any free one for 0."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise ConfigError("port", f"cannot listen at {host}:{port} ({error.strerror}); choose another") from None
        return int(probe.getsockname()[1])
