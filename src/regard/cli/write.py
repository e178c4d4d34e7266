"""`regard translate`, `generate`, `classify`: stdin to stdout, line for line."""

import json
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Annotated

import typer

LINES_AT_ONCE = 256

RunArgument = Annotated[Path, typer.Argument(help="A run folder.")]
FileArgument = Annotated[Path | None, typer.Argument(help="Input, a text a line; standard input when left out.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON object a line, with scores and tokens.")]
Device = Annotated[str, typer.Option(help="auto, cpu or cuda.")]


def translate(
    run: RunArgument,
    file: FileArgument = None,
    beam: Annotated[int | None, typer.Option(help="Beam size; 1 is greedy.")] = None,
    nbest: Annotated[int | None, typer.Option(help="Translations for each line, best first, tab-separated.")] = None,
    ensemble: Annotated[list[Path] | None, typer.Option(help="Further runs whose models decide together.")] = None,
    unknown: Annotated[str, typer.Option(help="Unknown words of a word vocabulary: keep, or replace.")] = "",
    dictionary: Annotated[
        Path | None, typer.Option(help="Translations of single words, for --unknown replace.")
    ] = None,
    as_json: Json = False,
    device: Device = "auto",
) -> None:
    """Translate line for line; a blank line stays blank."""
    from regard import api
    from regard.cli.parse import parse_search, with_unknown

    opened = with_unknown(api.load(run, device), unknown, dictionary)
    others = [api.load(other, device) for other in ensemble or []]
    asked = None
    if beam is not None or nbest is not None:
        asked = parse_search("", size=max(beam or 5, nbest or 1), n_best=nbest)
    for lines in _batches(file):
        for line, outputs in zip(lines, opened.translate(lines, asked, others), strict=True):
            if as_json:
                print(json.dumps({"source": line, "outputs": [vars(output) for output in outputs]}, ensure_ascii=False))
            else:
                print("\t".join(_one_line(output.text) for output in outputs))
        sys.stdout.flush()


def generate(
    run: RunArgument,
    file: FileArgument = None,
    length: Annotated[int | None, typer.Option(help="Most tokens to write.")] = None,
    temperature: Annotated[float | None, typer.Option(help="0 always takes the likeliest token.")] = None,
    top_k: Annotated[int | None, typer.Option(help="Draw among this many likeliest tokens.")] = None,
    top_p: Annotated[float | None, typer.Option(help="Draw among the likeliest tokens that reach this share.")] = None,
    min_p: Annotated[
        float | None, typer.Option(help="Draw among tokens at least this likely, beside the best.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="The same seed writes the same text.")] = None,
    stream: Annotated[bool, typer.Option("--stream", help="Show the text as it is written.")] = False,
    as_json: Json = False,
    device: Device = "auto",
) -> None:
    """Write on from each line; with --json, an object a line."""
    from regard import api
    from regard.cli.parse import parse_search

    opened = api.load(run, device)
    given = {"max_length": length, "temperature": temperature, "top_k": top_k, "top_p": top_p}
    given |= {"min_p": min_p, "seed": seed}
    kept = {name: value for name, value in given.items() if value is not None}
    base = opened.recipe.usual_search
    asked = base.but(**kept) if base.kind == "sample" else parse_search("sample", **kept)
    for lines in _batches(file):
        if stream:
            _stream(opened, lines, asked)
            continue
        for line, outputs in zip(lines, opened.generate(lines, asked), strict=True):
            if as_json:
                print(json.dumps({"prompt": line, "outputs": [vars(output) for output in outputs]}, ensure_ascii=False))
            else:
                print(line + outputs[0].text)
        sys.stdout.flush()


def _stream(opened: object, lines: list[str], search: object) -> None:
    for line in lines:
        print(line, end="", flush=True)
        for piece in opened.stream(line, search):  # type: ignore[attr-defined]
            print(piece, end="", flush=True)
        print()


def classify(run: RunArgument, file: FileArgument = None, as_json: Json = False, device: Device = "auto") -> None:
    """Give each line its label; a blank line stays blank."""
    from regard import api

    opened = api.load(run, device)
    for lines in _batches(file):
        for line, row in zip(lines, opened.classify(lines), strict=True):
            label = max(row, key=row.__getitem__) if row else ""
            if as_json:
                print(json.dumps({"text": line, "label": label or None, "probabilities": row}, ensure_ascii=False))
            else:
                print(label)
        sys.stdout.flush()


def _batches(file: Path | None) -> Iterator[list[str]]:
    """The input a few hundred lines at a time; lines end at \\n only."""
    from regard.data.findings import Findings
    from regard.data.text import lines
    from regard.errors import DataError

    if file is not None:
        texts = (text for _, text, _ in lines(file, Findings()))
        while batch := list(islice(texts, LINES_AT_ONCE)):
            yield batch
        return
    number = 0
    interactive = sys.stdin.isatty()
    while batch := list(islice(sys.stdin.buffer, 1 if interactive else LINES_AT_ONCE)):
        decoded = []
        for raw in batch:
            number += 1
            try:
                decoded.append(raw.decode().removesuffix("\n").removesuffix("\r"))
            except UnicodeDecodeError:
                raise DataError("standard input", "not UTF-8 text", number) from None
        yield decoded


def _one_line(text: str) -> str:
    """An output never takes more than its own line."""
    return " ".join(text.splitlines()) if "\n" in text or "\r" in text else text
