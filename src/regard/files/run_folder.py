"""The layout of a run folder: the names of what lies in it.

    runs/NAME/ recipe.toml  tokenizer.json  metrics.jsonl  README.md  curves.png  …
               checkpoints/step-300/ model.safetensors optimizer.safetensors state.json manifest.json
               checkpoints/step-400/ …   checkpoints/best → step-300   checkpoints/last → step-400

A link is relative, so the folder can be moved; on a file system without links, a file with the target's name stands in.
"""

import errno
import os
import re
from pathlib import Path

from regard.config.plugins import PLUGINS_FOLDER as PLUGINS_FOLDER
from regard.errors import RunError
from regard.files.atomic import remove_folder, sync_file, sync_folder

RECIPE_FILE = "recipe.toml"
TOKENIZER_FILE = "tokenizer.json"
TOKENIZER_FILES = "tokenizer*.json"
LABELS_FILE = "labels.json"
THRESHOLDS_FILE = "thresholds.json"
"""Tuned thresholds of a classifier with several labels a text."""
SENTENCES_FILE = "sentences.json"
"""Statistics of the training sources: decides whether inputs are split into sentences."""
TRAINING_WORDS_FILE = "training_words.safetensors"
"""Bloom filter of the words of the training data."""
METRICS_FILE = "metrics.jsonl"
BASELINE_FILE = "baseline.json"
CARD_FILE = "README.md"
CURVES_FILE = "curves.png"
LOCK_FILE = ".lock"
CACHE_FOLDER = "cache"
TENSORBOARD_FOLDER = "tensorboard"
NEW_VOCABULARY_FOLDER = ".vocabulary.new"
"""Vocabularies of a run until its training starts."""
DATA_FOLDER = "data"
"""Data that was given from memory."""
CHECKPOINTS_FOLDER = "checkpoints"
BEST, LAST = "best", "last"
MODEL_FILE, OPTIMIZER_FILE, STATE_FILE = "model.safetensors", "optimizer.safetensors", "state.json"
MANIFEST_FILE = "manifest.json"

WRITTEN = (
    RECIPE_FILE, TOKENIZER_FILES, LABELS_FILE, THRESHOLDS_FILE, SENTENCES_FILE, TRAINING_WORDS_FILE, METRICS_FILE,
    BASELINE_FILE, CARD_FILE, CURVES_FILE, CACHE_FOLDER, PLUGINS_FOLDER, TENSORBOARD_FOLDER,
    CHECKPOINTS_FOLDER, ".*.new",
)  # fmt: skip
"""Everything that training writes into a run folder, as glob patterns."""
STEP = re.compile(r"step-(0|[1-9][0-9]{0,17})(\.old)?")
"""`step-N`, and `step-N.old` while the same step is saved again."""
NO_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS}


def is_run(folder: Path) -> bool:
    return (folder / RECIPE_FILE).is_file()


def field_tokenizer_file(field: str) -> str:
    """The tokenizer of one text field, where vocabularies are not joint: `tokenizer.source.json`."""
    return f"tokenizer.{field}.json"


def step_folder(step: int) -> str:
    return f"step-{step}"


def step_of(path: Path) -> int | None:
    match = STEP.fullmatch(path.name)
    return int(match[1]) if match else None


def list_checkpoints(folder: Path) -> list[tuple[int, Path]]:
    """Steps and paths of all checkpoints, whole or damaged, newest first."""
    if not folder.is_dir():
        return []
    steps = [(step, path) for path in folder.iterdir() if (step := step_of(path)) is not None and path.is_dir()]
    return sorted(steps, key=lambda item: (-item[0], item[1].suffix))


def best_checkpoint(run: Path) -> Path | None:
    """The checkpoint marked as best; where none is marked, the newest. Its contents are not checked."""
    folder = run / CHECKPOINTS_FOLDER
    best = resolve_link(folder / BEST)
    if (best / MANIFEST_FILE).is_file():
        return best
    return next((path for _, path in list_checkpoints(folder)), None)


def link_checkpoint(folder: Path, name: str, step: int) -> None:
    """Lets `best` or `last` point to the checkpoint of a step, atomically."""
    link, aside, target = folder / name, folder / f".{name}.new", step_folder(step)
    if not (folder / target).is_dir():
        raise RunError(f"{folder / target}: no such checkpoint, so '{name}' cannot point to it")
    aside.unlink(missing_ok=True)
    try:
        aside.symlink_to(target)
    except OSError as error:
        if error.errno not in NO_LINKS:
            raise
        aside.write_text(f"{target}\n", encoding="utf-8")
        sync_file(aside)
    if link.is_dir() and not link.is_symlink():
        remove_folder(link)  # a copy of the run without links has a full copy of the checkpoint here
    aside.replace(link)
    sync_folder(folder)


def linked_step(folder: Path, name: str) -> int | None:
    return step_of(resolve_link(folder / name))


def resolve_link(path: Path) -> Path:
    """The checkpoint behind a path, which may be `best` or `last`."""
    if path.is_symlink():
        target = os.readlink(path)
        return path.with_name(target) if STEP.fullmatch(target) else Path(os.path.realpath(path))  # also of a loop
    if path.name in (BEST, LAST) and path.is_file() and path.stat().st_size < 100:
        target = path.read_text(encoding="utf-8", errors="replace").strip()
        return path.with_name(target) if STEP.fullmatch(target) else path
    return path
