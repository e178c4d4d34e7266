"""Checkpoints that are whole or not there, and that say so themselves.

    save(folder, 400, model=weights, optimizer=moments, state={"epoch": 2}, extra={"moving": averages})
    path, warnings = latest(folder)       # the newest that is whole, and a sentence for each that is not
    checkpoint = load(path)

    checkpoints/step-400/ model.safetensors optimizer.safetensors moving.safetensors state.json manifest.json

One is written aside, synced, given its manifest, renamed, and read back; only then may older ones be removed.
Safetensors and JSON only: nothing is ever pickled. The process that saves holds the run's lock, so whatever is found
aside was left by a process that ended.
"""

import re
import shutil
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from regard.errors import Failure, RunError
from regard.files.atomic import remove_folder, remove_leftovers, report_disk_errors, require_free_space, sync_folder
from regard.files.manifest import JSON_LIMIT, problem_in, read_small, write_manifest
from regard.files.run_folder import (
    BEST,
    LAST,
    MODEL_FILE,
    OPTIMIZER_FILE,
    STATE_FILE,
    link_checkpoint,
    linked_step,
    list_checkpoints,
    resolve_link,
    step_of,
)
from regard.files.strict_json import from_json, to_json

REQUIRED = (MODEL_FILE, OPTIMIZER_FILE, STATE_FILE)
HEADER_PER_TENSOR = 256  # bytes beside its name: dtype, shape and offsets
ROUNDING_PER_FILE = 8192  # bytes: a file takes whole blocks, and its name takes room in the folder

Tensors = Mapping[str, Tensor]


@dataclass(frozen=True)
class Checkpoint:
    """All that a run needs to resume as if it had never stopped."""

    step: int
    model: dict[str, Tensor]
    optimizer: dict[str, Tensor]
    state: dict[str, Any]
    """What is not a tensor, as `strict_json` gives it back."""
    extra: dict[str, dict[str, Tensor]]
    """Further tensors by the name of their file, such as `moving`."""


def save(
    folder: Path,
    step: int,
    model: Tensors,
    optimizer: Tensors,
    state: Mapping[str, Any],
    extra: Mapping[str, Tensors] | None = None,
) -> Path:
    """Writes a checkpoint and lets `last` point to it; Failure leaves those before it whole and nothing half done.

    Tensors that share memory are the caller's to keep apart: each is given once, and shared again after loading.
    """
    parts = {"model": model, "optimizer": optimizer, **_checked(extra or {})}
    text = to_json({"step": step, "state": dict(state)}, indent=1)
    if len(text) > JSON_LIMIT:
        raise ValueError(f"the state takes {len(text):,} bytes of JSON, at most {JSON_LIMIT:,} can be read back")
    needed = size_on_disk(parts, text)
    with report_disk_errors(f"the checkpoint of step {step}", folder, needed):
        aside = begin(folder, step, needed)
        try:
            (aside / STATE_FILE).write_text(text, encoding="utf-8")
            for name, tensors in parts.items():
                packed = {key: tensor.detach().contiguous() for key, tensor in tensors.items()}
                save_file(packed, aside / f"{name}.safetensors", metadata={"format": "pt"})
                shutil.copymode(aside / STATE_FILE, aside / f"{name}.safetensors")  # safetensors has 0600
            return commit(aside)
        finally:
            shutil.rmtree(aside, ignore_errors=True)


def size_on_disk(parts: Mapping[str, Tensors], text: str = "") -> int:
    """Bytes of disk, rounded up a little, that a checkpoint of these tensors and this state takes."""
    tensors = [item for part in parts.values() for item in part.items()]
    headers = sum(len(name.encode()) + HEADER_PER_TENSOR for name, _ in tensors)
    return sum(tensor.nbytes for _, tensor in tensors) + headers + len(text) + ROUNDING_PER_FILE * (len(parts) + 3)


def begin(folder: Path, step: int, needed: int) -> Path:
    """An empty folder aside, to write the files of a checkpoint into, once there is enough free space."""
    folder.mkdir(parents=True, exist_ok=True)
    remove_leftovers(folder)
    for later, path in list_checkpoints(folder):
        if later > step and not broken(path):
            raise RunError(f"{path}: is later than step {step}; resume from it, or train with another --out")
    require_free_space(folder, needed)
    aside = folder / f".step-{step}.saving"
    aside.mkdir()
    return aside


def commit(aside: Path) -> Path:
    """Makes a checkpoint of the files written aside: manifest, rename, reading back; then `last` points to it."""
    folder, target = aside.parent, aside.with_name(aside.name.removeprefix(".").removesuffix(".saving"))
    write_manifest(aside)
    sync_folder(aside)
    old = _make_way(target)
    aside.rename(target)
    sync_folder(folder)
    if problem := broken(target):
        remove_folder(target)
        if old.exists():
            old.rename(target)
        raise Failure(f"{problem}: the disk gave back something else than was written; the one before it is kept")
    remove_folder(old)
    step = step_of(target) or 0
    link_checkpoint(folder, LAST, step)
    _drop_later(folder, step)
    return target


def _make_way(target: Path) -> Path:
    """Where the same step was saved before, a whole checkpoint stays at hand under another name."""
    old = target.with_name(f"{target.name}.old")
    if target.exists():
        if broken(target):
            remove_folder(target)
        else:
            remove_folder(old)
            target.rename(old)
    return old


def _drop_later(folder: Path, step: int) -> None:
    """Checkpoints of later steps than the one just saved were broken, else `begin` would have refused to save."""
    for later, path in list_checkpoints(folder):
        if later > step:
            if linked_step(folder, BEST) == later:
                (folder / BEST).unlink()
            remove_folder(path)


def load(path: Path, parts: Collection[str] | None = None) -> Checkpoint:
    """Reads a checkpoint, or what `best` or `last` points to, after checking every file of it against the manifest.

    `parts` are the tensor files to read, such as `("model",)`; the others are checked but stay empty.
    """
    with _reading(path):
        path = resolve_link(path)
        if not path.is_dir():
            raise RunError(f"{path}: no checkpoint there")
    if problem := broken(path):
        raise RunError(f"{problem}; restore it from a copy or use another checkpoint")
    state = _read_state(path)
    names = [file.stem for file in sorted(path.glob("[!.]*.safetensors"))]
    tensors = {name: _read_tensors(path / f"{name}.safetensors") for name in names if parts is None or name in parts}
    model, optimizer = tensors.pop("model", {}), tensors.pop("optimizer", {})
    return Checkpoint(state["step"], model, optimizer, state["state"], tensors)


def latest(folder: Path) -> tuple[Path | None, list[str]]:
    """The newest whole checkpoint, with a sentence for each broken one passed over; RunError where all are broken."""
    problems: list[str] = []
    with _reading(folder):
        paths = list_checkpoints(folder)
    for _, path in paths:
        problem = broken(path)
        if problem is None:
            return path, [f"{problem}; using {path.name} instead" for problem in problems]
        problems.append(problem)
    if problems:
        raise RunError(
            f"{folder}: no checkpoint is whole ({'; '.join(problems)}); restore one from a copy, "
            "or train from the beginning with another --out"
        )
    return None, []


def broken_best(folder: Path, step: int) -> str | None:
    """What is wrong with the best checkpoint of a run that resumes at a step; later ones will be made again."""
    best = linked_step(folder, BEST)
    if best is None:
        is_there = (folder / BEST).is_symlink() or (folder / BEST).exists()
        return f"{folder / BEST}: points to no checkpoint" if is_there else None
    return broken(folder / f"step-{best}") if best <= step else None


def prune(folder: Path, keep: int = 2) -> None:
    """Removes all but `best`, `last` and the newest `keep`.

    Two are kept even if fewer are asked for: one that turns out to be damaged has another before it.
    """
    with report_disk_errors("the removal of old checkpoints", folder, 0):
        paths = list_checkpoints(folder)
        steps = sorted({step for step, _ in paths}, reverse=True)
        retained = {*steps[: max(keep, 2)], linked_step(folder, BEST), linked_step(folder, LAST)}
        for step, path in paths:
            if step not in retained:
                remove_folder(path)


def broken(path: Path) -> str | None:
    """What is wrong with a checkpoint, beginning with the file; None where it is whole."""
    if problem := problem_in(path, required=REQUIRED):
        return problem
    try:
        step = _read_state(path)["step"]
    except RunError as error:
        return str(error)
    return None if step_of(path) in (None, step) else f"{path / STATE_FILE}: is of step {step}, not of {path.name}"


def _checked(extra: Mapping[str, Tensors]) -> Mapping[str, Tensors]:
    for name in extra:
        if not re.fullmatch(r"[a-z0-9_-]+", name) or name in ("model", "optimizer"):
            raise ValueError(f"'{name}' cannot name a file of further tensors")
    return extra


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise RunError(f"{error.filename or path}: cannot be read ({error.strerror})") from None


def _read_state(path: Path) -> dict[str, Any]:
    try:
        state = from_json(read_small(path / STATE_FILE))
    except (OSError, ValueError) as error:
        raise RunError(f"{path / STATE_FILE}: cannot be read ({error})") from None
    if not isinstance(state, dict) or type(state.get("step")) is not int or not isinstance(state.get("state"), dict):
        raise RunError(f"{path / STATE_FILE}: is not the state of a checkpoint")
    return state


def _read_tensors(file: Path) -> dict[str, Tensor]:
    try:
        return load_file(file)
    except (SafetensorError, OSError, ValueError, KeyError, RuntimeError) as error:
        raise RunError(f"{file}: is no sound safetensors file ({error})") from None
