"""What every request passes: whose host it names, who it is from, how large its body is and how long it takes.

It stands outside the application, reads the whole body before anything else happens, and puts the security headers on
every answer.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, MutableMapping
from typing import Any

from regard.web.auth import IN_BODY, given_key, key_in_body, same
from regard.web.errors import Refusal, error_response
from regard.web.prometheus import Meters
from regard.web.settings import ServeConfig, is_loopback

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]

OPEN_ROUTES = ("/health",)
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
LEFT = 499  # no answer was sent, as the client had left; the number is nginx's
log = logging.getLogger("regard.serve")


class Gone(Exception):  # noqa: N818
    """The client has left."""


class Guard:
    """The application's only door."""

    def __init__(self, app: Application, config: ServeConfig, meters: Meters, give_up: Callable[[], None]) -> None:
        self.app, self.config, self.meters = app, config, meters
        self.give_up = give_up
        """Answers at once whatever waits for a model: the server must go."""

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """One request, or the application's own life."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
        elif scope["type"] == "http":
            await self._request(scope, receive, send)
        else:
            await send({"type": "websocket.close", "code": 1000})

    async def _request(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        began, out = time.perf_counter(), Answer(send, self.config.send_seconds)
        try:
            replayed = await self._admit(scope, receive)
            await self.app(scope, replayed, out)
        except Refusal as refusal:
            answer = error_response(scope["path"], refusal.status, str(refusal), refusal.headers)
            await answer(scope, receive, out)
        except (Gone, TimeoutError):  # whoever takes nothing gets nothing
            pass
        except Exception:
            log.exception("%s %s failed", scope["method"], scope.get("path"))
            if out.status is None:
                await error_response(scope["path"], 500, "the server failed; its log says why")(scope, receive, out)
        finally:
            labels = {"route": getattr(scope.get("route"), "path", "none"), "status": str(out.status or LEFT)}
            self.meters.count("regard_requests_total", labels)
            self.meters.time({"route": labels["route"]}, time.perf_counter() - began)

    async def _admit(self, scope: MutableMapping[str, Any], receive: Receive) -> Receive:
        """The body, read in time and within its limit, for a client that may ask."""
        headers = dict(scope["headers"])
        self._check_site(scope, headers)
        path, key = scope["path"], self.config.api_key
        known = key is None or path in OPEN_ROUTES or same(given_key(headers), key)
        if not known and path not in IN_BODY:
            raise unknown_client(path)
        body = await self._body(headers, receive)
        content_type = headers.get(b"content-type", b"").decode("latin-1")
        if not known and not same(key_in_body(body, content_type), key or ""):
            raise unknown_client(path)
        return replay(body, receive)

    def _check_site(self, scope: Mapping[str, Any], headers: Mapping[bytes, bytes]) -> None:
        """A page of another site may not use a visitor's browser to reach this machine."""
        host = headers.get(b"host", b"localhost").decode("latin-1")
        name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
        if self.config.local and not is_loopback(name):
            raise Refusal(400, "the Host header names another machine; use 127.0.0.1 or localhost")
        if headers.get(b"sec-fetch-site") == b"cross-site" and scope["method"] != "GET":
            raise Refusal(400, "a page of another site may not ask this server")

    async def _body(self, headers: Mapping[bytes, bytes], receive: Receive) -> bytes:
        limit, declared = self.config.body_bytes, headers.get(b"content-length")
        if declared is None and b"transfer-encoding" not in headers:
            return b""
        too_large = Refusal(413, f"the body has more than {limit:,} bytes", {"Connection": "close"})
        if declared is not None and int(declared) > limit:
            raise too_large
        parts: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(self.config.read_seconds):
                async for part in _parts(receive):
                    parts.append(part)
                    size += len(part)
                    if size > limit:
                        raise too_large
        except TimeoutError:
            seconds = self.config.read_seconds
            raise Refusal(408, f"the body took longer than {seconds:g} s", {"Connection": "close"}) from None
        return b"".join(parts)


class Answer:
    """`send` with the security headers, a limit on how long a client may take, and the status for the meters."""

    def __init__(self, send: Send, seconds: float) -> None:
        self._send, self._seconds = send, seconds
        self.status: int | None = None

    async def __call__(self, message: Message) -> None:
        """Passes a message on."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            given = {name.lower() for name, _ in message.get("headers", [])}
            added = [(name, value) for name, value in HEADERS.items() if name not in given]
            message = {**message, "headers": [*message.get("headers", []), *added]}
        async with asyncio.timeout(self._seconds):
            await self._send(message)


async def _parts(receive: Receive) -> AsyncIterator[bytes]:
    more = True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Gone
        yield message.get("body", b"")
        more = message.get("more_body", False)


def replay(body: bytes, receive: Receive) -> Receive:
    """A `receive` that gives the body at once, then what else comes: that the client has left."""
    given = False

    async def again() -> Message:
        nonlocal given
        if given:
            message = await receive()
            while message["type"] != "http.disconnect":
                message = await receive()
            return message
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


def unknown_client(path: str) -> Refusal:
    """The refusal; before the page a browser asks its user for the key."""
    scheme = 'Basic realm="regard: any name, and the API key"' if path == "/" else "Bearer"
    return Refusal(401, "the API key is missing or wrong", {"WWW-Authenticate": scheme})
