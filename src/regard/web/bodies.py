"""The body of a request as fields, whether it came as JSON or as a form."""

import json
from typing import Any
from urllib.parse import parse_qsl

from pydantic import BeforeValidator

from regard.web.answers import Refusal

FORM = "application/x-www-form-urlencoded"
JSON = "application/json"
FIELDS = 200


def _whole(value: object) -> object:
    return int(value) if isinstance(value, float) and value.is_integer() else value


WHOLE = BeforeValidator(_whole)
"""Beside an int, after its limits: a whole number as JSON has it, where 9.0 is one too."""


def fields_of(body: bytes, content_type: str) -> dict[str, Any]:
    """The fields of a body; in a form, a field that comes more than once is a list."""
    kind = content_type.partition(";")[0].strip().lower()
    if kind == FORM:
        return _form(body)
    if kind != JSON:
        raise Refusal(415, f"expected a body of {JSON} or {FORM}, got '{kind}'")
    try:
        tree = json.loads(body)
    except (ValueError, RecursionError):
        raise Refusal(422, "the body is not JSON") from None
    if not isinstance(tree, dict):
        raise Refusal(422, "expected a JSON object")
    return tree


def _form(body: bytes) -> dict[str, Any]:
    try:
        pairs = parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=FIELDS, errors="strict")
    except ValueError:
        raise Refusal(422, f"expected a form in UTF-8 of at most {FIELDS} fields") from None
    fields: dict[str, Any] = {}
    for name, value in pairs:
        fields[name] = value if name not in fields else [*_listed(fields[name]), value]
    return fields


def _listed(value: str | list[str]) -> list[str]:
    return [value] if isinstance(value, str) else value
