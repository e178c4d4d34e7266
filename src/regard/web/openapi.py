"""The OpenAPI document of a server: what FastAPI knows, and which runs, languages and keys there are."""

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from regard.web.errors import OpenAIProblemBody, Problem
from regard.web.registry import Shelf
from regard.web.settings import ServeConfig
from regard.web.translate_routes import TranslateRequest

SCHEMAS = "#/components/schemas/{model}"


def openapi(app: FastAPI, shelf: Shelf, config: ServeConfig) -> dict[str, Any]:
    """The document, made once."""
    if app.openapi_schema is None:
        tree = get_openapi(title=app.title, version=app.version, routes=app.routes)
        schemas = tree["components"]["schemas"]
        for shape in (TranslateRequest, Problem, OpenAIProblemBody):
            schemas[shape.__name__] = shape.model_json_schema(ref_template=SCHEMAS)
        schemas["OpenAIProblem"] = _around(OpenAIProblemBody.__name__)
        _name_runs(schemas, shelf)
        if config.api_key is not None:
            _ask_for_key(tree)
        app.openapi_schema = tree
    return app.openapi_schema


def _around(body: str) -> dict[str, Any]:
    """OpenAI's object around what is wrong."""
    properties = {"error": {"$ref": f"#/components/schemas/{body}"}}
    return {"type": "object", "properties": properties, "required": ["error"], "additionalProperties": False}


def _name_runs(schemas: dict[str, Any], shelf: Shelf) -> None:
    """Says which values mean something on this server."""
    translators, writers = shelf.of_task("translation"), shelf.of_task("language_model")
    pairs = [served.pair for served in translators]
    _only(schemas["TranslateRequest"], "source", [*(pair.source for pair in pairs), "auto"])
    _only(schemas["TranslateRequest"], "target", [pair.target for pair in pairs])
    able = {
        "TranslateRequest": translators,
        "CompletionRequest": writers,
        "ClassifyRequest": shelf.of_task("classification"),
        "AttentionRequest": list(shelf.by_name.values()),
    }
    for schema, runs in able.items():
        _only(schemas[schema], "model", [served.name for served in runs])
    if writers:
        schemas["CompletionRequest"]["example"]["model"] = writers[0].name


def _only(schema: dict[str, Any], field: str, values: list[str]) -> None:
    """Restricts a text field to some values; where it may be null, it still may."""
    about = schema["properties"][field]
    text = next((one for one in about.get("anyOf", []) if one.get("type") == "string"), about)
    if values:
        text["enum"] = sorted(set(values))


def _ask_for_key(tree: dict[str, Any]) -> None:
    tree["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
    for path, methods in tree["paths"].items():
        for operation in methods.values():
            operation["security"] = [] if path == "/health" else [{"key": []}]
