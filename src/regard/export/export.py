"""One entry to all exports: write aside, check against the trained model, and only then keep."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Literal, get_args

from regard.errors import ConfigError, RunError
from regard.export import ctranslate2
from regard.export.exported_model import HeldOut, Kind, Subject
from regard.export.huggingface import export as huggingface
from regard.export.onnx import export as onnx
from regard.export.parity import Engine, Parity, check

Target = Literal["huggingface", "ctranslate2", "onnx"]

Made = tuple[Engine, str, str]
"""What runs a folder, the name of its layout, and how to use it."""


def target_of(name: str) -> Target:
    """A target by its name."""
    for known in get_args(Target):
        if name == known:
            return known
    raise ConfigError("--to", f"expected one of {', '.join(get_args(Target))}, got '{name}'")


def export_model(
    subject: Subject,
    held_out: HeldOut,
    to: Target,
    folder: Path,
    *,
    int8: bool = False,
    say: Callable[[str], None] | None = None,
) -> Parity:
    """Writes a model for other programs into a folder that does not exist yet; Failure where it fails its check."""
    target_of(to)
    if subject.kind not in get_args(Kind):
        raise ConfigError("task", f"models of {', '.join(get_args(Kind))} are exported, got one of {subject.kind}")
    if subject.kind == "summarisation" and subject.input_tokens is None:
        raise ConfigError("task.input_tokens", "a summariser is exported with the number of tokens that it reads")
    if int8 and to != "ctranslate2":
        raise ConfigError("--int8", f"only ctranslate2 folders hold int8 weights, got --to {to}")
    if folder.exists():
        raise RunError(f"{folder}: exists already; name another folder with --out")
    rows = held_out.rows(subject)
    aside = folder.with_name(f".{folder.name}.{os.getpid()}")
    aside.mkdir(parents=True)
    try:
        engine, layout, use = MAKERS[to](subject, aside, int8)
        if say is not None:
            say(f"written as {layout}; checking it on {len(rows):,} held-out examples")
        parity = check(subject, engine, rows, target=to, layout=layout, int8=int8)
        parity.require()
        parity.write(aside, use, folder.name)
        aside.rename(folder)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return parity


def _huggingface(subject: Subject, folder: Path, int8: bool) -> Made:
    architecture = huggingface.write_huggingface(subject, folder)
    engine = huggingface.HuggingFace(subject, folder, architecture)
    return engine, architecture.name, huggingface.usage(subject, architecture)


def _ctranslate2(subject: Subject, folder: Path, int8: bool) -> Made:
    layout = ctranslate2.write_ctranslate2(subject, folder, int8=int8)
    return ctranslate2.CTranslate2(subject, folder, int8=int8), layout, ctranslate2.usage(subject)


def _onnx(subject: Subject, folder: Path, int8: bool) -> Made:
    layout = onnx.write_onnx(subject, folder)
    return onnx.Onnx(subject, folder), layout, onnx.usage(subject)


MAKERS: dict[str, Callable[[Subject, Path, bool], Made]] = {
    "huggingface": _huggingface,
    "ctranslate2": _ctranslate2,
    "onnx": _onnx,
}
