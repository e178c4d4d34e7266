"""Rows of Hugging Face datasets, through the optional `datasets` library: from the hub, or from a local folder."""

import importlib
from collections.abc import Iterator, Sequence
from os.path import expanduser
from pathlib import Path
from types import ModuleType
from typing import Any

from regard.config.values import is_table
from regard.data.columns import Record
from regard.data.examples import SourceLocation
from regard.data.findings import Findings
from regard.errors import RegardError, nearest

SAVED = ("dataset_dict.json", "state.json")  # what `save_to_disk` leaves in its folder


def hub_records(name: str, config: str | None, split: str, base: Path, findings: Findings) -> Iterator[Record]:
    """The rows of one split, streamed; classes stored as numbers come as their names."""
    datasets = _library()
    where, number = f"{name}[{split}]", 0
    try:
        rows = _load(datasets, name, config, split, base)
        classes = _classes(rows)
        for number, row in enumerate(rows, start=1):
            yield {key: _named(value, classes.get(key)) for key, value in row.items()}, SourceLocation(where, number)
    except (OSError, ValueError, datasets.exceptions.DatasetsError) as error:
        problem = f"the dataset cannot be read: {' '.join(str(error).split())}"
        findings.add_once("unreadable", where, number + 1 if number else None, problem)


def _library() -> ModuleType:
    try:
        return importlib.import_module("datasets")
    except ModuleNotFoundError:
        raise RegardError("Hugging Face datasets need an extra library: pip install 'regard[hub]'") from None


def _load(datasets: ModuleType, name: str, config: str | None, split: str, base: Path) -> Any:  # noqa: ANN401
    folder = base / expanduser(name)
    if not folder.is_dir():
        return datasets.load_dataset(name, config, split=split, streaming=True)
    if any((folder / mark).exists() for mark in SAVED):
        return _split(datasets.load_from_disk(str(folder)), split)
    return datasets.load_dataset(str(folder), config, split=split, streaming=True)


def _split(saved: Any, split: str) -> Any:  # noqa: ANN401
    if not is_table(saved):
        return saved
    if split not in saved:
        raise ValueError(f"no split '{split}'; {nearest(split, saved)}")
    return saved[split]


def _classes(rows: Any) -> dict[str, Sequence[str]]:  # noqa: ANN401
    features: dict[str, Any] = getattr(rows, "features", None) or {}
    return {key: feature.names for key, feature in features.items() if getattr(feature, "names", None)}


def _named(value: object, names: Sequence[str] | None) -> object:
    return names[value] if names and isinstance(value, int) and 0 <= value < len(names) else value
