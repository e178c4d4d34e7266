"""ASGI middleware around the application: host check, API key, limits of the body, timeouts, security headers.

The whole body is read before the application sees the request.
"""

import asyncio
import base64
import binascii
import logging
import secrets
import time
from collections.abc import AsyncIterator, Callable, Mapping
from hashlib import blake2b
from secrets import compare_digest

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from regard.web.prometheus import ServerMetrics
from regard.web.requests import CLIENT_CLOSED_REQUEST, DisconnectError, RequestError, error_response, fields_of
from regard.web.settings import ServeConfig, is_loopback

OPEN_ROUTES = ("/health",)
LINKS, LINK_SECRET = "/download_file/", secrets.token_bytes(32)
"""Links with a name that this server has signed need no key."""
KEY_IN_BODY = ("/translate", "/translate_file", "/languages")
"""Routes whose clients send their key as a field of the body."""
HEADERS = {
    b"content-security-policy": b"default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    b"x-content-type-options": b"nosniff",
    b"x-frame-options": b"DENY",
    b"referrer-policy": b"no-referrer",
    b"cross-origin-opener-policy": b"same-origin",
    b"cross-origin-resource-policy": b"same-origin",
    b"permissions-policy": b"camera=(), geolocation=(), microphone=()",
    b"cache-control": b"no-store",
}
log = logging.getLogger("regard.serve")


class Guard:
    def __init__(self, app: ASGIApp, config: ServeConfig, metrics: ServerMetrics, give_up: Callable[[], None]) -> None:
        self.app, self.config, self.metrics = app, config, metrics
        self.give_up = give_up
        """Fails all pending requests at once, to stop the server."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
        elif scope["type"] == "http":
            await self._request(scope, receive, send)
        else:
            await send({"type": "websocket.close", "code": 1000})

    async def _request(self, scope: Scope, receive: Receive, send: Send) -> None:
        start, response = time.perf_counter(), Response(send, self.config.send_seconds)
        try:
            await self.app(scope, await self._admit(scope, receive), response)
        except RequestError as error:
            await error_response(scope["path"], error.status, str(error), error.headers)(scope, receive, response)
        except (DisconnectError, TimeoutError):  # nobody receives the response
            pass
        except Exception:
            log.exception("%s %s failed", scope["method"], scope.get("path"))
            if response.status is None:
                failed = error_response(scope["path"], 500, "the server failed; its log says why")
                await failed(scope, receive, response)
        finally:
            labels = {
                "route": getattr(scope.get("route"), "path", "none"),
                "status": str(response.status or CLIENT_CLOSED_REQUEST),
            }
            self.metrics.count("regard_requests_total", labels)
            self.metrics.time({"route": labels["route"]}, time.perf_counter() - start)

    async def _admit(self, scope: Scope, receive: Receive) -> Receive:
        """A `receive` with the whole body, for a client with the right key."""
        headers = dict(scope["headers"])
        self._check_site(scope, headers)
        path, key = scope["path"], self.config.api_key
        is_open = path in OPEN_ROUTES or is_signed(path.removeprefix(LINKS))
        authorised = key is None or is_open or matches(key_in_headers(headers), key)
        if not authorised and path not in KEY_IN_BODY:
            raise unauthorised(path)
        body = await self._body(headers, receive)
        content_type = headers.get(b"content-type", b"").decode("latin-1")
        if not authorised and not matches(key_in_body(body, content_type), key or ""):
            raise unauthorised(path)
        return replay(body, receive)

    def _check_site(self, scope: Scope, headers: Mapping[bytes, bytes]) -> None:
        """Refuses requests that a page of another site makes through a visitor's browser."""
        host = headers.get(b"host", b"localhost").decode("latin-1")
        name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
        if self.config.local and not is_loopback(name):
            raise RequestError(400, "the Host header names another machine; use 127.0.0.1 or localhost")
        if headers.get(b"sec-fetch-site") == b"cross-site" and scope["method"] != "GET":
            raise RequestError(400, "a page of another site may not use this server")

    async def _body(self, headers: Mapping[bytes, bytes], receive: Receive) -> bytes:
        limit, declared = self.config.body_bytes, headers.get(b"content-length")
        if declared is None and b"transfer-encoding" not in headers:
            return b""
        too_large = RequestError(413, f"the body has more than {limit:,} bytes", {"Connection": "close"})
        if declared is not None and int(declared) > limit:
            raise too_large
        parts: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(self.config.read_seconds):
                async for part in _body_parts(receive):
                    parts.append(part)
                    size += len(part)
                    if size > limit:
                        raise too_large
        except TimeoutError:
            seconds = self.config.read_seconds
            raise RequestError(408, f"the body took longer than {seconds:g} s", {"Connection": "close"}) from None
        return b"".join(parts)


class Response:
    """`send` with the security headers and a time limit; keeps the status for the metrics."""

    def __init__(self, send: Send, seconds: float) -> None:
        self._send, self._seconds = send, seconds
        self.status: int | None = None

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            present = {name.lower() for name, _ in message.get("headers", [])}
            added = [(name, value) for name, value in HEADERS.items() if name not in present]
            message = {**message, "headers": [*message.get("headers", []), *added]}
        async with asyncio.timeout(self._seconds):
            await self._send(message)


async def _body_parts(receive: Receive) -> AsyncIterator[bytes]:
    more = True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise DisconnectError
        yield message.get("body", b"")
        more = message.get("more_body", False)


def replay(body: bytes, receive: Receive) -> Receive:
    """A `receive` that returns the body at once, and then only a disconnect."""
    sent = False

    async def again() -> Message:
        nonlocal sent
        if sent:
            message = await receive()
            while message["type"] != "http.disconnect":
                message = await receive()
            return message
        sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


def unauthorised(path: str) -> RequestError:
    """The error without a key; for the page, the browser then asks its user for it."""
    scheme = 'Basic realm="regard: any name, and the API key"' if path == "/" else "Bearer"
    return RequestError(401, "the API key is missing or wrong", {"WWW-Authenticate": scheme})


def key_in_headers(headers: Mapping[bytes, bytes]) -> str | None:
    """The key of `Authorization: Bearer KEY`, or the password of Basic, which browsers ask for."""
    scheme, _, value = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
    if scheme.lower() == "bearer":
        return value.strip()
    if scheme.lower() == "basic":
        try:
            return base64.b64decode(value, validate=True).decode().partition(":")[2]
        except (binascii.Error, UnicodeDecodeError):
            return None
    return None


def signed(name: str) -> str:
    return f"{blake2b(name.encode(), key=LINK_SECRET, digest_size=16).hexdigest()}.{name}"


def is_signed(name: str) -> bool:
    return compare_digest(signed(name.partition(".")[2]).encode(), name.encode())


def key_in_body(body: bytes, content_type: str) -> str | None:
    try:
        key = fields_of(body, content_type).get("api_key")
    except RequestError:
        return None
    return key if isinstance(key, str) else None


def matches(candidate: str | None, key: str) -> bool:
    """In constant time, so that the duration says nothing about the key."""
    return candidate is not None and compare_digest(candidate.encode("utf-8", "replace"), key.encode())
