"""`regard export` and `regard import`: a model for other programs, and a model from elsewhere."""

import json
from pathlib import Path
from typing import Annotated

import typer


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
    from regard.cli.parse import parse_data
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
