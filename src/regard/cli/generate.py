"""`regard translate`, `generate`, `classify`: stdin to stdout, line for line."""

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from regard.cli.documents import document_of, translate_document
from regard.cli.engines import (
    OPTIONS,
    Engine,
    Int8,
    OverlongOption,
    choose_engine,
    ctranslate2_generator,
    overlong_for,
    say_cut,
    say_limit,
    task_of,
)
from regard.cli.inputs import UnseenWords, image_input, is_typed, read_lines, read_to_classify
from regard.cli.output import counted_lines, detail, say
from regard.cli.parts import LINES_PER_PART, Out, PartFormat, PerPart, refuse_many, refuse_parts, translate_parts
from regard.errors import ConfigError, located

if TYPE_CHECKING:
    from regard.data.lines import Input
    from regard.decode.search import AnySearch
    from regard.run.trained import Run
    from regard.text.inputs import Overlong
    from regard.text.outputs import Output
    from regard.text.splitting import Splitting

Text = TypeVar("Text")
Result = TypeVar("Result")
RunArgument = Annotated[Path, typer.Argument(help="A run folder.")]
FileArgument = Annotated[Path | None, typer.Argument(help="Input, a text a line; standard input when left out.")]
DocumentArgument = Annotated[
    Path | None, typer.Argument(help="Input, a text a line, or a document; standard input when left out.")
]
FilesArgument = Annotated[
    list[Path] | None, typer.Argument(help="Inputs, a text a line, or images; standard input when left out.")
]
Json = Annotated[bool, typer.Option("--json", help="One JSON object a line, with scores and tokens.")]
Probabilities = Annotated[bool, typer.Option("--json", help="One JSON object a line, with all probabilities.")]
Device = Annotated[str, typer.Option(help="auto, cpu or cuda.")]


def translate(
    run: RunArgument,
    file: DocumentArgument = None,
    beam: Annotated[int | None, typer.Option(min=1, help="Beam size; 1 is greedy. Default: the run's search.")] = None,
    nbest: Annotated[
        int | None,
        typer.Option(min=1, help="Translations of each line, best first, tab-separated; needs a beam."),
    ] = None,
    ensemble: Annotated[list[Path] | None, typer.Option(help="Further runs of an ensemble.")] = None,
    unknown: Annotated[str, typer.Option(help="Unknown words of a word vocabulary: keep or replace.")] = "",
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
        bool, typer.Option("--no-split", help="Translate each line as one input, without splitting it into sentences.")
    ] = False,
    languages: Annotated[
        str, typer.Option(metavar="en-de", help="Languages of a document; default: as the run's data names them.")
    ] = "",
) -> None:
    """Translate line by line. Sentence by sentence; a blank line stays blank.

    Documents (.po, .xliff, .tmx, .srt, .md, .html) are translated as a whole: markup and placeholders stay; --out names
    the new file.

    Spaces between and around sentences stay. A run that was trained on several sentences a line translates each line as
    a whole. Sentences that are too long are cut or left out, and reported.
    """
    from regard.text.splitting import load_splitting

    treatment = overlong_for(run, overlong)
    options = {name: value for name, value in {"size": beam, "n_best": nbest}.items() if value is not None}
    only_torch = {"--ensemble": ensemble, "--unknown": unknown, "--dictionary": dictionary}
    document = document_of(file, {"--json": as_json, "--nbest": nbest, "--format": part_format,
                                  "--lines-per-part": lines_per_part}, languages)  # fmt: skip
    if document is None:
        only_torch |= {"--out without --engine ctranslate2": out if engine == "auto" and not int8 else None}
    if out is None or document is not None:
        refuse_many()
        refuse_parts(part_format, lines_per_part)
    elif as_json and part_format not in (None, "json"):
        raise ConfigError("--json", f"asks for parts of JSON, and --format for {part_format}; leave one of them out")
    choice = choose_engine(run, engine, "translation", options, int8=int8, device=device, only_torch=only_torch)
    if out is not None and document is None:
        kind, lines = "json" if as_json else part_format or "text", lines_per_part or LINES_PER_PART
        translate_parts(
            run, file, out, kind, lines, choice, options, device, ensemble or [], unknown, dictionary, treatment,
            split=not no_split,
        )  # fmt: skip
        return
    if choice.converted is not None:
        work = ctranslate2_generator(choice, scored=as_json)
    else:
        work = _torch_translator(run, options, device, ensemble or [], unknown, dictionary)
    batches = [[image_input(file)]] if file and task_of(run) == "image_description" else read_lines(file)
    splitting = None if no_split else load_splitting(run)
    if document is not None and file is not None:
        translate_document(run, document, file, out, work, treatment, splitting, languages)
        return
    for line, outputs, problems in _results(batches, work, treatment, run, "translating", is_typed(file), splitting):
        if as_json:
            tree = {"source": line, "outputs": [vars(output) for output in outputs], **problems}
            print(json.dumps(tree, ensure_ascii=False))
        else:
            print("\t".join(_one_line(output.text) for output in outputs))


def _results(
    batches: "Iterable[list[Input]]",
    work: "Callable[[list[Text], bool], list[Result]]",
    overlong: "Overlong",
    run: Path,
    label: str,
    typed: bool,
    splitting: "Splitting | None" = None,
) -> Iterator[tuple[Text, Result, dict[str, str | list[str]]]]:
    """Each line, its result, and its JSON fields about unseen words and length; errors name file and line."""
    from regard.text.splitting import translate_by_sentence

    unseen = UnseenWords(run)
    with counted_lines(label, typed) as advance:
        for batch in batches:
            texts, origins = [line.text for line in batch], [line.origin for line in batch]
            results, overlong_lines = translate_by_sentence(texts, work, origins, overlong, say, splitting)
            fields = [unseen.report(line.text, line.origin) for line in batch]
            for number, (text, result, field) in enumerate(zip(texts, results, fields, strict=True), start=1):
                length = {"overlong": overlong_lines[number]} if number in overlong_lines else {}
                yield text, result, length | field
            sys.stdout.flush()
            advance(len(batch))
    unseen.close()


def _torch_translator(
    run: Path, options: Mapping[str, object], device: str, ensemble: list[Path], unknown: str, dictionary: Path | None
) -> "Callable[[list[str], bool], list[list[Output]]]":
    from regard.cli.arguments import with_unknown
    from regard.run.trained import Run

    opened = with_unknown(Run.open(run, device), unknown, dictionary)
    _say_backend(opened)
    others = [Run.open(other, device) for other in ensemble]
    search = opened.search_with(options, OPTIONS)
    say_limit(opened.limit(search, others))

    def translate_lines(lines: list[str], cut: bool) -> "list[list[Output]]":
        outputs = opened.translate(lines, search, others, cut, split=False)
        say_cut(outputs)
        return outputs

    return translate_lines


def _say_backend(opened: "Run") -> None:
    """Says why a decoding backend was chosen, where there was a choice."""
    if opened.backend.reason:
        detail(opened.backend.reason)


def generate(
    run: RunArgument,
    file: FileArgument = None,
    length: Annotated[int | None, typer.Option(min=1, help="Most tokens to generate.")] = None,
    temperature: Annotated[float | None, typer.Option(min=0, help="Sampling temperature; 0 is greedy.")] = None,
    top_k: Annotated[int | None, typer.Option(min=1, help="Sample from this many likeliest tokens.")] = None,
    top_p: Annotated[
        float | None, typer.Option(help="Sample from the likeliest tokens whose probabilities reach this.")
    ] = None,
    min_p: Annotated[
        float | None, typer.Option(help="Sample from tokens at least this likely relative to the likeliest.")
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Random seed: the same seed generates the same text.")] = None,
    stream: Annotated[bool, typer.Option("--stream", help="Show the text as it is generated.")] = False,
    as_json: Json = False,
    device: Device = "auto",
    engine: Engine = "auto",
    int8: Int8 = False,
) -> None:
    """Continue each line with the run's search. With --json, an object a line.

    --temperature, --top-k, --top-p and --min-p choose sampling where the run's search is another.
    """
    settings = {"max_length": length, "temperature": temperature, "top_k": top_k, "top_p": top_p}
    settings |= {"min_p": min_p, "seed": seed}
    options = {name: value for name, value in settings.items() if value is not None}
    if stream and as_json:
        raise ConfigError("--stream", "shows the text as it is generated, --json at its end; leave one of them out")
    choice = choose_engine(
        run, engine, "language_model", options, int8=int8, device=device, only_torch={"--stream": stream}
    )
    work: Callable[[list[str], bool], list[list[Output]]]
    if choice.converted is not None:
        work = ctranslate2_generator(choice, scored=as_json)
    else:
        opened, search = _torch_generator(run, options, device)
        if stream:
            _stream(opened, search, file)
            return
        work = partial(_generate, opened, search)
    for line, outputs, problems in _results(read_lines(file), work, "skip", run, "generating", is_typed(file)):
        if as_json:
            tree = {"prompt": line, "outputs": [vars(output) for output in outputs], **problems}
            print(json.dumps(tree, ensure_ascii=False))
        else:
            for text in [output.text for output in outputs] or [""]:
                print(line + text)


def _generate(opened: "Run", search: "AnySearch", lines: list[str], cut: bool) -> "list[list[Output]]":
    return opened.generate(lines, search)


def _torch_generator(run: Path, options: dict[str, object], device: str) -> "tuple[Run, AnySearch]":
    from regard.run.trained import Run

    opened = Run.open(run, device)
    _say_backend(opened)
    search = opened.search_with(options, OPTIONS)
    say_limit(opened.limit(search))
    return opened, search


def _stream(opened: "Run", search: "AnySearch", file: Path | None) -> None:
    if search.kind == "beam":
        raise ConfigError("--stream", "a beam search has its text only at the end; sample with --temperature")
    if (samples := getattr(search, "samples", 1)) > 1:
        raise ConfigError("--stream", f"shows one text, and the run's search draws {samples}; leave it out")
    for lines in read_lines(file):
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
    """Classify each line; a blank line stays blank. A tagger prints the tags of words and reads CoNLL-U too.

    Of several labels a text, prints those above the threshold with their probabilities.

    Lines that are too long are cut or left blank, and reported.
    """
    from regard import api
    from regard.data.examples import Tagged

    treatment, opened = overlong_for(run, overlong), api.load(run, device)
    if treatment == "cut" and opened.recipe.task.content == "tagged":
        raise ConfigError("--overlong", "a sentence with its tags cannot be cut; choose skip or error")
    batches = read_to_classify(opened.recipe.task.content, files or [])
    typed = not files and is_typed(None)
    for line, row, problems in _results(batches, opened.classify, treatment, run, "classifying", typed):
        labels = opened.task.given_labels(row) if row else []
        several = opened.task.several_labels
        if as_json:
            text = line.text if isinstance(line, Tagged) else line
            chosen = {"labels": labels if row else None} if several else {"label": labels[0] if labels else None}
            print(json.dumps({"text": text, **chosen, "probabilities": row, **problems}, ensure_ascii=False))
        elif several:
            shown = ", ".join(f"{label} {(row or {})[label]:.2f}" for label in labels)
            print(shown or ("(none)" if row else ""))
        else:
            print("".join(labels))


def _one_line(text: str) -> str:
    """An output never takes more than its own line."""
    return " ".join(text.splitlines()) if "\n" in text or "\r" in text else text
