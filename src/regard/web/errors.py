"""Errors of requests as a route's clients expect them: a sentence for LibreTranslate's, an object for OpenAI's."""

from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict
from starlette.exceptions import HTTPException

from regard.errors import Failure, RegardError

OPENAI = "/v1/"
OPENAI_TYPES = {401: "authentication_error", 408: "timeout_error", 500: "server_error", 503: "overloaded_error"}
CLIENT_CLOSED_REQUEST = 499  # nginx's status: the client disconnected before the response
MEANINGS = {
    400: "This cannot be done, or the Host header is foreign.",
    401: "The API key is missing or wrong.",
    404: "No such run.",
    408: "The request took too long to arrive.",
    413: "More than the server takes at once.",
    415: "Neither JSON nor a form.",
    422: "The request is not of the documented form.",
    500: "The model failed.",
    503: "Busy or stopping; try again after the seconds in Retry-After.",
}


class RequestError(Exception):
    """A request that is refused: the HTTP status and the reason."""

    def __init__(self, status: int, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status, self.headers = status, headers


class ClientDisconnected(Exception):  # noqa: N818
    pass


class Busy(RegardError):  # noqa: N818
    """The queue of a run is full."""


class Stopping(RegardError):  # noqa: N818
    """The server is shutting down."""


class Problem(BaseModel):
    """Why a request failed."""

    model_config = ConfigDict(extra="forbid")
    error: str


class OpenAIProblemBody(BaseModel):
    """OpenAI's error object."""

    model_config = ConfigDict(extra="forbid")
    message: str
    type: str
    param: str | None = None
    code: str | None = None


class OpenAIProblem(BaseModel):
    """Why a request failed, as OpenAI's clients expect it."""

    model_config = ConfigDict(extra="forbid")
    error: OpenAIProblemBody


def documented(problem: type[BaseModel], *statuses: int) -> dict[int | str, dict[str, Any]]:
    """The error responses of a route for the OpenAPI document; 400, 401, 408 and 413 are possible everywhere."""
    body = {"application/json": {"schema": {"$ref": f"#/components/schemas/{problem.__name__}"}}}
    statuses = tuple(sorted({400, 401, 408, 413, *statuses}))
    return {status: {"description": MEANINGS[status], "content": body} for status in statuses}


def error_response(path: str, status: int, message: str, headers: Mapping[str, str] | None = None) -> JSONResponse:
    message = message.encode("utf-8", "replace").decode()
    error: Any = message
    if path.startswith(OPENAI):
        kind = OPENAI_TYPES.get(status, "invalid_request_error")
        error = {"message": message, "type": kind, "param": None, "code": None}
    return JSONResponse({"error": error}, status, dict(headers or {}))


def request_error(error: RegardError) -> RequestError:
    """The HTTP error for an error of ours."""
    if isinstance(error, Busy | Stopping):
        return RequestError(503, str(error), {"Retry-After": "1"})
    return RequestError(500 if isinstance(error, Failure) else 400, str(error))


async def handle_error(request: Request, error: Exception) -> JSONResponse:
    """The exception handler of the application."""
    path = request.url.path
    if isinstance(error, RequestValidationError):
        return error_response(path, 422, validation_message(error.errors()))
    if isinstance(error, HTTPException):
        hint = "; /openapi.json lists what there is" if error.status_code in (404, 405) else ""
        detail = f"{error.detail}: {request.method} {path}{hint}" if hint else str(error.detail)
        return error_response(path, error.status_code, detail, error.headers)
    if isinstance(error, ClientDisconnected):
        return error_response(path, CLIENT_CLOSED_REQUEST, "the client has disconnected")
    refused = request_error(error) if isinstance(error, RegardError) else error
    assert isinstance(refused, RequestError)
    return error_response(path, refused.status, str(refused), refused.headers)


HANDLED = (RequestError, RegardError, RequestValidationError, HTTPException, ClientDisconnected)

EXPECTED = "Input should be "
PYDANTIC_TYPES = {"str", "int", "float", "bool", "list", "dict", "none"}
"""Names of the members of a union in pydantic's error locations."""


def validation_message(errors: Sequence[Any]) -> str:
    """What is wrong with the first invalid field.

    For a union pydantic reports an error for each member; the member that was meant is the one that fits best.
    """
    about = [error for error in errors if _field_path(error)[:1] == _field_path(errors[0])[:1]]
    best_fit = max(map(_fit, about))
    best = [error for error in about if _fit(error) == best_fit]
    first, path = str(best[0]["msg"]), _field_path(best[0])
    others = [str(error["msg"]).removeprefix(EXPECTED) for error in best[1:] if _field_path(error) == path]
    message = " or ".join(dict.fromkeys([first, *others])) if first.startswith(EXPECTED) else first
    return f"{'.'.join(map(str, path))}: {message}" if path else message


def _fit(error: Any) -> tuple[int, bool]:  # noqa: ANN401
    """How far a value fits a member of a union: the depth of the error, and whether at least the type is right."""
    return len(_field_path(error)), not str(error["type"]).endswith("_type")


def _field_path(error: Any) -> list[str | int]:  # noqa: ANN401
    """Field names and indices of pydantic's `loc`, without the names of union members."""
    steps = [step for step in error["loc"] if step != "body"]
    return steps[:1] + [
        step for step in steps[1:] if isinstance(step, int) or (step.isidentifier() and step not in PYDANTIC_TYPES)
    ]
