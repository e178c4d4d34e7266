"""Which of a person's files are data: those that are named, or that lie in a folder, each with its kind and split."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Literal

from regard.data.findings import Findings
from regard.data.guess.profile import sniffed
from regard.data.guess.untyped_files import split_of
from regard.data.images.folders import SUFFIXES
from regard.data.images.idx import LABELS, is_idx
from regard.data.readers.lines import unreadable, why_unreadable
from regard.errors import DataError
from regard.files.formats import FORMATS, format_of, uncompressed_name

FileKind = Literal["text", "table", "treebank", "images"]
NO_DATA = {
    ".md", ".rst", ".py", ".toml", ".yaml", ".yml", ".html", ".css", ".js", ".log", ".sh", ".ipynb", ".cfg", ".ini",
    ".bib", ".tex", ".sha256", ".md5",
}  # fmt: skip
"""Ends of names that stand for no data, where a whole folder is given."""
NO_DATA_NAMES = ("readme", "license", "licence", "copying", "changelog", "makefile", "notice", "authors")
MOST_FILES = 1000  # of a folder that holds no images


@dataclass(frozen=True)
class Found:
    """A file, or a folder of images."""

    path: Path
    kind: FileKind
    split: str
    """train, valid or test; empty where the name does not tell it."""
    in_folder: bool = False
    """Whether a folder was given, so that nobody has put its files in an order."""
    labels: Path | None = None
    """The labels of an IDX file of images."""


def found_files(paths: Sequence[Path]) -> tuple[list[Found], list[str]]:
    """The data among files and folders, and remarks about what is none."""
    found: list[Found] = []
    remarks: list[str] = []
    for path in dict.fromkeys(paths):
        if not path.exists():
            raise DataError(path, why_unreadable(path, FileNotFoundError()))
        found += _folder(path, remarks) if path.is_dir() else [_file(path, split_of(path))]
    return _with_labels(found), remarks


def relative_name(file: Path, base: Path) -> str:
    """A file's name as it stands in a recipe that lies in the folder `base`."""
    name = Path(os.path.relpath(file.parent.resolve() / file.name, base.resolve())).as_posix()
    return f"./{name}" if name.startswith("~") else name  # which would stand for somebody's home


def _file(file: Path, split: str, in_folder: bool = False) -> Found:
    unreadable([file], Findings())
    if file.suffix.lower() == ".zip" or is_idx(file) or is_idx(file, LABELS):
        return Found(file, "images", split or _idx_split(file), in_folder)
    found, _ = sniffed(file)
    kind: FileKind = "text" if found == "text" else "treebank" if found == "conllu" else "table"
    return Found(file, kind, split, in_folder)


def _folder(folder: Path, remarks: list[str]) -> list[Found]:
    """The data of a folder: tables and treebanks before texts, images by class where there is nothing else."""
    files, images, passed = [], False, []
    for file in _visible(folder):
        if file.suffix.lower() in SUFFIXES:
            images = True
        elif _is_data(file):
            files.append(file)
        else:
            passed.append(file)
        if len(files) > MOST_FILES:
            raise DataError(folder, f"more than {MOST_FILES:,} files that may be data; name those that are")
    found = [_file(file, _split_below(folder, file), in_folder=True) for file in sorted(files)]
    tables = [one for one in found if one.kind != "text"]
    if images and not tables:
        return _class_folders(folder)
    if not found:
        raise DataError(folder, "no data in this folder: neither texts, tables, .conllu files nor images")
    passed += [one.path for one in found if tables and one not in tables]
    if passed:
        remarks.append(f"{', '.join(os.path.relpath(file) for file in passed)}: not used")
    return tables or found


def _visible(folder: Path) -> Iterator[Path]:
    for top, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith((".", "__")))
        yield from (Path(top) / name for name in sorted(names) if not name.startswith("."))


def _is_data(file: Path) -> bool:
    if file.stem.casefold().startswith(NO_DATA_NAMES) or file.suffix.lower() in NO_DATA:
        return False
    if uncompressed_name(file).suffix.lower() in FORMATS or file.suffix.lower() == ".zip":
        return True
    try:
        return format_of(file) == "text" and file.stat().st_size > 0
    except ValueError:
        return False


def _split_below(folder: Path, file: Path) -> str:
    """The split that a file's name tells, or that of a folder between."""
    between = [PurePath(part) for part in file.relative_to(folder).parts[:-1]]
    return split_of(file) or next((split for part in reversed(between) if (split := split_of(Path(part)))), "")


def _class_folders(folder: Path) -> list[Found]:
    """A folder of images; or one for each split, where it is divided like that."""
    below = [entry for entry in sorted(folder.iterdir()) if entry.is_dir() and not entry.name.startswith(".")]
    if below and all(split_of(entry) for entry in below):
        return [Found(entry, "images", split_of(entry), in_folder=True) for entry in below]
    return [Found(folder, "images", split_of(folder), in_folder=True)]


def _idx_split(file: Path) -> str:
    return "test" if file.name.startswith("t10k") else ""


def _with_labels(found: list[Found]) -> list[Found]:
    """The same files, each IDX file of images joined with the one of labels whose name fits."""
    named = {one.path: one for one in found}
    labels: set[Path] = set()
    joined = []
    for one in found:
        beside = one.path.with_name(one.path.name.replace("images", "labels").replace("idx3", "idx1"))
        if one.kind == "images" and beside != one.path and (beside in named or beside.is_file()):
            labels.add(beside)
            one = Found(one.path, "images", one.split, one.in_folder, beside)
        joined.append(one)
    return [one for one in joined if one.path not in labels]
