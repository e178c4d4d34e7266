"""Converts a run's model for CTranslate2, and compares what both engines generate.

    python -m regard.run.ctranslate2_conversion RUN float32|int8 [SEARCH as JSON]

The engine (`regard/ctranslate2`) loads no torch, and starts this as a process where the conversion is missing.
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

from regard.config.search_options import Search
from regard.ctranslate2.choice import unsupported_reason
from regard.ctranslate2.model_folder import REFUSED, ConvertedModel, Precision, folder_for, is_ready
from regard.ctranslate2.process import EngineProcess
from regard.data.source_reader import read_examples
from regard.decode.search import DEFAULTS, as_search
from regard.errors import ConfigError, DataError, Failure, RegardError
from regard.export.export import export_model
from regard.export.exported_model import ExportedModel, HeldOut
from regard.run.trained import Run
from regard.tasks.base import TaskConfig
from regard.text.special_tokens import SPECIAL_TOKENS
from regard.text.vocabulary import Vocabulary

CHECKED = 64
"""Held-out examples of the parity check."""
COMPARED = 256
"""Held-out inputs for which both engines generate."""
TIMED = 32
"""Inputs that speed is measured on."""
POSITIONS = 4096
"""Of a table of positions that is computed, not trained."""
NEEDS_TORCH = {
    "unknown": "unknown words are replaced through attention, which only torch shows",
    "dictionary": "unknown words are replaced through attention, which only torch shows",
}


def convert(folder: Path, precision: Precision, search: Search | None = None) -> Path:
    """Converts the best checkpoint of a run, unless that was done, and compares the engines where a beam needs it."""
    target = folder_for(folder, precision)
    search = search if search is None else dict(search)
    if is_ready(target, search):
        return target
    run = Run.open(folder, "cpu")
    texts, held_out = _held_out(run)
    if not is_ready(target):
        _convert(run, target, precision, texts, held_out)
    if (target / REFUSED).exists():
        return target
    converted = ConvertedModel.read(target)
    search = search or converted.default_search
    supported = not unsupported_reason(search, converted.searches, converted.task, converted.prompted)
    if precision == "float32" and search["kind"] == "beam" and supported:
        _compare(run, converted, search, texts)
    return target


def _convert(run: Run, target: Path, precision: Precision, texts: Sequence[str], held_out: HeldOut) -> None:
    """Writes the converted model aside and checks it; a refusal is written down, so that it is not tried again."""
    aside = target.with_name(f".{target.name}.{os.getpid()}.making")
    try:
        try:
            exported = _exported_model(run)
            export_model(exported, held_out, "ctranslate2", aside, int8=precision == "int8")
        except (ConfigError, Failure) as error:
            aside.mkdir(parents=True)
            (aside / REFUSED).write_text(f"{error}\n", encoding="utf-8")
        else:
            _settings(run, exported, aside, precision, texts).write()
        try:
            aside.rename(target)
        except OSError:
            if not target.exists():  # otherwise another process was faster
                raise
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _exported_model(run: Run) -> ExportedModel:
    refuse_task(run.recipe.task)
    length = max(run.longest or 0, run.recipe.usual_search.max_length, POSITIONS)
    return ExportedModel.of(run, length, spare_positions=1)


def refuse_task(task: TaskConfig) -> None:
    """ConfigError for a task, or a setting of it, that CTranslate2 does not support."""
    supported = task.ctranslate2_settings
    if supported is None:
        raise ConfigError("task", f"CTranslate2 runs models that generate text from text, got a run of {task.kind}")
    usual = type(task)()
    for setting in type(task).model_fields:
        if setting not in supported and getattr(task, setting) != getattr(usual, setting):
            raise ConfigError(f"task.{setting}", NEEDS_TORCH.get(setting, "CTranslate2 has no such setting"))


def _settings(
    run: Run, exported: ExportedModel, folder: Path, precision: Precision, texts: Sequence[str]
) -> ConvertedModel:
    return ConvertedModel(
        folder=folder,
        task=exported.task,
        precision=precision,
        longest=run.longest,
        max_positions=exported.max_positions,
        positions=run.recipe.model.longest_target,
        documents=run.documents,
        default_search=run.recipe.usual_search.tree(),
        searches=DEFAULTS,
        texts=list(texts[:TIMED]),
        input_tokens=exported.input_tokens,
        prompted=exported.prompted,
    )


def _compare(run: Run, converted: ConvertedModel, search: Search, texts: Sequence[str]) -> None:
    """Generates with both engines and counts the inputs whose outputs, all of the n best, are the same."""
    ours = run.translate(texts, as_search(search), split=False)
    remote = EngineProcess(converted)
    try:
        theirs = remote.translate(texts, search)
    finally:
        remote.close()
    pairs = zip(ours, theirs, strict=True)
    same = sum([output.text for output in a] == [output.text for output in b] for a, b in pairs)
    converted.save_agreement(search, same, len(texts))


def _held_out(run: Run) -> tuple[list[str], HeldOut]:
    """Inputs that fit, and the examples they are from; where the data is gone, texts of random tokens."""
    data = run.recipe.data
    try:
        held_out = HeldOut.of(islice(read_examples(data.split("valid"), Path(data.folder or "")), COMPARED))
    except (ConfigError, DataError):
        held_out = _random_texts(run)
    source = next(iter(run.tokenizers.values()))
    most = inf if run.input_tokens else run.longest or COMPARED
    texts = [text for text in held_out.texts if 0 < len(source.encode(text)) < most]
    checked = HeldOut(held_out.texts[:CHECKED], held_out.references[:CHECKED])
    return (texts, checked) if texts else (list(_random_texts(run).texts), _random_texts(run))


def _random_texts(run: Run) -> HeldOut:
    texts = {name: _random_tokens(tokenizer) for name, tokenizer in run.tokenizers.items()}
    return HeldOut(texts.get("source", texts.get("text", [])), texts.get("target", []))


def _random_tokens(vocabulary: Vocabulary) -> list[str]:
    random, first, size = Random(1), len(SPECIAL_TOKENS), vocabulary.vocab_size
    return [vocabulary.decode([random.randrange(first, size) for _ in range(12)]) for _ in range(COMPARED // 4)]


def main(words: Sequence[str]) -> int:
    """A refusal is one sentence on standard error."""
    folder, precision = Path(words[0]), words[1]
    try:
        convert(folder, "int8" if precision == "int8" else "float32", json.loads(words[2]) if len(words) > 2 else None)
    except RegardError as error:
        sys.stderr.write(f"regard: {error}\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
