"""Which of a person's files are data: those that are named, or that lie in a folder, each with its kind and split."""

import os
import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import Literal

from regard.data.findings import Findings
from regard.data.guess.profile import sniff_format
from regard.data.images.files import IDX_LABELS, SUFFIXES, is_idx
from regard.data.lines import unreadable, why_unreadable
from regard.data.readers.registry import FORMATS, Layout, format_of
from regard.errors import DataError
from regard.files.formats import uncompressed_name

FileKind = Layout | Literal["images"]
NO_DATA = {
    ".md", ".rst", ".py", ".toml", ".yaml", ".yml", ".html", ".css", ".js", ".log", ".sh", ".ipynb", ".cfg", ".ini",
    ".bib", ".tex", ".sha256", ".md5",
}  # fmt: skip
"""Ends of names that stand for no data, where a whole folder is given."""
NO_DATA_NAMES = ("readme", "license", "licence", "copying", "changelog", "makefile", "notice", "authors")
TEXTS_OF_CLASS = 5  # texts in a folder that may be named by their class
MOST_FILES = 1000  # of a folder that holds no images
SPLITS = {
    "train": "train", "training": "train", "valid": "valid", "validation": "valid", "val": "valid", "dev": "valid",
    "newsdev": "valid", "test": "test", "tst": "test", "newstest": "test",
}  # fmt: skip


@dataclass(frozen=True)
class DataFile:
    """A file of examples, or a folder of images."""

    path: Path
    kind: FileKind
    split: str
    """train, valid or test; empty where the name does not tell it."""
    in_folder: bool = False
    """Whether a folder was given, so that nobody has put its files in an order."""
    labels: Path | None = None
    """The labels of an IDX file of images."""


def find_files(paths: Sequence[Path]) -> tuple[list[DataFile], list[str]]:
    """The data among files and folders, and remarks about what is none."""
    files: list[DataFile] = []
    remarks: list[str] = []
    for path in dict.fromkeys(paths):
        if not path.exists():
            raise DataError(path, why_unreadable(path, FileNotFoundError()))
        files += _folder(path, remarks) if path.is_dir() else [_file(path, split_of(path))]
    return _with_labels(files), remarks


def relative_name(file: Path, base: Path) -> str:
    """A file's name as it stands in a recipe that lies in the folder `base`."""
    name = Path(os.path.relpath(file.parent.resolve() / file.name, base.resolve())).as_posix()
    return f"./{name}" if name.startswith("~") else name  # which would stand for somebody's home


def file_names(files: Sequence[DataFile]) -> str:
    return ", ".join(str(file.path) for file in files)


def _file(file: Path, split: str, in_folder: bool = False) -> DataFile:
    unreadable([file], Findings())
    if file.suffix.lower() == ".zip" or is_idx(file) or is_idx(file, IDX_LABELS):
        return DataFile(file, "images", split or _idx_split(file), in_folder)
    format, _ = sniff_format(file)
    return DataFile(file, FORMATS[format].layout, split, in_folder)


def _folder(folder: Path, remarks: list[str]) -> list[DataFile]:
    """The data of a folder: tables and treebanks before texts, images by class where there is nothing else."""
    files, images, unused = list[Path](), False, list[Path]()
    for file in _visible(folder):
        if file.suffix.lower() in SUFFIXES:
            images = True
        elif _is_data(file):
            files.append(file)
        else:
            unused.append(file)
        if len(files) > MOST_FILES:
            _refuse_texts_by_class(folder, files)
            raise DataError(folder, f"more than {MOST_FILES:,} files that may be data; name those that are")
    _refuse_texts_by_class(folder, files)
    data = [_file(file, _split_below(folder, file), in_folder=True) for file in sorted(files)]
    tables = [file for file in data if file.kind != "text"]
    if images and not tables:
        return _class_folders(folder)
    if not data:
        raise DataError(folder, "no data in this folder: neither texts, tables, .conllu files nor images")
    unused += [file.path for file in data if tables and file not in tables]
    if unused:
        remarks.append(f"{', '.join(os.path.relpath(file) for file in unused)}: not used")
    return tables or data


def _refuse_texts_by_class(folder: Path, files: Sequence[Path]) -> None:
    """Refuses a file for each text, in folders named by their class, as some corpora of reviews come."""
    below: dict[str, int] = {}
    for file in files:
        if file.parent != folder and _format(file) == "text" and not split_of(file):
            below[file.parent.name] = below.get(file.parent.name, 0) + 1
    classes = [name for name, number in below.items() if number >= TEXTS_OF_CLASS and not split_of(Path(name))]
    if len(classes) >= 2 and sum(below.values()) == len(files):
        raise DataError(
            folder, f"a file for each text, in folders by class ({', '.join(sorted(classes)[:5])}), is not read; put "
            "them into one table, a text and its label a row (.tsv, .csv or .jsonl)",
        )  # fmt: skip


def _visible(folder: Path) -> Iterator[Path]:
    for top, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith((".", "__")))
        yield from (Path(top) / name for name in sorted(names) if not name.startswith("."))


def _is_data(file: Path) -> bool:
    if file.stem.casefold().startswith(NO_DATA_NAMES) or file.suffix.lower() in NO_DATA:
        return False
    if file.suffix.lower() == ".zip":
        return True
    format = _format(file)
    return format is not None and (format != "text" or file.stat().st_size > 0)


def _split_below(folder: Path, file: Path) -> str:
    """The split that a file's name tells, or that of a folder between."""
    between = [PurePath(part) for part in file.relative_to(folder).parts[:-1]]
    return split_of(file) or next((split for part in reversed(between) if (split := split_of(Path(part)))), "")


def _class_folders(folder: Path) -> list[DataFile]:
    """A folder of images; or one for each split, where it is divided like that."""
    below = [entry for entry in sorted(folder.iterdir()) if entry.is_dir() and not entry.name.startswith(".")]
    if below and all(split_of(entry) for entry in below):
        return [DataFile(entry, "images", split_of(entry), in_folder=True) for entry in below]
    return [DataFile(folder, "images", split_of(folder), in_folder=True)]


def _idx_split(file: Path) -> str:
    return "test" if file.name.startswith("t10k") else ""


def _with_labels(files: list[DataFile]) -> list[DataFile]:
    """The same files, each IDX file of images joined with the one of labels whose name fits."""
    paths = {file.path for file in files}
    labels: set[Path] = set()
    joined: list[DataFile] = []
    for file in files:
        beside = file.path.with_name(file.path.name.replace("images", "labels").replace("idx3", "idx1"))
        if file.kind == "images" and beside != file.path and (beside in paths or beside.is_file()):
            labels.add(beside)
            file = replace(file, labels=beside)
        joined.append(file)
    return [file for file in joined if file.path not in labels]


def split_of(file: Path) -> str:
    """The split a file's name tells, as in `train.en.gz`, `test_2016_flickr.de` or `my-val.tsv`; empty if none."""
    words = re.split(r"[^a-z]+", file.name.lower())
    return next((SPLITS[word] for word in words if word in SPLITS), "")


def group_files(files: Iterable[Path]) -> list[list[Path]]:
    """The files that are read together: two texts `name.en` and `name.de`, or the only two of a split, are a pair."""
    groups = [[file] for file in dict.fromkeys(files)]
    return _pair_up(_pair_up(groups, _stem), split_of)


def _pair_up(groups: list[list[Path]], same: Callable[[Path], Hashable]) -> list[list[Path]]:
    """Joins single text files in twos, where exactly two of them have the `same` in common."""
    singles: dict[Hashable, list[Path]] = {}
    for group in groups:
        if len(group) == 1 and _format(group[0]) == "text":
            singles.setdefault(same(group[0]), []).append(group[0])
    pairs = {file: pair for pair in singles.values() if len(pair) == 2 for file in pair}
    joined = [pairs.get(group[0], group) for group in groups]
    return [group for index, group in enumerate(joined) if group not in joined[:index]]


def _stem(file: Path) -> PurePath:
    return uncompressed_name(file).with_suffix("")


def _format(file: Path) -> str | None:
    try:
        return format_of(file)
    except ValueError:
        return None
