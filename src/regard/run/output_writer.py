"""Outputs for the lines of a file, written as parts into a folder: text, JSON or Parquet.

No torch is loaded here, so that CTranslate2 starts sooner.
"""

import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from regard.data.findings import Findings
from regard.data.lines import input_lines, unreadable
from regard.files.atomic import sha256_of
from regard.run.parts import Parts
from regard.text.inputs import Overlong
from regard.text.outputs import Output
from regard.text.splitting import Splitting, translate_by_sentence

PartFormat = Literal["text", "json", "parquet"]
SUFFIXES: dict[PartFormat, str] = {"text": ".txt", "json": ".jsonl", "parquet": ".parquet"}
LINES_AT_ONCE = 1024
"""Lines that are translated together; groups do not depend on the number of processes."""
LINES_PER_PART = 1024

Write = Callable[[list[str], bool], list[list[Output]]]
"""The translations of each text, best first; and whether to cut those that are too long, which are errors otherwise."""
Note = Callable[[str, tuple[object, int]], dict[str, Any]]
"""Notes about a text beside its translation, by the text, its file and line."""


def write_file(
    write: Write,
    request: Mapping[str, Any],
    file: Path,
    folder: Path,
    to: PartFormat,
    lines_per_part: int,
    overlong: Overlong = "error",
    say: Callable[[str], None] = lambda sentence: None,
    splitting: Splitting | None = None,
    note: Note = lambda text, origin: {},
) -> tuple[int, int]:
    """Translates a file into the parts of a folder; returns how many were made here, and how many there are.

    `request` is all that the result depends on beside the input, its splitting and the format. Lines that are too long
    are reported to `say`, unless they are an error; JSON also has what `note` returns for a line.
    """

    unreadable([file], Findings())

    def read() -> Iterator[str]:
        return (line.text for line in input_lines(file))

    count = sum(1 for _ in read())  # reads all of it, so that a line that is not text is known before the work begins
    split = None if splitting is None else asdict(splitting)
    manifest = {"input": sha256_of(file), "output": to, "split": split, **request}
    parts = Parts.open(folder, manifest, count, lines_per_part, SUFFIXES[to])
    made = parts.work(read, maker(write, to, lambda index: (file, index + 1), overlong, say, splitting, note))
    return made, len(parts)


def maker(
    write: Write,
    to: PartFormat,
    origin: Callable[[int], tuple[object, int]],
    overlong: Overlong = "error",
    say: Callable[[str], None] = lambda sentence: None,
    splitting: Splitting | None = None,
    note: Note = lambda text, origin: {},
) -> Callable[[int, list[str]], bytes]:
    """A function that makes the contents of a part; `origin` gives file and line of a text by its index."""

    def make(first: int, texts: list[str]) -> bytes:
        remaining, outputs, notes = iter(texts), list[list[Output]](), list[dict[str, Any]]()
        while batch := list(islice(remaining, LINES_AT_ONCE)):
            start = first + len(outputs)
            origins = [origin(start + index) for index in range(len(batch))]
            outputs += translate_by_sentence(batch, write, origins, overlong, say, splitting)[0]
            notes += map(note, batch, origins)
        if to == "parquet":
            return _parquet(first, texts, outputs)
        lines = map(json_line, texts, outputs, notes) if to == "json" else map(text_line, texts, outputs)
        return "".join(f"{line}\n" for line in lines).encode()

    return make


def text_line(text: str, outputs: Sequence[Output]) -> str:
    """The translations of a line, best first, between tabs; they never take more than one line."""
    return "\t".join(" ".join(output.text.splitlines()) if _breaks(output.text) else output.text for output in outputs)


def _breaks(text: str) -> bool:
    return "\n" in text or "\r" in text


def json_line(text: str, outputs: Sequence[Output], notes: Mapping[str, Any]) -> str:
    """A line and its translations as one JSON object, with scores and tokens."""
    return json.dumps({"source": text, "outputs": [vars(output) for output in outputs], **notes}, ensure_ascii=False)


def _parquet(first: int, texts: list[str], outputs: list[list[Output]]) -> bytes:
    """A row for each translation of a line; lines and ranks count from one."""
    import pyarrow as pa  # here, as other formats do not wait for it
    import pyarrow.parquet as pq

    kinds = {"line": pa.int64(), "rank": pa.int32(), "source": pa.string(), "text": pa.string(), "score": pa.float64()}
    rows = [
        {"line": first + number, "rank": rank, "source": text, "text": output.text, "score": output.score}
        for number, (text, ranked) in enumerate(zip(texts, outputs, strict=True), start=1)
        for rank, output in enumerate(ranked, start=1)
    ]
    stream = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows, pa.schema(list(kinds.items()))), stream)
    return stream.getvalue()
