"""Large inputs written in parts, by one process or by many under `torchrun`.

    regard translate RUN big.txt --out FOLDER
    torchrun --nproc-per-node 8 -m regard translate RUN big.txt --out FOLDER     then: cat FOLDER/part-*.txt

Given again, the same command goes on with what is missing. How many processes there are changes nothing in the result.
"""

import io
import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq

from regard.data.findings import Findings
from regard.data.readers import read_pairs
from regard.data.sources import SourceConfig
from regard.data.text import lines
from regard.errors import ConfigError, DataError, RegardError
from regard.run.opened import CHECKPOINTS, Run
from regard.run.parts import Parts
from regard.run.scoring import Report
from regard.run.scoring.writing import report_written
from regard.tasks.writing import AnySearch, Output
from regard.train.durable import sha256_of
from regard.train.manifest import MANIFEST

PartFormat = Literal["text", "json", "parquet"]
SUFFIXES: dict[PartFormat, str] = {"text": ".txt", "json": ".jsonl", "parquet": ".parquet"}
LINES_AT_ONCE = 256
"""Lines that are translated together: those of a file always in the same groups, whoever does it."""
LINES_PER_PART = 1024

SCHEMA = pa.schema(
    [
        ("line", pa.int64()),
        ("rank", pa.int32()),
        ("source", pa.string()),
        ("text", pa.string()),
        ("score", pa.float64()),
    ]
)
"""A row for each translation of a line; lines and ranks count from one."""


def translate_file(
    run: Run,
    file: Path,
    folder: Path,
    search: AnySearch | None = None,
    others: Sequence[Run] = (),
    to: PartFormat = "text",
    lines_per_part: int = LINES_PER_PART,
) -> tuple[int, int]:
    """Translates a file into the parts of a folder; how many were made here, and how many there are."""

    def read() -> Iterator[str]:
        return (text for _, text, _ in lines(file, Findings()))

    count = sum(1 for _ in read())  # reads all of it, so that a line that is not text is known before the work begins
    asked = {"input": sha256_of(file), "output": to, **_asked(run, search, others)}
    parts = Parts.open(folder, asked, count, lines_per_part, SUFFIXES[to])
    made = parts.work(read, _maker(run, search, others, to, str(file)))
    return made, len(parts)


def score_in_parts(
    run: Run,
    source: SourceConfig,
    folder: Path,
    search: AnySearch | None = None,
    others: Sequence[Run] = (),
    lines_per_part: int = LINES_PER_PART,
) -> Report:
    """The scores of a run's translations, which are written into the parts of a folder first."""
    if run.task.verb != "translate":
        raise ConfigError("--out", f"only translations are tested in parts, got a run of {run.recipe.task.kind}")
    began = time.perf_counter()
    source.require(run.recipe.task.content, "data")
    pairs = list(read_pairs(source, Path(run.recipe.data.folder or "")))
    sources, references = [pair.source for pair in pairs], [pair.target for pair in pairs]
    asked = {"input": _digest(sources), "output": "json", **_asked(run, search, others)}
    parts = Parts.open(folder, asked, len(sources), lines_per_part, SUFFIXES["json"])
    parts.work(lambda: sources, _maker(run, search, others, "json", "the data"))
    rows = (json.loads(row) for number in range(len(parts)) for row in _rows(parts.file(number)))
    written = [row["outputs"][0]["text"] for row in rows]
    return report_written(sources, references, written, source, began)


def _rows(file: Path) -> list[str]:
    return file.read_text(encoding="utf-8").split("\n")[:-1]  # JSON escapes line feeds, but no other line separators


def _asked(run: Run, search: AnySearch | None, others: Sequence[Run]) -> dict[str, Any]:
    """All that the result depends on beside the input."""
    dictionary = getattr(run.recipe.task, "dictionary", None)
    return {
        "models": [_identity(one) for one in (run, *others)],
        "search": (search or run.recipe.usual_search).tree(),
        "task": run.recipe.task.tree(),
        "dictionary": sha256_of(Path(dictionary)) if dictionary and Path(dictionary).is_file() else None,
        "device": run.device.type,
    }


def _identity(run: Run) -> dict[str, Any]:
    """Which model it is, wherever its folder lies: the manifest of its checkpoint names the SHA-256 of each file."""
    vocabularies = {name: tokenizer.identity for name, tokenizer in run.task.lexicon.tokenizers.items()}
    checkpoint = sha256_of(run.folder / CHECKPOINTS / f"step-{run.step}" / MANIFEST)
    settings = _digest([json.dumps(run.recipe.model.tree(), sort_keys=True), str(run.longest), str(vocabularies)])
    return {"step": run.step, "checkpoint": checkpoint, "settings": settings}


def _digest(texts: Iterable[str]) -> str:
    found = sha256()
    for text in texts:
        found.update(text.encode() + b"\0")
    return found.hexdigest()


def _maker(
    run: Run, search: AnySearch | None, others: Sequence[Run], to: PartFormat, name: str
) -> Callable[[int, list[str]], bytes]:
    """What makes the contents of a part."""

    def make(first: int, texts: list[str]) -> bytes:
        remaining, outputs = iter(texts), list[list[Output]]()
        while batch := list(islice(remaining, LINES_AT_ONCE)):
            try:
                outputs += run.translate(batch, search, others)
            except RegardError as error:
                raise DataError(name, f"counted from this line, {error}", first + len(outputs) + 1) from None
        if to == "parquet":
            return _parquet(first, texts, outputs)
        line = json_line if to == "json" else text_line
        return "".join(f"{line(*pair)}\n" for pair in zip(texts, outputs, strict=True)).encode()

    return make


def text_line(text: str, outputs: Sequence[Output]) -> str:
    """The translations of a line, best first, between tabs; they never take more than one line."""
    return "\t".join(" ".join(output.text.splitlines()) if _breaks(output.text) else output.text for output in outputs)


def _breaks(text: str) -> bool:
    return "\n" in text or "\r" in text


def json_line(text: str, outputs: Sequence[Output]) -> str:
    """A line and its translations as one JSON object, with scores and tokens."""
    return json.dumps({"source": text, "outputs": [vars(output) for output in outputs]}, ensure_ascii=False)


def _parquet(first: int, texts: list[str], outputs: list[list[Output]]) -> bytes:
    rows = [
        {"line": first + place, "rank": rank, "source": text, "text": output.text, "score": output.score}
        for place, (text, found) in enumerate(zip(texts, outputs, strict=True), start=1)
        for rank, output in enumerate(found, start=1)
    ]
    stream = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows, SCHEMA), stream)
    return stream.getvalue()
