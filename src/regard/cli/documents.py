"""`regard translate RUN FILE.po`: documents, of which only the texts are translated."""

import sys
from collections.abc import Callable, Mapping
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.cli.engines import recipe_of
from regard.cli.inputs import UnseenWords
from regard.cli.output import counted_lines, say
from regard.errors import ConfigError, DataError

if TYPE_CHECKING:
    from regard.text.documents.registry import DocumentFormat, Languages
    from regard.text.documents.segments import Request
    from regard.text.inputs import Overlong
    from regard.text.splitting import Splitting

SENTENCES_AT_ONCE = 256


def document_of(file: Path | None, refused: Mapping[str, object], languages: str) -> "DocumentFormat | None":
    """The format of a file that is translated as a document; options that are about lines are refused for it."""
    from regard.text.documents.registry import document_format

    document = document_format(file) if file is not None else None
    if document is None or document.by_lines:
        if languages:
            raise ConfigError("--languages", "only documents (.po, .xliff, .tmx, …) have use for it; leave it out")
        return None
    for option, value in refused.items():
        if value:
            raise ConfigError(option, f"is about lines, and {file} is translated as a document; leave it out, or give "
                              "the lines on standard input")  # fmt: skip
    return document


def translate_document(
    run: Path,
    document: "DocumentFormat",
    file: Path,
    out: Path | None,
    work: Callable[[list[Any], bool], list[Any]],
    overlong: "Overlong",
    splitting: "Splitting | None",
    languages: str,
) -> None:
    """Writes the translated document to a file or to standard output."""
    from regard.data.lines import READ_ERRORS, why_unreadable
    from regard.files.atomic import write_atomic
    from regard.text.inputs import run_handling_overlong
    from regard.text.splitting import whole_spans

    if out is not None and out.is_dir():
        raise ConfigError("--out", f"expected a file for the translated document, got a folder: {out}")
    try:
        content = file.read_bytes()
    except READ_ERRORS as error:
        raise DataError(file, why_unreadable(file, error)) from None
    unseen = UnseenWords(run)

    def translated(requests: "list[Request]") -> list[str | None]:
        results, remaining = list[str | None](), iter(requests)
        while batch := list(islice(remaining, SENTENCES_AT_ONCE)):
            texts, origins = [text for text, _ in batch], [(str(file), line) for _, line in batch]
            outputs, _ = run_handling_overlong(texts, work, origins, overlong, say)
            results += [row[0].text if row else None for row in outputs]
            for text, origin in zip(texts, origins, strict=True):
                unseen.report(text, origin)
            advance(len(batch))
        return results

    spans = whole_spans if splitting is None else splitting.spans
    with counted_lines("translating", False) as advance:
        steps = document.translation(content, str(file), spans, _languages(run, languages))
        try:
            requests = next(steps)
            while True:
                requests = steps.send(translated(requests))
        except StopIteration as finished:
            result: bytes = finished.value
    unseen.close()
    if out is None:
        sys.stdout.buffer.write(result)
        sys.stdout.buffer.flush()
    else:
        write_atomic(out, result)


def _languages(run: Path, option: str) -> "Languages":
    """As the option says, or else as the run's training data is named."""
    from regard.data.languages import known_codes, pair_of, parse_pair
    from regard.data.sources import SourceConfig
    from regard.text.documents.registry import Languages

    if option:
        return Languages(*parse_pair(option))
    train = recipe_of(run).get("data", {}).get("train")
    return Languages(*known_codes(pair_of(SourceConfig.from_tree(train) if isinstance(train, dict) else None)))
