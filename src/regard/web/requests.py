"""Bodies of requests, JSON or a form; and errors as a route's clients expect them.

Clients of LibreTranslate expect a sentence, those of OpenAI an object.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from email import message_from_string
from email.message import Message
from typing import Any
from urllib.parse import parse_qsl

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, GetCoreSchemaHandler
from pydantic_core import CoreSchema, ErrorDetails, core_schema
from starlette.exceptions import HTTPException

from regard.data.lines import plain_text
from regard.errors import Failure, RegardError

Json = dict[str, Any]
"""An object of JSON, or of a JSON schema."""
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


class DisconnectError(Exception):
    pass


class BusyError(RegardError):
    """The queue of a run is full."""


class StoppingError(RegardError):
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


def documented(problem: type[BaseModel], *statuses: int) -> dict[int | str, Json]:
    """The error responses of a route for the OpenAPI document; 400, 401, 408 and 413 are possible everywhere."""
    body = {"application/json": {"schema": {"$ref": f"#/components/schemas/{problem.__name__}"}}}
    statuses = tuple(sorted({400, 401, 408, 413, *statuses}))
    return {status: {"description": MEANINGS[status], "content": body} for status in statuses}


def error_response(path: str, status: int, message: str, headers: Mapping[str, str] | None = None) -> JSONResponse:
    message = message.encode("utf-8", "replace").decode()
    error: object = message
    if path.startswith(OPENAI):
        kind = OPENAI_TYPES.get(status, "invalid_request_error")
        error = {"message": message, "type": kind, "param": None, "code": None}
    return JSONResponse({"error": error}, status, dict(headers or {}))


def request_error(error: RegardError) -> RequestError:
    """The HTTP error for an error of ours."""
    if isinstance(error, BusyError | StoppingError):
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
    if isinstance(error, DisconnectError):
        return error_response(path, CLIENT_CLOSED_REQUEST, "the client has disconnected")
    refused = request_error(error) if isinstance(error, RegardError) else error
    assert isinstance(refused, RequestError)
    return error_response(path, refused.status, str(refused), refused.headers)


HANDLED = (RequestError, RegardError, RequestValidationError, HTTPException, DisconnectError)

EXPECTED = "Input should be "
PYDANTIC_TYPES = {"str", "int", "float", "bool", "list", "dict", "none"}
"""Names of the members of a union in pydantic's error locations."""


def validation_message(errors: Sequence[ErrorDetails]) -> str:
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


def _fit(error: ErrorDetails) -> tuple[int, bool]:
    """How far a value fits a member of a union: the depth of the error, and whether at least the type is right."""
    return len(_field_path(error)), not str(error["type"]).endswith("_type")


def _field_path(error: ErrorDetails) -> list[str | int]:
    """Field names and indices of pydantic's `loc`, without the names of union members."""
    steps = [step for step in error["loc"] if step != "body"]
    return steps[:1] + [
        step for step in steps[1:] if isinstance(step, int) or (step.isidentifier() and step not in PYDANTIC_TYPES)
    ]


FORM = "application/x-www-form-urlencoded"
JSON = "application/json"
MULTIPART = "multipart/form-data"
FIELDS = 200


def _integer(value: object) -> object:
    return int(value) if isinstance(value, float) and value.is_integer() else value


INTEGER = BeforeValidator(_integer)
"""For an int, after its limits: accepts 9.0 too, which is an integer in JSON."""


@dataclass(frozen=True)
class OrNull:
    """For a type, last: the field may be null, which some clients send in place of leaving it out."""

    default: object
    """The value for null."""

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        nullable = core_schema.nullable_schema(handler(source))
        return core_schema.no_info_after_validator_function(
            lambda value: self.default if value is None else value, nullable
        )


def without_null(schema: Json) -> Json:
    """The JSON schema of the same fields in a form, which can leave a field out but not send null."""
    fields = {name: dict(field) for name, field in schema["properties"].items()}
    for field in fields.values():
        kinds = [kind for kind in field.pop("anyOf", []) if kind != {"type": "null"}]
        field |= kinds[0] if len(kinds) == 1 else {"anyOf": kinds} if kinds else {}
    return {**schema, "properties": fields}


def _blank_to_empty(value: object) -> object:
    return "" if isinstance(value, str) and value.isspace() else value


BLANK = BeforeValidator(_blank_to_empty)
"""For a text with a length limit: a blank text counts as empty, however long it is."""
PLAIN = AfterValidator(plain_text)
"""For a text: no lone surrogates, which JSON can encode, and no byte order mark."""


@dataclass(frozen=True)
class UploadedFile:
    """A file in a form."""

    name: str
    content: bytes


def fields_of(body: bytes, content_type: str) -> Json:
    """The fields of a body; in a form, a field that comes more than once is a list."""
    kind = content_type.partition(";")[0].strip().lower()
    if kind == FORM:
        return _form(body)
    if kind == MULTIPART:
        return _multipart(body, content_type)
    if kind != JSON:
        raise RequestError(415, f"expected a body of {JSON} or {FORM}, got '{kind}'")
    try:
        tree = json.loads(body)
    except (ValueError, RecursionError):
        raise RequestError(422, "the body is not JSON") from None
    if not isinstance(tree, dict):
        raise RequestError(422, "expected a JSON object")
    return tree


def _form(body: bytes) -> Json:
    try:
        pairs = parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=FIELDS, errors="strict")
    except ValueError:
        raise RequestError(422, f"expected a form in UTF-8 of at most {FIELDS} fields") from None
    fields: dict[str, list[str]] = {}
    for name, value in pairs:
        fields.setdefault(name, []).append(value)
    return {name: values[0] if len(values) == 1 else values for name, values in fields.items()}


def _multipart(body: bytes, content_type: str) -> Json:
    """The fields of a form with files, as browsers and LibreTranslate's clients send them."""
    header = Message()
    header["Content-Type"] = content_type
    boundary = header.get_boundary()
    parts = (b"\r\n" + body).split(b"\r\n--" + boundary.encode("utf-8", "replace")) if boundary else []
    if not 2 <= len(parts) <= FIELDS:
        raise RequestError(422, f"expected a form of at most {FIELDS} fields, each between boundaries")
    fields: Json = {}
    for part in parts[1:-1]:
        head, blank, content = part.partition(b"\r\n\r\n")
        disposition = message_from_string(head.decode("utf-8", "replace").lstrip())
        name = disposition.get_param("name", header="content-disposition")
        if not blank or not isinstance(name, str):
            raise RequestError(422, "a field of the form has no name")
        file = disposition.get_filename()
        try:
            fields[name] = content.decode() if file is None else UploadedFile(file, content)
        except UnicodeDecodeError:
            raise RequestError(422, "expected a form in UTF-8") from None
    return fields
