"""What the server refuses, and that refusing costs it nothing: sizes, slowness, foreign hosts, keys, scripts, paths."""

import asyncio
import base64
import json
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from libretranslatepy import LibreTranslateAPI
from openai import AuthenticationError, OpenAI
from served_runs import guarded, serving

from regard.errors import ConfigError
from regard.web.guard import Guard
from regard.web.prometheus import ServerMetrics
from regard.web.settings import ServeConfig

KEY = "a key that is long"
SCRIPT = "<script>alert(1)</script>"
TRAVERSALS = [
    "../../../etc/passwd",
    "..%2f..%2fetc%2fpasswd",
    "/etc/passwd",
    "street/../x",
    "C:\\x",
    "street%00",
    "~",
]
ROUTES = {
    "/translate": {"q": "x", "source": "en", "target": "de", "model": "street"},
    "/v1/completions": {"model": "letters", "prompt": "x", "max_tokens": 2},
    "/classify": {"text": "x", "model": "films"},
    "/attention": {"text": "x", "model": "films"},
}


def connect(server: str, data: bytes) -> socket.socket:
    parts = urlsplit(server)
    connection = socket.create_connection((parts.hostname, parts.port), timeout=20)
    connection.sendall(data)
    return connection


@pytest.fixture(scope="module")
def keyed(folders: dict[str, Path]) -> Iterator[str]:
    names = ("street", "letters", "films")
    app, config = guarded({name: folders[name] for name in names}, api_key=KEY)
    with serving(app, config) as address:
        yield address


def test_a_body_beyond_the_limit_is_refused_before_it_is_read(server: str, http: httpx.Client):
    head = b"POST /translate HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999\r\n\r\n"
    with connect(server, head) as connection:
        assert connection.recv(4096).startswith(b"HTTP/1.1 413 ")

    def endless() -> Iterator[bytes]:
        for _ in range(300):
            yield b"x" * 1000

    refused = http.post(f"{server}/translate", content=endless(), headers={"content-type": "application/json"})
    assert (refused.status_code, refused.json()) == (413, {"error": "the body has more than 200,000 bytes"})


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize(
    "deep", ["[" * 90_000, '{"a":' * 30_000, '{"q":' + "[" * 50_000 + "]" * 50_000 + "}", '{"q": 1e999}']
)
def test_deep_and_odd_json_is_refused(server: str, http: httpx.Client, route: str, deep: str):
    found = http.post(f"{server}{route}", content=deep, headers={"content-type": "application/json"})
    assert found.status_code in (400, 422)
    assert found.json()["error"]


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"max_tokens": 10**9}, 422),
        ({"max_tokens": 10**400}, 422),
        ({"n": 17}, 422),
        ({"n": 9, "prompt": ["a", "b"]}, 413),
        ({"prompt": "x" * 10_001}, 422),
        ({"prompt": "x" * 5000}, 413),
        ({"prompt": ["x" * 9000] * 2}, 413),
        ({"prompt": [[5] * 2049]}, 422),
        ({"prompt": [10**6]}, 400),
        ({"prompt": []}, 422),
        ({"stop": ["a"] * 5}, 422),
        ({"temperature": -1}, 422),
        ({"logprobs": 6}, 422),
        ({"best_of": 2}, 422),
        ({"logit_bias": {"5": 1.0}}, 422),
        ({"max_tokens": "5"}, 422),
        ({"prompt": "\ud800"}, 422),
    ],
)
def test_completions_keep_to_their_limits_at_once(server: str, http: httpx.Client, change: dict, status: int):
    asked = json.dumps({**ROUTES["/v1/completions"], **change})
    began = time.monotonic()
    found = http.post(f"{server}/v1/completions", content=asked, headers={"content-type": "application/json"})
    assert found.status_code == status, found.text
    assert found.json()["error"]["type"] == "invalid_request_error"
    assert time.monotonic() - began < 5  # it was not computed


@pytest.mark.parametrize("name", TRAVERSALS)
def test_paths_in_any_parameter_reach_nothing(server: str, http: httpx.Client, name: str):
    secrets = ("root:", "[model]", "recipe")
    answers = [http.get(f"{server}/runs/{name}/metrics"), http.get(f"{server}/v1/models/{name}")]
    answers += [http.get(server, params={"model": name}), http.get(f"{server}/{name}")]
    for route, asked in ROUTES.items():
        answers += [http.post(f"{server}{route}", json={**asked, field: name}) for field in asked]
    for found in answers:
        assert found.status_code < 500
        assert found.status_code != 200 or not any(secret in found.text for secret in secrets)
    assert [found.status_code for found in answers[:4]] == [404] * 4


def test_raw_dots_in_a_path_reach_nothing(server: str, http: httpx.Client):
    for path in (b"/runs/../../../../etc/passwd", b"/../recipe.toml", b"//etc/passwd", b"/runs/street/../../x/metrics"):
        with connect(
            server, b"GET " + path + b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        ) as connection:
            assert connection.recv(65536).startswith((b"HTTP/1.1 404 ", b"HTTP/1.1 400 "))


@pytest.mark.parametrize("route", ROUTES)
def test_scripts_in_texts_stay_text(server: str, http: httpx.Client, route: str):
    asked = ROUTES[route]
    for field in asked:
        found = http.post(f"{server}{route}", json={**asked, field: SCRIPT})
        assert found.status_code < 500
        assert found.headers["content-type"] == "application/json"
        assert found.headers["x-content-type-options"] == "nosniff"
        assert found.headers["content-security-policy"].startswith("default-src 'none'")
    for found in (
        http.get(f"{server}/{SCRIPT}"),
        http.get(f"{server}/runs/{SCRIPT}/metrics"),
        http.get(server, params={"model": SCRIPT}),
    ):
        assert found.status_code == 404
        assert found.headers["content-type"] == "application/json"


def test_200_half_open_connections_harm_nobody(server: str, http: httpx.Client):
    with ExitStack() as stack:
        halves = [b"", b"GET /health HT", b"POST /translate HTTP/1.1\r\nHost: localhost\r\nContent-Length: 50\r\n\r\n{"]
        slow = [stack.enter_context(connect(server, halves[number % 3])) for number in range(200)]
        for _ in range(5):
            assert http.get(f"{server}/health", timeout=5).status_code == 200
        found = http.post(f"{server}/classify", json={"text": "a good film"}, timeout=20)
        assert found.status_code == 200
        last = [_until_closed(connection) for connection in slow]
    assert {data[:13] for data in last} == {b"", b"HTTP/1.1 408 "}


def _until_closed(connection: socket.socket) -> bytes:
    data = b""
    while got := connection.recv(65536):
        data += got
    return data


def test_foreign_hosts_and_pages_of_other_sites_are_refused(server: str, http: httpx.Client):
    assert http.get(f"{server}/health", headers={"Host": "evil.example"}).status_code == 400
    assert http.get(f"{server}/health", headers={"Host": "localhost:1"}).status_code == 200
    crossing = http.post(f"{server}/classify", json={"text": "x"}, headers={"Sec-Fetch-Site": "cross-site"})
    assert crossing.status_code == 400


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "example.org"])
def test_other_addresses_need_a_key(host: str):
    with pytest.raises(ConfigError, match="api_key: others can reach"):
        ServeConfig(host=host)
    assert not ServeConfig(host=host, api_key=KEY).local


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "127.1.2.3"])
def test_loopback_needs_none(host: str):
    assert ServeConfig(host=host).local


def test_every_route_but_health_asks_for_the_key(keyed: str, http: httpx.Client):
    paths = http.get(f"{keyed}/openapi.json", headers={"Authorization": f"Bearer {KEY}"}).json()["paths"]
    asked = [(method, path.format(name="letters")) for path, methods in paths.items() for method in methods]
    for method, path in [*asked, ("get", "/openapi.json"), ("get", "/nothing"), ("post", "/nothing")]:
        for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic !"}, {"Authorization": KEY}):
            found = http.request(method, f"{keyed}{path}", headers=headers)
            assert found.status_code == (200 if path == "/health" else 401), (method, path)
            assert path == "/health" or "WWW-Authenticate" in found.headers


def test_each_client_has_its_way_to_send_the_key(keyed: str, http: httpx.Client):
    assert LibreTranslateAPI(keyed, KEY).languages()[0]["code"] == "en"
    assert isinstance(LibreTranslateAPI(keyed, KEY).translate("x", "en", "de"), str)
    assert OpenAI(base_url=f"{keyed}/v1", api_key=KEY).models.list().data
    with pytest.raises(AuthenticationError, match="missing or wrong"):
        OpenAI(base_url=f"{keyed}/v1", api_key="wrong", max_retries=0).models.list()
    word = base64.b64encode(f"anyone:{KEY}".encode()).decode()
    assert http.get(f"{keyed}/metrics", headers={"Authorization": f"Basic {word}"}).status_code == 200
    body = {"q": "x", "source": "en", "target": "de", "api_key": KEY}
    assert http.post(f"{keyed}/translate", json=body).status_code == 200
    assert http.post(f"{keyed}/classify", json={"text": "x", "api_key": KEY}).status_code == 401


def test_a_client_that_takes_nothing_is_cut_off():
    async def app(_scope: object, _receive: object, send: object) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})

    async def send(_message: object) -> None:
        await asyncio.sleep(60)

    metrics = ServerMetrics()
    guard = Guard(app, ServeConfig(send_seconds=0.05), metrics, give_up=lambda: None)
    scope = {"type": "http", "method": "GET", "path": "/", "headers": []}
    asyncio.run(asyncio.wait_for(guard(scope, send, send), 5))
    assert 'regard_requests_total{route="none",status="200"} 1.0' in metrics.text()
