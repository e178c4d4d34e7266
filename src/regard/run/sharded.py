"""Large inputs translated in parts, by one process or by many under `torchrun`.

    regard translate RUN big.txt --out FOLDER
    torchrun --nproc-per-node 8 -m regard translate RUN big.txt --out FOLDER     then: cat FOLDER/part-*.txt

Given again, the same command makes what is missing. The number of processes does not change the result.
"""

import json
import time
from collections.abc import Callable, Iterable, Sequence
from hashlib import sha256
from pathlib import Path

from regard.config.values import Tree
from regard.data.source_reader import read_pairs
from regard.data.sources import SourceConfig
from regard.decode.search import AnySearch
from regard.errors import ConfigError
from regard.files.atomic import sha256_of
from regard.files.run_folder import CHECKPOINTS_FOLDER, MANIFEST_FILE, step_folder
from regard.run.parts import LINES_PER_PART, SUFFIXES, Note, PartFormat, Parts, Write, maker, write_file
from regard.run.scoring import Report, overlong_pairs, refuse, with_overlong
from regard.run.scoring.scorers import GeneratedTexts, report_texts
from regard.run.trained import Run
from regard.text.inputs import Overlong


def translate_file(
    run: Run,
    file: Path,
    folder: Path,
    search: AnySearch | None = None,
    others: Sequence[Run] = (),
    to: PartFormat = "text",
    lines_per_part: int = LINES_PER_PART,
    overlong: Overlong | None = None,
    say: Callable[[str], None] = lambda sentence: None,
    split: bool = True,
    note: Note = lambda text, origin: {},
) -> tuple[int, int]:
    """Translates a file into the parts of a folder; how many were made here, and how many there are."""
    run.require("translate")  # before the folder is made
    overlong = overlong or run.recipe.data.overlong
    request = {**_request_of(run, search, others), "overlong": overlong}
    splitting = run.splitting if split else None
    translate = _translator(run, search, others)
    return write_file(translate, request, file, folder, to, lines_per_part, overlong, say, splitting, note)


def score_in_parts(
    run: Run,
    source: SourceConfig,
    folder: Path,
    search: AnySearch | None = None,
    others: Sequence[Run] = (),
    lines_per_part: int = LINES_PER_PART,
    overlong: Overlong | None = None,
) -> Report:
    """The scores of a run's translations, which are first written into the parts of a folder."""
    if run.task.verb != "translate":
        raise ConfigError("--out", f"only translations are scored in parts, got a run of {run.recipe.task.kind}")
    began = time.perf_counter()
    source.require(run.recipe.task.content, "data")
    pairs, overlong = list(read_pairs(source, Path(run.recipe.data.folder or ""))), overlong or run.recipe.data.overlong
    beyond = overlong_pairs(run.task, pairs, run.longest_with(others)) if run.recipe.task.splits_inputs else {}
    refuse(beyond, overlong)
    if overlong == "skip":
        pairs = [pair for number, pair in enumerate(pairs) if number not in beyond]
    sources, references = [pair.source for pair in pairs], [pair.target for pair in pairs]
    request = {"input": _digest(sources), "output": "json", **_request_of(run, search, others), "overlong": overlong}
    parts = Parts.open(folder, request, len(sources), lines_per_part, SUFFIXES["json"])
    translate = maker(_translator(run, search, others), "json", lambda i: pairs[i].location.origin, overlong)
    parts.work(lambda: sources, translate)
    rows = (json.loads(row) for number in range(len(parts)) for row in _rows(parts.file(number)))
    written = [row["outputs"][0]["text"] for row in rows]
    texts = GeneratedTexts(pairs, sources, written, references)
    return with_overlong(report_texts(run.recipe.task, texts, source, began), beyond, overlong)


def _rows(file: Path) -> list[str]:
    return file.read_text(encoding="utf-8").split("\n")[:-1]  # JSON escapes line feeds, but no other line separators


def _translator(run: Run, search: AnySearch | None, others: Sequence[Run]) -> Write:
    return lambda batch, cut: run.translate(batch, search, others, cut, split=False)


def _request_of(run: Run, search: AnySearch | None, others: Sequence[Run]) -> Tree:
    """All that the result depends on beside the input."""
    named = getattr(run.recipe.task, "dictionary", None)
    dictionary = Path(run.recipe.data.folder or "") / named if named else None  # relative to the data
    return {
        "models": [_identity(one) for one in (run, *others)],
        "search": (search or run.recipe.usual_search).tree(),
        "task": run.recipe.task.tree(),
        "dictionary": sha256_of(dictionary) if dictionary and dictionary.is_file() else None,
        "device": run.device.type,
    }


def _identity(run: Run) -> Tree:
    """Which model it is, wherever its folder lies: the manifest of its checkpoint names the SHA-256 of each file."""
    vocabularies = {name: tokenizer.identity for name, tokenizer in run.task.vocabularies.tokenizers.items()}
    checkpoint = sha256_of(run.folder / CHECKPOINTS_FOLDER / step_folder(run.step) / MANIFEST_FILE)
    settings = _digest([json.dumps(run.recipe.model.tree(), sort_keys=True), str(run.longest), str(vocabularies)])
    return {"step": run.step, "checkpoint": checkpoint, "settings": settings}


def _digest(texts: Iterable[str]) -> str:
    digest = sha256()
    for text in texts:
        digest.update(text.encode() + b"\0")
    return digest.hexdigest()
