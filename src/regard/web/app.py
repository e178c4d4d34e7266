"""The application: the routes over the runs that are served, and their OpenAPI document."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

from fastapi import APIRouter, FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.responses import PlainTextResponse

from regard import __version__
from regard.data.languages import Pair
from regard.web import classify, completions, look, translate
from regard.web.engine import RunEngine
from regard.web.errors import HANDLED, OpenAIProblemBody, Problem, documented, handle_error
from regard.web.guard import Guard
from regard.web.prometheus import ServerMetrics
from regard.web.registry import ANY_TASK, EngineFor, ModelRegistry, open_runs
from regard.web.settings import ServeConfig

ROUTES = (translate.routes, completions.routes, classify.routes, look.routes)
"""A new route is a new module here."""
PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"


def make_app(
    folders: Mapping[str, Path],
    config: ServeConfig = ServeConfig(),  # noqa: B008
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
    app.openapi = lambda: openapi(app, registry, config)  # type: ignore[method-assign]
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


def openapi(app: FastAPI, registry: ModelRegistry, config: ServeConfig) -> dict[str, Any]:
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


def _restrict_to_runs(schemas: dict[str, Any], registry: ModelRegistry) -> None:
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


def _restrict(schema: dict[str, Any], field: str, values: list[str]) -> None:
    """Restricts a text field to some values; where it may be null, it still may."""
    about = schema["properties"][field]
    text = next((kind for kind in about.get("anyOf", []) if kind.get("type") == "string"), about)
    if values:
        text["enum"] = sorted(set(values))


def _require_key(document: dict[str, Any]) -> None:
    document["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
    for path, methods in document["paths"].items():
        for operation in methods.values():
            operation["security"] = [] if path == "/health" else [{"key": []}]
