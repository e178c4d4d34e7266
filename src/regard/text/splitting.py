"""How an input of several sentences is given to a translator: sentence by sentence, or as its training examples were.

A model that was trained on sentences translates the first of several and drops the others; one that was trained on
paragraphs, tables or programs must not be given parts of them. What the training sources are is measured when the
vocabularies are made, and kept with the run:

    RUN/sentences.json   {"examples": 4096, "several": 0.021, "line_breaks": 0.0, "language": "en"}
"""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Literal

from regard.config import read_toml
from regard.errors import DataError
from regard.files.run_folder import RECIPE_FILE, SENTENCES_FILE, is_run
from regard.text.sentences import LINE, spans

MOST_READ = 100_000
"""Examples at the beginning of the training data among which some are measured."""
MOST_MEASURED = 4096
USUAL = 0.5
"""Share of training sources from which on something is usual in them."""
TASK = "translation"

Unit = Literal["sentence", "line"]


@dataclass(frozen=True)
class Splitting:
    """What of a text becomes one input of a model."""

    unit: Unit = "sentence"
    language: str | None = None
    """Code of the language whose abbreviations are known; those of all languages where none is given."""

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Where the inputs of a text begin and end, the white space around each left out; none in a blank text."""
        if self.unit == "sentence":
            return spans(text, self.language)
        found = []
        for line in LINE.finditer(text):
            if stripped := line.group().strip():
                first = line.start() + line.group().index(stripped)
                found.append((first, first + len(stripped)))
        return found


@dataclass(frozen=True)
class Measured:
    """What a sample of the training sources is like."""

    examples: int
    several: float
    """Share with more than one sentence."""
    line_breaks: float
    """Share with a line break inside."""
    language: str | None = None
    """What the names of the data say."""

    @property
    def splitting(self) -> Splitting | None:
        """Into sentences where sources usually are sentences, else into lines where they usually are lines."""
        if self.several <= USUAL:
            return Splitting("sentence", self.language)
        return Splitting("line", self.language) if self.line_breaks <= USUAL else None

    def save(self, folder: Path) -> None:
        """Writes it into a run folder."""
        (folder / SENTENCES_FILE).write_text(f"{json.dumps(asdict(self))}\n", encoding="utf-8")

    @classmethod
    def load(cls, file: Path) -> "Measured":
        """Reads it from a run folder."""
        try:
            tree = json.loads(file.read_text(encoding="utf-8"))
            found = cls(**tree)
            shares = (found.several, found.line_breaks)
            if all(isinstance(share, int | float) for share in shares) and isinstance(found.language, str | None):
                return found
        except (ValueError, TypeError, RecursionError, OSError):
            pass
        raise DataError(file, "expected what was measured of the training sources; restore the file from a copy")


def measure(sources: Iterable[str], language: str | None) -> Measured:
    """What training sources are like, from a few thousand of the first hundred thousand that are not blank."""
    sample = _thinned(source for source in islice(sources, MOST_READ) if source.strip())
    several = sum(len(spans(source, language)) > 1 for source in sample)
    breaks = sum(len(Splitting("line").spans(source)) > 1 for source in sample)
    count = max(1, len(sample))
    return Measured(len(sample), several / count, breaks / count, language)


def _thinned(sources: Iterable[str]) -> list[str]:
    """Evenly spaced texts, at most as many as are measured, of a stream whose length is not known."""
    kept, every = list[str](), 1
    for number, source in enumerate(sources):
        if number % every == 0:
            kept.append(source)
        if len(kept) > MOST_MEASURED:
            kept, every = kept[::2], every * 2
    return kept


def splitting_of(run: Path) -> Splitting | None:
    """How a run's inputs are split, if they are: as its training sources, and into sentences where none were measured.

    Only translators' are: a summary is of the whole.
    """
    if (run / SENTENCES_FILE).is_file():
        return Measured.load(run / SENTENCES_FILE).splitting
    task = read_toml(run / RECIPE_FILE).get("task", TASK) if is_run(run) else ""
    return Splitting() if (task.get("kind", TASK) if isinstance(task, dict) else task) == TASK else None
