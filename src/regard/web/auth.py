"""Who may come in: the API key as each kind of client sends it, compared in constant time."""

import base64
import binascii
from collections.abc import Mapping
from secrets import compare_digest

from regard.web.errors import Refusal
from regard.web.request_body import fields_of

IN_BODY = ("/translate", "/languages")
"""Routes whose clients send their key as a field of the body."""


def given_key(headers: Mapping[bytes, bytes]) -> str | None:
    """The key of `Authorization: Bearer KEY`, or the password of Basic, which is what browsers ask people for."""
    scheme, _, rest = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
    if scheme.lower() == "bearer":
        return rest.strip()
    if scheme.lower() == "basic":
        try:
            return base64.b64decode(rest, validate=True).decode().partition(":")[2]
        except (binascii.Error, UnicodeDecodeError):
            return None
    return None


def key_in_body(body: bytes, content_type: str) -> str | None:
    """The field `api_key` of a body."""
    try:
        key = fields_of(body, content_type).get("api_key")
    except Refusal:
        return None
    return key if isinstance(key, str) else None


def same(given: str | None, key: str) -> bool:
    """Whether the key is right; how long this takes tells nothing about it."""
    return given is not None and compare_digest(given.encode("utf-8", "replace"), key.encode())
