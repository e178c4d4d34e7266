"""One entry to all exports: written aside, checked against the trained model, and only then kept."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import get_args

from regard.errors import ConfigError, RunError
from regard.export import ctranslate2
from regard.export.exported_model import ExportedModel, ExportedTask, HeldOut
from regard.export.huggingface import export as huggingface
from regard.export.onnx import export as onnx
from regard.export.parity import Parity, check

TARGETS = {target.name: target for target in (huggingface.TARGET, ctranslate2.TARGET, onnx.TARGET)}


def require_target(name: str) -> str:
    if name not in TARGETS:
        raise ConfigError("--to", f"expected one of {', '.join(TARGETS)}, got '{name}'")
    return name


def export_model(
    exported: ExportedModel,
    held_out: HeldOut,
    to: str,
    folder: Path,
    *,
    int8: bool = False,
    say: Callable[[str], None] | None = None,
) -> Parity:
    """Writes a model for other programs into a folder that does not exist yet; Failure where it fails its check."""
    target = TARGETS[require_target(to)]
    if exported.task not in (tasks := get_args(ExportedTask)):
        raise ConfigError("task", f"models of {', '.join(tasks)} are exported, got one of {exported.task}")
    if exported.task == "summarisation" and exported.input_tokens is None:
        raise ConfigError("task.input_tokens", "a summariser is exported with the number of tokens that it reads")
    if int8 and not target.int8:
        names = ", ".join(one.name for one in TARGETS.values() if one.int8)
        raise ConfigError("--int8", f"only {names} folders hold int8 weights, got --to {to}")
    if folder.exists():
        raise RunError(f"{folder}: exists already; name another folder with --out")
    rows = held_out.rows(exported)
    aside = folder.with_name(f".{folder.name}.{os.getpid()}")
    aside.mkdir(parents=True)
    try:
        written = target.write(exported, aside, int8)
        if say is not None:
            say(f"written as {written.layout}; checking it on {len(rows):,} held-out examples")
        parity = check(exported, written.engine, rows, target=to, layout=written.layout, int8=int8)
        parity.require()
        parity.write(aside, written.usage, folder.name)
        aside.rename(folder)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return parity
