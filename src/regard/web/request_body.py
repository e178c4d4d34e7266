"""The body of a request as fields, whether it came as JSON or as a form."""

import json
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl

from pydantic import AfterValidator, BeforeValidator, GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

from regard.data.lines import plain_text
from regard.web.errors import RequestError

FORM = "application/x-www-form-urlencoded"
JSON = "application/json"
FIELDS = 200


def _integer(value: object) -> object:
    return int(value) if isinstance(value, float) and value.is_integer() else value


INTEGER = BeforeValidator(_integer)
"""For an int, after its limits: accepts 9.0 too, which is an integer in JSON."""


@dataclass(frozen=True)
class OrNull:
    """For a type, last: the field may be null, which some clients send in place of leaving it out."""

    default: Any
    """The value for null."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:  # noqa: ANN401
        nullable = core_schema.nullable_schema(handler(source))
        return core_schema.no_info_after_validator_function(
            lambda value: self.default if value is None else value, nullable
        )


def without_null(schema: dict[str, Any]) -> dict[str, Any]:
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


def fields_of(body: bytes, content_type: str) -> dict[str, Any]:
    """The fields of a body; in a form, a field that comes more than once is a list."""
    kind = content_type.partition(";")[0].strip().lower()
    if kind == FORM:
        return _form(body)
    if kind != JSON:
        raise RequestError(415, f"expected a body of {JSON} or {FORM}, got '{kind}'")
    try:
        tree = json.loads(body)
    except (ValueError, RecursionError):
        raise RequestError(422, "the body is not JSON") from None
    if not isinstance(tree, dict):
        raise RequestError(422, "expected a JSON object")
    return tree


def _form(body: bytes) -> dict[str, Any]:
    try:
        pairs = parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=FIELDS, errors="strict")
    except ValueError:
        raise RequestError(422, f"expected a form in UTF-8 of at most {FIELDS} fields") from None
    fields: dict[str, Any] = {}
    for name, value in pairs:
        fields[name] = value if name not in fields else [*_listed(fields[name]), value]
    return fields


def _listed(value: str | list[str]) -> list[str]:
    return [value] if isinstance(value, str) else value
