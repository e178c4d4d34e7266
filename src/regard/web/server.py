"""The server: granian in this process, with a graceful shutdown on SIGTERM or Ctrl-C."""

import asyncio
import gc
import logging
import signal
import socket
from collections.abc import Callable

from granian.constants import HTTPModes, Interfaces
from granian.http import HTTP1Settings
from granian.server.embed import Server

from regard.errors import ConfigError
from regard.web.guard import Guard
from regard.web.settings import ServeConfig

SIGNALS = (signal.SIGTERM, signal.SIGINT)
ABORT_SECONDS = 2.0  # to send the errors of aborted requests
log = logging.getLogger("regard.serve")


def serve(app: Guard, config: ServeConfig, ready: Callable[[str], None]) -> None:
    """Serves until a signal, then finishes running requests; `ready` is called with the address."""
    port = free_port(config.host, config.port)
    gc.collect()
    gc.freeze()  # what is loaded by now stays, and collecting it again and again would delay responses

    async def run() -> None:
        stop, loop = asyncio.Event(), asyncio.get_running_loop()
        for number in SIGNALS:
            loop.add_signal_handler(number, stop.set)
        await serve_until(stop, app, config, port, ready)

    asyncio.run(run())


async def serve_until(
    stop: asyncio.Event, app: Guard, config: ServeConfig, port: int, ready: Callable[[str], None]
) -> None:
    """Serves until `stop` is set; running requests then have `stop_seconds`."""
    server = make_server(app, config, port)
    serving, stopping = asyncio.ensure_future(server.serve()), asyncio.ensure_future(stop.wait())
    await _until_open(config.host, port, serving)
    ready(f"http://{f'[{config.host}]' if ':' in config.host else config.host}:{port}")
    await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
    server.stop()
    finished, _ = await asyncio.wait({serving}, timeout=config.stop_seconds)
    if not finished:
        log.warning("some requests did not finish within %g s", config.stop_seconds)
        app.give_up()
        await asyncio.wait({serving}, timeout=ABORT_SECONDS)
    stopping.cancel()


def make_server(app: Guard, config: ServeConfig, port: int) -> Server:
    """granian with our limits; HTTP/1 only, since its timeout for headers applies only there."""
    return Server(
        app,
        address=config.host,
        port=port,
        interface=Interfaces.ASGI,
        http=HTTPModes.http1,
        websockets=False,
        backlog=config.connections,
        backpressure=config.connections,
        http1_settings=HTTP1Settings(header_read_timeout=int(config.read_seconds * 1000)),
        log_enabled=False,
    )


async def _until_open(host: str, port: int, serving: "asyncio.Future[None]") -> None:
    """Waits until the port accepts connections."""
    while not serving.done():
        try:
            _, writer = await asyncio.open_connection(host if host not in ("0.0.0.0", "::") else None, port)
        except OSError:
            await asyncio.sleep(0.02)
        else:
            writer.close()
            return


def free_port(host: str, port: int) -> int:
    """The port if it is free; any free one for 0."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise ConfigError("port", f"cannot listen at {host}:{port} ({error.strerror}); choose another") from None
        return int(probe.getsockname()[1])
