"""Errors as the clients of each route expect them: a sentence for LibreTranslate's, an object for OpenAI's."""

from collections.abc import Mapping, Sequence
from typing import Any

from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict

from regard.errors import Failure, RegardError
from regard.web.worker import Busy, Stopping

OPENAI = "/v1/"
EXPECTED = "Input should be "
KINDS = {"str", "int", "float", "bool", "list", "dict", "none"}
"""What pydantic calls the kinds of a value, in the place of an error."""
TYPES = {401: "authentication_error", 408: "timeout_error", 500: "server_error", 503: "overloaded_error"}


class Refusal(Exception):  # noqa: N818
    """A request that is not answered, and why."""

    def __init__(self, status: int, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status, self.headers = status, headers


class Problem(BaseModel):
    """Why a request was not answered."""

    model_config = ConfigDict(extra="forbid")
    error: str


class OpenAIProblemBody(BaseModel):
    """What OpenAI's clients read."""

    model_config = ConfigDict(extra="forbid")
    message: str
    type: str
    param: str | None = None
    code: str | None = None


class OpenAIProblem(BaseModel):
    """Why a request was not answered, as OpenAI's clients expect it."""

    model_config = ConfigDict(extra="forbid")
    error: OpenAIProblemBody


def documented(problem: type[BaseModel], *statuses: int) -> dict[int | str, dict[str, Any]]:
    """The answers that are no success, for the OpenAPI document; any request may meet the first few."""
    meanings = {
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
    body = {"application/json": {"schema": {"$ref": f"#/components/schemas/{problem.__name__}"}}}
    statuses = tuple(sorted({400, 401, 408, 413, *statuses}))
    return {status: {"description": meanings[status], "content": body} for status in statuses}


def error_response(path: str, status: int, message: str, headers: Mapping[str, str] | None = None) -> JSONResponse:
    """The sentence in the shape of the route."""
    sentence = message.encode("utf-8", "replace").decode()
    error: Any = sentence
    if path.startswith(OPENAI):
        kind = TYPES.get(status, "invalid_request_error")
        error = {"message": sentence, "type": kind, "param": None, "code": None}
    return JSONResponse({"error": error}, status, dict(headers or {}))


def refusal_of(error: RegardError) -> Refusal:
    """What a client is told about an error of ours."""
    if isinstance(error, Busy | Stopping):
        return Refusal(503, str(error), {"Retry-After": "1"})
    return Refusal(500 if isinstance(error, Failure) else 400, str(error))


def sentence(errors: Sequence[Any]) -> str:
    """What is wrong with the first field that pydantic complains about.

    Of a field that may be of several kinds it complains about each; the kind that was meant is the one that fits best.
    """
    about = [error for error in errors if _path(error)[:1] == _path(errors[0])[:1]]
    fit = max(map(_fit, about))
    best = [error for error in about if _fit(error) == fit]
    first, place = str(best[0]["msg"]), ".".join(map(str, _path(best[0])))
    others = [str(error["msg"]).removeprefix(EXPECTED) for error in best[1:] if _path(error) == _path(best[0])]
    said = " or ".join(dict.fromkeys([first, *others])) if first.startswith(EXPECTED) else first
    return f"{place}: {said}" if place else said


def _fit(error: Any) -> tuple[int, bool]:  # noqa: ANN401
    """How far a value fits a kind: how deep inside the complaint is, and whether at least the type is right."""
    return len(_path(error)), not str(error["type"]).endswith("_type")


def _path(error: Any) -> list[str | int]:  # noqa: ANN401
    """Where a complaint is about: names and numbers, without pydantic's names of kinds."""
    known = [step for step in error["loc"] if step != "body"]
    return known[:1] + [
        step for step in known[1:] if isinstance(step, int) or (step.isidentifier() and step not in KINDS)
    ]
