"""Which of a person's files are data: those that are named, or that lie in a folder, each with its kind and split."""

import os
import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path, PurePath
from typing import Literal

from regard.data.examples import Pair
from regard.data.findings import Findings
from regard.data.guess.columns import GuessOptions, is_summary
from regard.data.guess.profile import MOST_ROWS, ColumnProfile, sniff_format
from regard.data.images.files import IDX_LABELS, SUFFIXES, is_idx
from regard.data.lines import uncompressed_name, unreadable, why_unreadable
from regard.data.readers.registry import FORMATS, Layout, format_of
from regard.data.source_reader import read_examples
from regard.data.sources import SourceConfig
from regard.errors import ConfigError, DataError

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

SOURCE_NAMES = {"source", "src", "input", "article", "document", "original"}
TARGET_NAMES = {"target", "tgt", "trg", "output", "summary", "translation", "reference", "ref"}


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


def guess_texts(files: Sequence[DataFile], base: Path, options: GuessOptions) -> tuple[str, SourceConfig, list[str]]:
    """The task of plain text files, their source, and the reasons."""
    chosen = _text_group(files, options)
    if len(chosen) == 1:
        source = SourceConfig(file=relative_name(chosen[0].path, base))
        return options.task or "language_model", source, ["one plain text"]
    source = SourceConfig(source=relative_name(chosen[0].path, base), target=relative_name(chosen[1].path, base))
    profiles = _sides(source, base)
    if profiles[1].is_label and profiles[0].mean_words > 2 * profiles[1].mean_words and options.task is None:
        raise DataError(
            chosen[1].path,
            f"looks like labels ({profiles[1].described()}); put texts and labels into one table: "
            f"paste {chosen[0].path} {chosen[1].path} > train.tsv",
        )
    task = options.task or ("summarisation" if is_summary(*profiles) else "translation")
    why = "long texts beside short ones" if task == "summarisation" else "two texts with the same number of lines"
    reverse = [language_word(file.path) for file in reversed(chosen)]
    direction = f"from {chosen[0].path.name} to {chosen[1].path.name}"
    if reverse[0] and reverse[1]:
        direction += f"; the other way round: --source {reverse[0]} --target {reverse[1]}"
    return task, source, [why, direction]


def _sides(source: SourceConfig, base: Path) -> tuple[ColumnProfile, ColumnProfile]:
    sides = ColumnProfile(str(source.source)), ColumnProfile(str(source.target))
    for example in islice(read_examples(source, base), MOST_ROWS):
        assert isinstance(example, Pair)
        sides[0].add(example.source, base)
        sides[1].add(example.target, base)
    return sides


def _text_group(files: Sequence[DataFile], options: GuessOptions) -> list[DataFile]:
    """One text, or the two that are a pair, source first."""
    if options.source is not None or options.target is not None:
        return _named_pair(files, options)
    groups: dict[object, list[DataFile]] = {}
    for file in files:
        groups.setdefault(uncompressed_name(file.path).with_suffix(""), []).append(file)
    sizes = [len(group) for group in groups.values()]
    if len(files) == 2 or (set(sizes) == {2} and len(sizes) > 1):
        group = list(files[:2]) if len(files) == 2 else next(iter(groups.values()))
        return sorted(group, key=_rank)
    if len(files) > 1:
        hint = "--source NAME and --target NAME decide it, such as --source en --target de"
        raise DataError(files[0].path, f"cannot tell which of {file_names(files)} are a pair; {hint}")
    return list(files)


def _named_pair(files: Sequence[DataFile], options: GuessOptions) -> list[DataFile]:
    """The two files whose names hold the words of --source and --target."""
    pair: list[DataFile] = []
    for option, word in (("--source", options.source), ("--target", options.target)):
        fits = [file for file in files if word is not None and _is_called(file.path, word)]
        if word is None and len(files) == 2 and options.source is not None:
            fits = [file for file in files if file not in pair]
        elif word is None and len(files) == 2:
            fits = [file for file in files if not _is_called(file.path, str(options.target))]
        if len(fits) != 1:
            problem = f"expected a word in the name of one file, got '{word or ''}', which fits {len(fits)}"
            raise ConfigError(option, f"{problem} of {file_names(files)}")
        pair += fits
    if pair[0] == pair[1]:
        raise ConfigError("--target", f"--source and --target both mean {pair[0].path}")
    return pair


def _is_called(file: Path, word: str) -> bool:
    return word.casefold() in (file.name.casefold(), str(file).casefold(), *_words(file))


def _words(file: Path) -> list[str]:
    return [word for word in re.split(r"[\W_]+", str(uncompressed_name(file.name)).casefold()) if word]


def language_word(file: Path) -> str:
    """The word of a name that tells a language: the end, or what stands before `.txt`."""
    words = [word for word in _words(file) if word not in ("txt", "text")]
    return words[-1] if words else ""


def _rank(file: DataFile) -> int:
    """Order of the two texts of a pair: by names such as src and tgt; of a folder's files, English first."""
    words = set(_words(file.path))
    if words & SOURCE_NAMES:
        return 0
    return 3 if words & TARGET_NAMES else 1 if file.in_folder and words & {"en", "english"} else 2


def pair_like(files: Sequence[DataFile], train: SourceConfig) -> list[DataFile]:
    """The two texts whose names end as those of the training pair; empty where there are none."""
    words = [language_word(Path(str(name))) for name in (train.source, train.target)]
    pair = [next((file for file in files if language_word(file.path) == word), None) for word in words]
    files = [file for file in pair if file is not None]
    return files if len(files) == 2 else []
