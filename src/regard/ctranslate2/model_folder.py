"""A run's model converted for CTranslate2, once, and kept in the run folder's cache.

    RUN/cache/ctranslate2-KEY-float32/  model.bin config.json tokenizer.json …   as `regard export` writes it
                                        engine.json threads.json agreement.json  what this package needs beside it

KEY is a hash of the checkpoint's manifest, the recipe, the vocabularies, the code that converts and the version of
CTranslate2: when one of them changes, the model is converted again, in a process of its own (that needs torch; nothing
here does).
"""

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal

from regard import __version__
from regard.config.search_options import Search
from regard.errors import RegardError
from regard.files.atomic import write_atomic
from regard.files.run_folder import (
    CACHE_FOLDER,
    MANIFEST_FILE,
    RECIPE_FILE,
    TOKENIZER_FILE,
    TOKENIZER_FILES,
    best_checkpoint,
    field_tokenizer_file,
)
from regard.text.vocabulary import Vocabulary

Precision = Literal["float32", "int8"]
Verb = Literal["translate", "generate"]
SETTINGS, AGREEMENT, REFUSED = "engine.json", "agreement.json", "refused.txt"
CONVERSION_MODULE = "regard.run.ctranslate2_conversion"
"""The module whose process makes a converted model: it stands above this one, and loads torch."""


def verb_of_task(task: str) -> Verb:
    """The command that uses models of a task."""
    return "generate" if task == "language_model" else "translate"


class EngineUnavailableError(RegardError):
    """A run that CTranslate2 cannot run; the message says why."""


@dataclass(frozen=True)
class ConvertedModel:
    """A converted model, and what an engine must know of it."""

    folder: Path
    task: str
    precision: Precision
    longest: int | None
    """Most tokens of an input."""
    max_positions: int
    """Positions of the converted model."""
    documents: bool
    """Whether a language model was trained on whole documents, and so knows where texts begin and end."""
    default_search: Search
    """The run's own search."""
    searches: Mapping[str, Search]
    """The default settings of each kind of search."""
    texts: list[str]
    """A few inputs to measure speed on."""
    input_tokens: int | None = None
    """Where a summariser cuts its inputs, the token after them counted."""
    prompted: bool = False
    """Whether a summariser is a decoder whose prompt is the input and a separator."""
    positions: int | None = None
    """Positions of the run's own model for what it generates, where these have an end."""

    @property
    def max_new_tokens(self) -> int | None:
        """Most tokens that the run's own model can generate for one input, where its positions have an end."""
        if self.positions is None or not self.prompted:
            return self.positions
        return self.positions - (self.input_tokens or 0) + 1

    def limited(self, search: Search, prompt: int = 1) -> Search:
        """A search that generates no more tokens than the model has positions after a prompt of so many tokens."""
        if self.max_new_tokens is None or search["max_length"] <= self.max_new_tokens - prompt + 1:
            return search
        limit = self.max_new_tokens - prompt + 1
        return {**search, "max_length": limit, "min_length": min(search["min_length"], limit - 1)}

    @property
    def verb(self) -> Verb:
        return verb_of_task(self.task)

    @property
    def continues(self) -> bool:
        """Whether its output continues its input, in one sequence."""
        return self.prompted or self.verb == "generate"

    @classmethod
    def read(cls, folder: Path) -> "ConvertedModel":
        return cls(folder=folder, **json.loads((folder / SETTINGS).read_text(encoding="utf-8")))

    def write(self) -> None:
        """Completes the folder."""
        tree = {name: value for name, value in vars(self).items() if name != "folder"}
        (self.folder / SETTINGS).write_text(json.dumps(tree, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")

    def vocabularies(self) -> tuple[Vocabulary, Vocabulary]:
        """Of source and target."""
        if (self.folder / TOKENIZER_FILE).exists():
            shared = Vocabulary.load(self.folder / TOKENIZER_FILE)
            return shared, shared
        source, target = (self.folder / field_tokenizer_file(side) for side in ("source", "target"))
        return Vocabulary.load(source), Vocabulary.load(target)

    def agreement(self, search: Search) -> tuple[int, int] | None:
        """Identical outputs of torch and CTranslate2, of so many held-out inputs; None before a comparison."""
        file = self.folder / AGREEMENT
        counts = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
        return tuple(counts[name]) if (name := _name(search)) in counts else None

    def save_agreement(self, search: Search, same: int, of: int) -> None:
        file = self.folder / AGREEMENT
        counts = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
        write_atomic(file, json.dumps({**counts, _name(search): [same, of]}, indent=1) + "\n")


def _name(search: Search) -> str:
    return json.dumps(dict(search), sort_keys=True)


def folder_for(run: Path, precision: Precision) -> Path:
    """The folder of the converted model of a run's best checkpoint, whether or not it exists."""
    checkpoint = best_checkpoint(run)
    if checkpoint is None:
        raise EngineUnavailableError("it has no checkpoint yet")
    key = sha256(_converter().encode())
    for file in (checkpoint / MANIFEST_FILE, run / RECIPE_FILE, *sorted(run.glob(TOKENIZER_FILES))):
        key.update(sha256(file.read_bytes()).digest())
    return run / CACHE_FOLDER / f"ctranslate2-{key.hexdigest()[:16]}-{precision}"


@cache
def _converter() -> str:
    """The version of the converting code, and of the library."""
    package = Path(__file__).parents[1]
    files = sorted(file for name in ("export", "ctranslate2", "text") for file in (package / name).rglob("*.py"))
    code = sha256(b"".join(file.read_bytes() for file in files)).hexdigest()
    try:
        return f"{__version__} {code} {version('ctranslate2')}"
    except PackageNotFoundError:
        return f"{__version__} {code}"


def converted_model(run: Path, precision: Precision, search: Search | None = None) -> ConvertedModel:
    """The converted model, converted now where it is not; EngineUnavailableError where it cannot be.

    With a search, both engines are compared on it, once.
    """
    folder = folder_for(run, precision)
    if not is_ready(folder, search):
        _convert(run, precision, search)
    if (folder / REFUSED).exists():
        raise EngineUnavailableError((folder / REFUSED).read_text(encoding="utf-8").strip())
    return ConvertedModel.read(folder)


def is_ready(folder: Path, search: Search | None = None) -> bool:
    """Whether the model is converted or refused, and compared on a search."""
    if (folder / REFUSED).exists():
        return True
    if not (folder / SETTINGS).exists():
        return False
    return search is None or ConvertedModel.read(folder).agreement(search) is not None


def _convert(run: Path, precision: Precision, search: Search | None) -> None:
    command = [
        sys.executable,
        "-m",
        CONVERSION_MODULE,
        str(run),
        precision,
        *([_name(search)] if search is not None else []),
    ]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    if process.returncode:
        lines = process.stderr.strip().splitlines() or [f"its process ended with code {process.returncode}"]
        raise EngineUnavailableError(lines[-1].removeprefix("regard: "))
