"""Makes a run's model ready for CTranslate2, and tries whether both engines write the same.

    python -m regard.run.ctranslate2_conversion RUN float32|int8 [SEARCH as JSON]

The engine (`regard/ctranslate2`) loads no torch and starts this as a process where something is missing.
"""

import json
import os
import shutil
import sys
from collections.abc import Sequence
from itertools import islice
from math import inf
from pathlib import Path
from random import Random
from typing import Any

from regard.ctranslate2.model_folder import REFUSED, Converted, Precision, folder_for, is_ready
from regard.ctranslate2.process import Remote
from regard.ctranslate2.search import Search, unable
from regard.data.readers.source_reader import read_examples
from regard.decode.search import DEFAULTS, as_search
from regard.errors import ConfigError, DataError, Failure, RegardError
from regard.export.export import export_model
from regard.export.exported_model import HeldOut, Subject
from regard.run.trained import Run
from regard.tasks import Summarisation
from regard.text.special_tokens import SPECIAL_TOKENS
from regard.text.vocabulary import Vocabulary

CHECKED = 64
"""Held-out examples of the parity check."""
COMPARED = 256
"""Held-out inputs that both engines write with a search."""
TIMED = 32
"""Inputs that speed is measured on."""
ROOM = 4096
"""Places of a table of positions that is computed, not learnt."""
TRAINING = frozenset({"kind", "smoothing", "consistency"})
TASK_SETTINGS = {
    "translation": TRAINING | {"reward"},
    "summarisation": TRAINING | {"input_tokens", "predict_input"},
    "language_model": TRAINING,
}
"""The settings of each task that concern training only, or that a converted model takes over; those that are not here
must be left at their defaults."""
NEEDS_TORCH = {
    "unknown": "unknown words are replaced through attention, which only torch shows",
    "dictionary": "unknown words are replaced through attention, which only torch shows",
}


def make(folder: Path, precision: Precision, search: Search | None = None) -> Path:
    """Converts the best checkpoint of a run where that is not done, and compares the engines where a beam needs it."""
    made = folder_for(folder, precision)
    wanted = search if search is None else dict(search)
    if is_ready(made, wanted):
        return made
    run = Run.open(folder, "cpu")
    texts, held_out = _held_out(run)
    if not is_ready(made):
        _convert(run, made, precision, texts, held_out)
    if (made / REFUSED).exists():
        return made
    converted = Converted.read(made)
    wanted = wanted or converted.usual
    fits = not unable(wanted, converted.searches, converted.task, converted.prompted)
    if precision == "float32" and wanted["kind"] == "beam" and fits:
        _compare(run, converted, wanted, texts)
    return made


def _convert(run: Run, made: Path, precision: Precision, texts: Sequence[str], held_out: HeldOut) -> None:
    """Writes the converted model aside, checked; what cannot be converted is noted, so that nobody tries again."""
    aside = made.with_name(f".{made.name}.{os.getpid()}.making")
    try:
        try:
            subject = _subject(run)
            export_model(subject, held_out, "ctranslate2", aside, int8=precision == "int8")
        except (ConfigError, Failure) as error:
            aside.mkdir(parents=True)
            (aside / REFUSED).write_text(f"{error}\n", encoding="utf-8")
        else:
            _settings(run, subject, aside, precision, texts).write()
        try:
            aside.rename(made)
        except OSError:
            if not made.exists():  # otherwise another process has made it meanwhile
                raise
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _subject(run: Run) -> Subject:
    length = max(run.longest or 0, run.recipe.usual_search.max_length, ROOM)
    vocabularies = run.task.vocabularies
    kind, model = run.recipe.task.kind, run.recipe.model
    refuse_task(run.recipe.task)
    return Subject(
        run.model, model, kind, vocabularies.tokenizers, vocabularies.labels, run.documents, length, run.name,
        input_tokens=_input_tokens(run), spare_positions=1,
    )  # fmt: skip


def refuse_task(task: Any) -> None:  # noqa: ANN401
    """ConfigError for a task, or a setting of it, that CTranslate2 has no equal for."""
    if task.kind not in TASK_SETTINGS:
        raise ConfigError("task", f"CTranslate2 takes over models that read and write texts, got a run of {task.kind}")
    usual = type(task)()
    for setting in type(task).model_fields:
        if setting not in TASK_SETTINGS[task.kind] and getattr(task, setting) != getattr(usual, setting):
            raise ConfigError(f"task.{setting}", NEEDS_TORCH.get(setting, "CTranslate2 has no such setting"))


def _input_tokens(run: Run) -> int | None:
    """Where inputs are cut, if they are."""
    return run.task.input_tokens if isinstance(run.task, Summarisation) else None


def _settings(run: Run, subject: Subject, folder: Path, precision: Precision, texts: Sequence[str]) -> Converted:
    return Converted(
        folder=folder,
        task=subject.kind,
        precision=precision,
        longest=run.longest,
        room=subject.room,
        positions=run.recipe.model.longest_target,
        documents=run.documents,
        usual=run.recipe.usual_search.tree(),
        searches=DEFAULTS,
        texts=list(texts[:TIMED]),
        input_tokens=subject.input_tokens,
        prompted=subject.prompted,
    )


def _compare(run: Run, converted: Converted, search: Search, texts: Sequence[str]) -> None:
    """Lets both engines write and counts the inputs whose outputs are the same, all of the n best."""
    ours = run.translate(texts, as_search(search), split=False)
    remote = Remote(converted)
    try:
        theirs = remote.translate(texts, search)
    finally:
        remote.close()
    pairs = zip(ours, theirs, strict=True)
    same = sum([one.text for one in mine] == [one.text for one in other] for mine, other in pairs)
    converted.note_agreement(search, same, len(texts))


def _held_out(run: Run) -> tuple[list[str], HeldOut]:
    """Inputs that fit, and the examples they are from; where the data is gone, texts of random tokens will do."""
    data = run.recipe.data
    try:
        found = HeldOut.of(islice(read_examples(data.split("valid"), Path(data.folder or "")), COMPARED))
    except (ConfigError, DataError):
        found = _random_texts(run)
    source = next(iter(run.task.vocabularies.tokenizers.values()))
    most = inf if _input_tokens(run) else run.longest or COMPARED
    texts = [text for text in found.texts if 0 < len(source.encode(text)) < most]
    checked = HeldOut(found.texts[:CHECKED], found.references[:CHECKED])
    return (texts, checked) if texts else (list(_random_texts(run).texts), _random_texts(run))


def _random_texts(run: Run) -> HeldOut:
    tokenizers = run.task.vocabularies.tokenizers
    texts = {name: _babble(tokenizer) for name, tokenizer in tokenizers.items()}
    return HeldOut(texts.get("source", texts.get("text", [])), texts.get("target", []))


def _babble(vocabulary: Vocabulary) -> list[str]:
    draw, first = Random(1), len(SPECIAL_TOKENS)
    size = range(COMPARED // 4)
    return [vocabulary.decode([draw.randrange(first, vocabulary.vocab_size) for _ in range(12)]) for _ in size]


def main(words: Sequence[str]) -> int:
    """The process; a refusal is one sentence on standard error."""
    folder, precision = Path(words[0]), words[1]
    try:
        make(folder, "int8" if precision == "int8" else "float32", json.loads(words[2]) if len(words) > 2 else None)
    except RegardError as error:
        print(f"regard: {error}", file=sys.stderr)  # noqa: T201
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
