"""Plain text files: one text, or the two of a pair and which of them is the source."""

import re
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from regard.data.examples import Pair
from regard.data.guess.columns import GuessOptions, is_summary
from regard.data.guess.files import DataFile, file_names, relative_name
from regard.data.guess.profile import MOST_ROWS, ColumnProfile
from regard.data.source_reader import read_examples
from regard.data.sources import SourceConfig
from regard.errors import ConfigError, DataError
from regard.files.formats import uncompressed_name

SOURCE_NAMES = {"source", "src", "input", "article", "document", "original"}
TARGET_NAMES = {"target", "tgt", "trg", "output", "summary", "translation", "reference", "ref"}


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
    """Statistics of the sources and of the targets of pairs."""
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
