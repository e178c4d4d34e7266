"""`regard serve`: runs over HTTP, with the page and with what clients of other servers expect."""

import logging
import sys
from functools import partial
from typing import Annotated

import typer

from regard.cli.engines import Engine, Int8
from regard.cli.output import detail, say


def serve(
    runs: Annotated[list[str], typer.Argument(metavar="RUN", help="Run folders; NAME=FOLDER serves it as NAME.")],
    port: Annotated[int, typer.Option(help="Port to listen at; 0 takes a free one.")] = 8000,
    host: Annotated[str, typer.Option(help="Address to listen at; others than 127.0.0.1 need a key.")] = "127.0.0.1",
    api_key: Annotated[
        str | None, typer.Option(envvar="REGARD_API_KEY", help="Key that clients must send, 8 characters or more.")
    ] = None,
    languages: Annotated[
        list[str] | None, typer.Option(help="A run's languages, such as en-de, or NAME=en-de with several runs.")
    ] = None,
    queue: Annotated[int, typer.Option(help="Requests that may wait for each run; beyond them, 503.")] = 256,
    batch_tokens: Annotated[int, typer.Option(help="Most tokens answered together.")] = 4096,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    engine: Engine = "auto",
    int8: Int8 = False,
) -> None:
    """Serve runs over HTTP. The page at /, translation as LibreTranslate has it, completions as OpenAI has them."""
    from regard.data.languages import parse_pair
    from regard.errors import ConfigError
    from regard.web import ServeConfig, make_app
    from regard.web import serve as serve_app
    from regard.web.engine import engine_for
    from regard.web.registry import names_of

    config = ServeConfig(host=host, port=port, api_key=api_key, queue=queue, tokens_per_batch=batch_tokens)
    folders = names_of(runs)
    pairs = {}
    for text in languages or []:
        name, equals, codes = text.partition("=")
        name = name if equals else next(iter(folders))
        if not equals and len(folders) > 1:
            raise ConfigError("--languages", f"several runs are served; say whose they are: {name}={text}")
        if name in pairs:
            raise ConfigError("--languages", f"'{name}' is given twice; leave one of them out")
        pairs[name] = parse_pair(codes if equals else text)
    logging.basicConfig(stream=sys.stderr, format="%(asctime)s %(levelname)s %(message)s")
    engines = partial(engine_for, engine=engine, int8=int8, device=device, say=say, detail=detail)
    app = make_app(folders, config, device=device, languages=pairs, engine=engines)
    served = ", ".join(folders)
    serve_app(app, config, lambda address: print(f"{served} at {address}  (Ctrl-C stops)", flush=True))
