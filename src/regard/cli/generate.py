"""`regard translate`, `generate`, `classify`: stdin to stdout, line for line."""

import json
import sys
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.engines import (
    OPTIONS,
    Engine,
    Int8,
    OverlongOption,
    Unseen,
    chosen,
    fast_writer,
    overlong_for,
    say_cut,
    say_limit,
)
from regard.cli.output import counted_lines, detail, say
from regard.cli.parts import LINES_PER_PART, Out, PartFormat, PerPart, refuse_many, refuse_parts, translate_parts
from regard.errors import ConfigError, located

if TYPE_CHECKING:
    from regard.data.lines import Input
    from regard.text.inputs import Overlong
    from regard.text.splitting import Splitting

LINES_AT_ONCE = 256

RunArgument = Annotated[Path, typer.Argument(help="A run folder.")]
FileArgument = Annotated[Path | None, typer.Argument(help="Input, a text a line; standard input when left out.")]
FilesArgument = Annotated[
    list[Path] | None, typer.Argument(help="Inputs, a text a line, or images; standard input when left out.")
]
Json = Annotated[bool, typer.Option("--json", help="One JSON object a line, with scores and tokens.")]
Probabilities = Annotated[bool, typer.Option("--json", help="One JSON object a line, with all probabilities.")]
Device = Annotated[str, typer.Option(help="auto, cpu or cuda.")]


def translate(
    run: RunArgument,
    file: FileArgument = None,
    beam: Annotated[
        int | None, typer.Option(min=1, help="Beam size; 1 is greedy. Else as the run's search, which becomes a beam.")
    ] = None,
    nbest: Annotated[
        int | None,
        typer.Option(min=1, help="Translations for each line, best first, tab-separated; several ask for a beam."),
    ] = None,
    ensemble: Annotated[list[Path] | None, typer.Option(help="Further runs whose models decide together.")] = None,
    unknown: Annotated[str, typer.Option(help="Unknown words of a word vocabulary: keep, or replace.")] = "",
    dictionary: Annotated[
        Path | None, typer.Option(help="Translations of single words, for --unknown replace.")
    ] = None,
    as_json: Json = False,
    device: Device = "auto",
    engine: Engine = "auto",
    int8: Int8 = False,
    out: Out = None,
    part_format: PartFormat = None,
    lines_per_part: PerPart = None,
    overlong: OverlongOption = "",
    no_split: Annotated[
        bool, typer.Option("--no-split", help="Each line as one input, not sentence by sentence.")
    ] = False,
) -> None:
    """Translate line for line. Sentence by sentence; a blank line stays blank.

    Spaces between and around sentences stay. A run that was trained on several sentences a line translates each line as
    a whole. A sentence that is too long is cut or left out, and named.
    """
    beyond = overlong_for(run, overlong)
    options = {name: value for name, value in {"size": beam, "n_best": nbest}.items() if value is not None}
    only_torch = {"--ensemble": ensemble, "--unknown": unknown, "--dictionary": dictionary}
    only_torch |= {"--out without --engine ctranslate2": out if engine == "auto" and not int8 else None}
    if out is None:
        refuse_many()
        refuse_parts(part_format, lines_per_part)
    elif as_json and part_format not in (None, "json"):
        raise ConfigError("--json", f"asks for parts of JSON, and --format for {part_format}; leave one of them out")
    choice = chosen(run, engine, "translation", options, int8=int8, device=device, only_torch=only_torch)
    if out is not None:
        kind, lines = "json" if as_json else part_format or "text", lines_per_part or LINES_PER_PART
        translate_parts(
            run, file, out, kind, lines, choice, options, device, ensemble or [], unknown, dictionary, beyond,
            split=not no_split,
        )  # fmt: skip
        return
    if choice.converted is not None:
        write = fast_writer(choice, scored=as_json)
    else:
        write = _torch_translator(run, options, device, ensemble or [], unknown, dictionary)
    read = [[_named(file)]] if file and _describes(run) else _batches(file)
    for lines, rows, problems in _worked(
        read, write, beyond, run, "translating", _is_typed(file), _splitting(run, no_split)
    ):
        for line, outputs, problem in zip(lines, rows, problems, strict=True):
            if as_json:
                tree = {"source": line, "outputs": [vars(output) for output in outputs], **problem}
                print(json.dumps(tree, ensure_ascii=False))
            else:
                print("\t".join(_one_line(output.text) for output in outputs))
        sys.stdout.flush()


def _worked(
    batches: "Iterable[list[Input]]",
    work: Callable[[list[Any], bool], list[Any]],
    overlong: "Overlong",
    run: Path,
    label: str,
    typed: bool,
    splitting: "Splitting | None" = None,
) -> Iterator[tuple[list[Any], list[Any], list[dict[str, Any]]]]:
    """The texts of each batch, what a model makes of them, and what JSON says of unseen words and of too long ones.

    One that the model refuses is named by its file and line.
    """
    from regard.text.splitting import translate_by_sentence

    unseen = Unseen(run)
    with counted_lines(label, typed) as advance:
        for batch in batches:
            texts, origins = [line.text for line in batch], [line.origin for line in batch]
            results, problems = translate_by_sentence(texts, work, origins, overlong, say, splitting)
            told = [{"overlong": problems[number]} if number in problems else {} for number in range(1, len(texts) + 1)]
            told = [more | unseen.named(line.text, line.origin) for more, line in zip(told, batch, strict=True)]
            yield texts, results, told
            advance(len(batch))
    unseen.close()


def _splitting(run: Path, no_split: bool) -> "Splitting | None":
    """How lines of several sentences are split, if they are."""
    from regard.text.splitting import load_splitting

    return None if no_split else load_splitting(run)


def _named(file: Path) -> "Input":
    """The name of an image's file as an input."""
    from regard.data.lines import Input

    return Input(str(file), str(file), 0)


def _describes(run: Path) -> bool:
    """Whether a run writes about images, so that a file is one and not a text."""
    from regard.config import read_toml
    from regard.files.run_folder import RECIPE_FILE

    task = read_toml(run / RECIPE_FILE).get("task")
    return (task.get("kind") if isinstance(task, dict) else task) == "image_description"


def _torch_translator(
    run: Path, options: dict[str, Any], device: str, ensemble: list[Path], unknown: str, dictionary: Path | None
) -> Callable[[list[str], bool], list[list[Any]]]:
    from regard.cli.parse import with_unknown
    from regard.run.trained import Run

    opened = with_unknown(Run.open(run, device), unknown, dictionary)
    say_how(opened)
    others = [Run.open(other, device) for other in ensemble]
    search = opened.search_with(options, OPTIONS)
    say_limit(opened.limit(search, others))

    def write(lines: list[str], cut: bool) -> list[list[Any]]:
        found = opened.translate(lines, search, others, cut, split=False)
        say_cut(found)
        return found

    return write


def say_how(opened: Any) -> None:  # noqa: ANN401
    """Says which way a run's model decodes, where there was a choice."""
    if opened.backend.reason:
        detail(opened.backend.reason)


def generate(
    run: RunArgument,
    file: FileArgument = None,
    length: Annotated[int | None, typer.Option(min=1, help="Most tokens to write.")] = None,
    temperature: Annotated[
        float | None, typer.Option(min=0, help="Sample at this temperature; 0 always takes the likeliest token.")
    ] = None,
    top_k: Annotated[int | None, typer.Option(min=1, help="Sample among this many likeliest tokens.")] = None,
    top_p: Annotated[
        float | None, typer.Option(help="Sample among the likeliest tokens that reach this share.")
    ] = None,
    min_p: Annotated[
        float | None, typer.Option(help="Sample among tokens at least this likely, beside the best.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, help="Of what is sampled: the same seed generates the same text.")
    ] = None,
    stream: Annotated[bool, typer.Option("--stream", help="Show the text as it is written.")] = False,
    as_json: Json = False,
    device: Device = "auto",
    engine: Engine = "auto",
    int8: Int8 = False,
) -> None:
    """Continue each line by the run's search. With --json, an object a line.

    --temperature, --top-k, --top-p and --min-p ask for sampling where the run's search is another.
    """
    given = {"max_length": length, "temperature": temperature, "top_k": top_k, "top_p": top_p}
    given |= {"min_p": min_p, "seed": seed}
    options = {name: value for name, value in given.items() if value is not None}
    if stream and as_json:
        raise ConfigError("--stream", "shows the text as it is written, --json when it is done; leave one of them out")
    choice = chosen(run, engine, "language_model", options, int8=int8, device=device, only_torch={"--stream": stream})
    if choice.converted is not None:
        write = fast_writer(choice, scored=as_json)
    else:
        opened, search = _torch_generator(run, options, device)
        if stream:
            _stream(opened, search, file)
            return
        write = lambda lines, _: opened.generate(lines, search)  # noqa: E731
    for lines, rows, problems in _worked(_batches(file), write, "skip", run, "generating", _is_typed(file)):
        for line, outputs, problem in zip(lines, rows, problems, strict=True):
            if as_json:
                tree = {"prompt": line, "outputs": [vars(output) for output in outputs], **problem}
                print(json.dumps(tree, ensure_ascii=False))
            else:
                for text in [output.text for output in outputs] or [""]:
                    print(line + text)
        sys.stdout.flush()


def _torch_generator(run: Path, options: dict[str, Any], device: str) -> tuple[Any, Any]:
    from regard.run.trained import Run

    opened = Run.open(run, device)
    say_how(opened)
    search = opened.search_with(options, OPTIONS)
    say_limit(opened.limit(search))
    return opened, search


def _stream(opened: Any, search: Any, file: Path | None) -> None:  # noqa: ANN401
    if search.kind == "beam":
        raise ConfigError("--stream", "a beam knows its text only at the end; ask for sampling with --temperature")
    if getattr(search, "samples", 1) > 1:
        raise ConfigError("--stream", f"shows one text, and the run's search draws {search.samples}; leave it out")
    for lines in _batches(file):
        for line in lines:
            print(line.text, end="", flush=True)
            with located([line.origin]):
                for piece in opened.stream(line.text, search):
                    print(piece, end="", flush=True)
            print()


def classify(
    run: RunArgument,
    files: FilesArgument = None,
    as_json: Probabilities = False,
    device: Device = "auto",
    overlong: OverlongOption = "",
) -> None:
    """Give each line its label. A tagger gives words their tags and reads CoNLL-U too; a blank line stays blank.

    A line that is too long is cut or left blank, and named.
    """
    from regard import api

    beyond, opened = overlong_for(run, overlong), api.load(run, device)
    if beyond == "cut" and opened.recipe.task.content == "tagged":
        raise ConfigError("--overlong", "a sentence with its tags cannot be cut; choose skip or error")
    read = _to_classify(opened.recipe.task.content, files or [])
    typed = not files and _is_typed(None)
    for lines, rows, problems in _worked(read, opened.classify, beyond, run, "classifying", typed):
        for line, row, problem in zip(lines, rows, problems, strict=True):
            label = max(row, key=row.__getitem__) if row else ""
            if as_json:
                text = line if isinstance(line, str) else line.text
                tree = {"text": text, "label": label or None, "probabilities": row, **problem}
                print(json.dumps(tree, ensure_ascii=False))
            else:
                print(label)
        sys.stdout.flush()


def _to_classify(content: str, files: list[Path]) -> "Iterator[list[Input]]":
    """Lines, sentences with their trees, or images: files that are given, or whose names are the lines."""
    if content == "images" and files:
        for start in range(0, len(files), LINES_AT_ONCE):
            yield [_named(file) for file in files[start : start + LINES_AT_ONCE]]
        return
    for file in files or [None]:
        yield from _treebank(file) if file and content == "tagged" else _batches(file)


def _treebank(file: Path) -> "Iterator[list[Input]]":
    """The sentences of a CoNLL-U file with their trees, a few hundred at a time; the lines of any other file."""
    from regard.data.findings import Findings
    from regard.data.lines import Input
    from regard.data.readers.conllu import tagged_sentences
    from regard.files.formats import uncompressed_name

    if uncompressed_name(file).suffix != ".conllu":
        yield from _batches(file)
        return
    read = tagged_sentences(file, None, Findings())
    sentences = (Input(sentence, sentence.location.file, sentence.location.line) for sentence in read)
    while batch := list(islice(sentences, LINES_AT_ONCE)):
        yield batch


def _batches(file: Path | None) -> "Iterator[list[Input]]":
    """The input a few hundred lines at a time; what is typed, line by line."""
    from regard.data.lines import input_lines

    read = input_lines(file)
    while batch := list(islice(read, 1 if _is_typed(file) else LINES_AT_ONCE)):
        yield batch


def _is_typed(file: Path | None) -> bool:
    """Whether a person types the input."""
    return file is None and sys.stdin is not None and sys.stdin.isatty()


def _one_line(text: str) -> str:
    """An output never takes more than its own line."""
    return " ".join(text.splitlines()) if "\n" in text or "\r" in text else text
