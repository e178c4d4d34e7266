"""A run's model as CTranslate2 takes it, made once and kept beside the run; what the run has become since is not it.

    RUN/cache/ctranslate2-KEY-float32/  model.bin config.json tokenizer.json …   as `regard export` writes it
                                        engine.json threads.json agreement.json  what this package needs beside it

KEY is a hash of the checkpoint's manifest, the recipe, the vocabularies, the code that converts and the version of
CTranslate2: whatever of them changes, another folder is asked for, and made in a process of its own (that needs torch;
here nothing does).
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
from typing import Any, Literal

from regard import __version__
from regard.ctranslate2.search import Search
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
MAKER = "regard.run.ctranslate2_conversion"
"""The module whose process makes a converted model: it stands above this one, and loads torch."""


def verb_of(task: str) -> Verb:
    """What a model of a task is asked to do."""
    return "generate" if task == "language_model" else "translate"


class Unfit(RegardError):  # noqa: N818
    """A run that CTranslate2 cannot take over; the sentence says why."""


@dataclass(frozen=True)
class Converted:
    """A converted model, and what an engine must know of it."""

    folder: Path
    task: str
    precision: Precision
    longest: int | None
    """Most tokens of an input."""
    room: int
    """Places that its positions have."""
    documents: bool
    """Whether a language model learnt where texts begin and end."""
    usual: Search
    """How the run writes unless asked otherwise."""
    searches: Mapping[str, Search]
    """The settings of each kind of search where nobody says any."""
    texts: list[str]
    """A few inputs to measure speed on."""
    input_tokens: int | None = None
    """Where a summariser cuts its inputs, the token after them counted."""
    prompted: bool = False
    """Whether what a summariser reads, and a separator, are the beginning of its own text."""
    positions: int | None = None
    """Positions of the run's own model for what it generates, where these have an end."""

    @property
    def most(self) -> int | None:
        """Most tokens that the run's own model can generate for one input, where its positions have an end."""
        if self.positions is None or not self.prompted:
            return self.positions
        return self.positions - (self.input_tokens or 0) + 1

    def limited(self, search: Search, prompt: int = 1) -> Search:
        """A search that generates no more tokens than the model has positions for after a prompt of so many tokens."""
        if self.most is None or search["max_length"] <= self.most - prompt + 1:
            return search
        most = self.most - prompt + 1
        return {**search, "max_length": most, "min_length": min(search["min_length"], most - 1)}

    @property
    def verb(self) -> Verb:
        """What it is asked to do."""
        return verb_of(self.task)

    @property
    def continues(self) -> bool:
        """Whether what it writes goes on from what it reads, in one sequence."""
        return self.prompted or self.verb == "generate"

    @classmethod
    def read(cls, folder: Path) -> "Converted":
        """What lies in a folder that `write` completed."""
        return cls(folder=folder, **json.loads((folder / SETTINGS).read_text(encoding="utf-8")))

    def write(self) -> None:
        """Completes the folder."""
        tree = {name: value for name, value in vars(self).items() if name != "folder"}
        (self.folder / SETTINGS).write_text(json.dumps(tree, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")

    def vocabularies(self) -> tuple[Vocabulary, Vocabulary]:
        """Of what is read and of what is written."""
        if (self.folder / TOKENIZER_FILE).exists():
            shared = Vocabulary.load(self.folder / TOKENIZER_FILE)
            return shared, shared
        source, target = (self.folder / field_tokenizer_file(side) for side in ("source", "target"))
        return Vocabulary.load(source), Vocabulary.load(target)

    def agreement(self, search: Search) -> tuple[int, int] | None:
        """Of how many held-out inputs torch and CTranslate2 wrote how many alike; None where nobody has looked."""
        file = self.folder / AGREEMENT
        found = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
        return tuple(found[name]) if (name := _name(search)) in found else None

    def note_agreement(self, search: Search, same: int, of: int) -> None:
        """Keeps what was found."""
        file = self.folder / AGREEMENT
        found = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
        write_atomic(file, json.dumps({**found, _name(search): [same, of]}, indent=1) + "\n")


def _name(search: Search) -> str:
    return json.dumps(dict(search), sort_keys=True)


def folder_for(run: Path, precision: Precision) -> Path:
    """Where the converted model of a run's best checkpoint lies, or would lie."""
    checkpoint = best_checkpoint(run)
    if checkpoint is None:
        raise Unfit("it has no checkpoint yet")
    key = sha256(_converter().encode())
    for file in (checkpoint / MANIFEST_FILE, run / RECIPE_FILE, *sorted(run.glob(TOKENIZER_FILES))):
        key.update(sha256(file.read_bytes()).digest())
    return run / CACHE_FOLDER / f"ctranslate2-{key.hexdigest()[:16]}-{precision}"


@cache
def _converter() -> str:
    """What converts a model: another version of it may write another one."""
    package = Path(__file__).parents[1]
    files = sorted(file for name in ("export", "ctranslate2", "text") for file in (package / name).rglob("*.py"))
    code = sha256(b"".join(file.read_bytes() for file in files)).hexdigest()
    try:
        return f"{__version__} {code} {version('ctranslate2')}"
    except PackageNotFoundError:
        return f"{__version__} {code}"


def ready(run: Path, precision: Precision, search: Search | None = None) -> Converted:
    """The converted model, made now where it is not there; Unfit where the run cannot be taken over.

    With a search, how well both engines agree on it is looked up, or measured and kept.
    """
    folder = folder_for(run, precision)
    if not is_ready(folder, search):
        _make(run, precision, search)
    if (folder / REFUSED).exists():
        raise Unfit((folder / REFUSED).read_text(encoding="utf-8").strip())
    return Converted.read(folder)


def is_ready(folder: Path, search: Search | None = None) -> bool:
    """Whether nothing is left to make."""
    if (folder / REFUSED).exists():
        return True
    if not (folder / SETTINGS).exists():
        return False
    return search is None or Converted.read(folder).agreement(search) is not None


def _make(run: Path, precision: Precision, search: Search | None) -> None:
    words = [sys.executable, "-m", MAKER, str(run), precision, *([_name(search)] if search is not None else [])]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        said: list[Any] = done.stderr.strip().splitlines() or [f"its process ended with code {done.returncode}"]
        raise Unfit(said[-1].removeprefix("regard: "))
