"""`regard serve`, `export`, `import`: runs over HTTP, models for other programs, and models from elsewhere."""

import json
import logging
import sys
from functools import partial
from pathlib import Path
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


def export(
    run: Annotated[Path, typer.Argument(help="A run folder.")],
    to: Annotated[str, typer.Option("--to", help="huggingface, ctranslate2 or onnx.")],
    out: Annotated[Path | None, typer.Option(help="The folder to write; RUN-TARGET when left out.")] = None,
    int8: Annotated[bool, typer.Option("--int8", help="int8 weights (ctranslate2).")] = False,
    data: Annotated[str, typer.Option(help="What to check it on: valid, test, or other data.")] = "valid",
    examples: Annotated[int, typer.Option(help="Most held-out examples of the check.", min=1)] = 256,
    which: Annotated[str, typer.Option(help="Checkpoint: best, last, or step-N.")] = "best",
    as_json: Annotated[bool, typer.Option("--json", help="The parity report as JSON.")] = False,
) -> None:
    """Write a model for other programs. It is checked against the trained one on held-out text."""
    from regard import api
    from regard.cli.arguments import parse_data
    from regard.export.export import require_target

    target = require_target(to)
    named = run if run.name not in ("", "..") else run.resolve()  # `.` has no name of its own
    opened = api.load(run, "cpu", which)
    folder = out or named.with_name(f"{named.name}-{target}{'-int8' if int8 else ''}")
    parity = api.export(opened, target, folder, int8=int8, data=parse_data(data), examples=examples)
    if as_json:
        print(json.dumps(json.loads((folder / "parity.json").read_text(encoding="utf-8"))))
        return
    size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    print(f"{folder}: {parity.target}, {parity.layout}, {size / 1e6:.1f} MB")
    for line in parity.lines():
        print(f"  {line}")


def import_(
    folder: Annotated[Path, typer.Argument(help="A Hugging Face folder with config.json and model.safetensors.")],
    out: Annotated[Path, typer.Option("--out", help="The run folder to write.")],
) -> None:
    """Make a run of a Hugging Face folder. To fine-tune it, look into it, serve it."""
    from regard import api

    lines: list[str] = []
    run = api.import_run(folder, out, say=lines.append)
    weights = sum(weight.numel() for weight in run.model.parameters())
    print(f"{out}: {run.recipe.task.kind}, {run.recipe.model.kind}, {weights:,} parameters")
    for line in lines:
        print(f"  {line}")
    print(f"  fine-tune it with: regard train RECIPE model.from={out}")
