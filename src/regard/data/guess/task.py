"""What a person's files are for: task, splits and columns, guessed from names and contents, each with its reason.

guess = guess_data([Path("train.en"), Path("train.de")], Path("."), Asked())
guess.task, guess.sources["train"]          # translation, source = "train.en" and target = "train.de"
"""

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from regard.data.examples import DescribedPicture, Example, Labelled, LabelledPicture, Pair, Tagged, Text
from regard.data.findings import Findings
from regard.data.guess.columns import CONTENTS, Asked, Roles, guess_roles, is_summary, needs_header
from regard.data.guess.files import Found, found_files, relative_name
from regard.data.guess.profile import MOST_ROWS, ColumnProfile, Table, read_table
from regard.data.readers.conllu import tagged_sentences
from regard.data.readers.source_reader import read_examples
from regard.data.settings import SPLITS, DataConfig
from regard.data.sources import SourceConfig
from regard.errors import ConfigError, DataError, counted
from regard.files.formats import uncompressed_name

FIRST = {"source", "src", "input", "article", "document", "original"}
SECOND = {"target", "tgt", "trg", "output", "summary", "translation", "reference", "ref"}
SHOWN = 80  # characters of a sample


@dataclass
class Guess:
    """What files are for: the task, where each split lies, and how that was found out."""

    task: str
    sources: dict[str, SourceConfig]
    counts: dict[str, str] = field(default_factory=dict)
    """How many examples each split has, with what they are: `900 pairs`."""
    seen: list[str] = field(default_factory=list)
    """What the files hold, a line for each thing."""
    reasons: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    """What was left out, and what is odd."""
    sample: str = ""


def guess_data(paths: Sequence[Path], base: Path, asked: Asked) -> Guess:
    """The task and the splits of files and folders; names of files will start at `base`, the recipe's folder.

    Everything is read once to its end, so that what is written can be trained on; DataError for what cannot.
    """
    _ = asked.content  # refuses an unknown task before anything is read
    found, remarks = found_files(paths)
    splits = _divided(found, remarks)
    train = splits["train"]
    kind = train[0].kind
    guess = {"text": _texts, "table": _table, "treebank": _treebank, "images": _images}[kind](train, base, asked)
    guess.remarks += remarks
    for split in ("valid", "test"):
        if split in splits:
            _add_split(guess, split, splits[split], base, asked)
    _fit(guess, asked)
    _count(guess, base)
    return guess


def _divided(found: Sequence[Found], remarks: list[str]) -> dict[str, list[Found]]:
    """The files of each split. Files that name no split are training data, unless others name it."""
    splits = {name: [one for one in found if one.split == name] for name in (*SPLITS, "")}
    splits = {name: files for name, files in splits.items() if files}
    if "train" not in splits and "" in splits:
        splits["train"] = splits.pop("")
    elif "" in splits:
        remarks.append(f"{_names(splits.pop(''))}: not used; the name tells no split such as train, valid or test")
    if "train" not in splits:
        if len(splits) > 1:
            raise DataError(found[0].path, f"no training data among {_names(found)}; name it train…, or give it alone")
        splits = {"train": next(iter(splits.values()))}
    kinds = {one.kind for one in splits["train"]}
    if len(kinds) > 1:
        raise DataError(found[0].path, f"{_names(splits['train'])} are of different kinds; give those of one kind")
    return splits


def _names(files: Sequence[Found]) -> str:
    return ", ".join(str(one.path) for one in files)


def _texts(files: Sequence[Found], base: Path, asked: Asked) -> Guess:
    chosen = _text_group(files, asked)
    if len(chosen) == 1:
        source = SourceConfig(file=relative_name(chosen[0].path, base))
        return Guess(asked.task or "language_model", {"train": source}, reasons=["one plain text"])
    source = SourceConfig(source=relative_name(chosen[0].path, base), target=relative_name(chosen[1].path, base))
    profiles = _sides(source, base)
    if profiles[1].is_label and profiles[0].mean_words > 2 * profiles[1].mean_words and asked.task is None:
        raise DataError(
            chosen[1].path,
            f"looks like labels ({profiles[1].described()}); put texts and labels into one table: "
            f"paste {chosen[0].path} {chosen[1].path} > train.tsv",
        )
    task = asked.task or ("summarisation" if is_summary(*profiles) else "translation")
    why = "long texts beside short ones" if task == "summarisation" else "two texts with the same number of lines"
    other = [_word(one.path) for one in reversed(chosen)]
    turned = f"from {chosen[0].path.name} to {chosen[1].path.name}"
    if other[0] and other[1]:
        turned += f"; the other way round: --source {other[0]} --target {other[1]}"
    return Guess(task, {"train": source}, reasons=[why, turned])


def _sides(source: SourceConfig, base: Path) -> tuple[ColumnProfile, ColumnProfile]:
    """Statistics of the sources and of the targets of pairs."""
    sides = ColumnProfile(str(source.source)), ColumnProfile(str(source.target))
    for example in islice(read_examples(source, base), MOST_ROWS):
        assert isinstance(example, Pair)
        sides[0].add(example.source, base)
        sides[1].add(example.target, base)
    return sides


def _text_group(files: Sequence[Found], asked: Asked) -> list[Found]:
    """One text, or the two that are a pair, source first."""
    if asked.source is not None or asked.target is not None:
        return _asked_pair(files, asked)
    groups: dict[object, list[Found]] = {}
    for one in files:
        groups.setdefault(uncompressed_name(one.path).with_suffix(""), []).append(one)
    sizes = [len(group) for group in groups.values()]
    if len(files) == 2 or (set(sizes) == {2} and len(sizes) > 1):
        group = list(files[:2]) if len(files) == 2 else next(iter(groups.values()))
        return sorted(group, key=_rank)
    if len(files) > 1:
        options = "--source NAME and --target NAME decide it, such as --source en --target de"
        raise DataError(files[0].path, f"cannot tell which of {_names(files)} are a pair; {options}")
    return list(files)


def _asked_pair(files: Sequence[Found], asked: Asked) -> list[Found]:
    """The two files whose names hold the words that are asked for."""
    pair: list[Found] = []
    for option, word in (("--source", asked.source), ("--target", asked.target)):
        fits = [one for one in files if word is not None and _is_called(one.path, word)]
        if word is None and len(files) == 2 and asked.source is not None:
            fits = [one for one in files if one not in pair]
        elif word is None and len(files) == 2:
            fits = [one for one in files if not _is_called(one.path, str(asked.target))]
        if len(fits) != 1:
            problem = f"expected a word in the name of one file, got '{word or ''}', which fits {len(fits)}"
            raise ConfigError(option, f"{problem} of {_names(files)}")
        pair += fits
    if pair[0] == pair[1]:
        raise ConfigError("--target", f"--source and --target both mean {pair[0].path}")
    return pair


def _is_called(file: Path, word: str) -> bool:
    return word.casefold() in (file.name.casefold(), str(file).casefold(), *_words(file))


def _words(file: Path) -> list[str]:
    return [word for word in re.split(r"[\W_]+", str(uncompressed_name(file.name)).casefold()) if word]


def _word(file: Path) -> str:
    """The word of a name that tells a language: the end, or what stands before `.txt`."""
    words = [word for word in _words(file) if word not in ("txt", "text")]
    return words[-1] if words else ""


def _rank(one: Found) -> int:
    """Order of the two texts of a pair: by names such as src and tgt; of a folder's files, English first."""
    words = set(_words(one.path))
    if words & FIRST:
        return 0
    return 3 if words & SECOND else 1 if one.in_folder and words & {"en", "english"} else 2


def _table(files: Sequence[Found], base: Path, asked: Asked) -> Guess:
    if len(files) > 1:
        raise DataError(files[1].path, f"a split is one file, and {_names(files)} are all training data; join them")
    named = [*asked.columns.values()]
    table = read_table(files[0].path, named)
    roles = guess_roles(table, asked)
    if needs_header(table, roles):
        table = read_table(files[0].path, table.sample[0])
        roles = guess_roles(table, asked)
    seen = [f"column {name}: {one.described()}" for name, one in table.columns.items()]
    chosen = ", ".join(f"{role} = {column}" for role, column in roles.columns.items())
    source = _table_source(table, roles, base)
    return Guess(roles.task, {"train": source}, seen=seen, reasons=[*roles.reasons, chosen])


def _table_source(table: Table, roles: Roles, base: Path) -> SourceConfig:
    settings = dict(table.settings)
    if table.header and not any(isinstance(column, str) for column in roles.columns.values()):
        settings["header"] = True
    return SourceConfig.from_tree({"file": relative_name(table.file, base), **roles.columns, **settings})


def _treebank(files: Sequence[Found], base: Path, asked: Asked) -> Guess:
    file = relative_name(files[0].path, base)
    if asked.columns:
        source = SourceConfig.from_tree({"file": file, **asked.columns})
        return Guess(asked.task or ("translation" if asked.source else "language_model"), {"train": source})
    try:
        next(tagged_sentences(files[0].path, "upos", Findings()), None)
    except DataError:
        next(tagged_sentences(files[0].path, "xpos", Findings()), None)
        return Guess("tagging", {"train": SourceConfig(file=file, tags="xpos")}, reasons=["CoNLL-U with xpos tags"])
    return Guess(asked.task or "tagging", {"train": SourceConfig(file=file)}, reasons=["CoNLL-U: a tag for each word"])


def _images(files: Sequence[Found], base: Path, asked: Asked) -> Guess:
    names = {"images": relative_name(files[0].path, base)}
    if files[0].labels is not None:
        names["labels"] = relative_name(files[0].labels, base)
    why = "IDX files of images and labels" if "labels" in names else "images in a folder for each class"
    return Guess(asked.task or "image_classification", {"train": SourceConfig.from_tree(names)}, reasons=[why])


def _add_split(guess: Guess, split: str, files: Sequence[Found], base: Path, asked: Asked) -> None:
    """Lets a further split be read as the training data is; of several test sets the first is taken."""
    train = guess.sources["train"]
    same = [one for one in files if one.kind == ("text" if train.origin == "files" else _kind(train))]
    if not same:
        guess.remarks.append(f"{_names(files)}: not used; of another kind than the training data")
        return
    if train.origin == "files":
        used = _like_training(same, train, guess, split)
        if used is None:
            return
        source = SourceConfig(source=relative_name(used[0].path, base), target=relative_name(used[1].path, base))
    else:
        used = same[:1]
        name = relative_name(used[0].path, base)
        labels = {"labels": relative_name(used[0].labels, base)} if used[0].labels else {}
        source = train.but(**({"images": name, **labels} if train.origin == "images" else {"file": name}))
    rest = [one for one in files if one not in used]
    if rest:
        guess.remarks.append(f"{_names(rest)}: not used; a split is one file, or one pair of files")
    missing = _lacks_columns(source, base)
    if missing:
        guess.remarks.append(f"{_names(used)}: not used; {missing}")
    else:
        guess.sources[split] = source


def _kind(train: SourceConfig) -> str:
    if train.origin == "images":
        return "images"
    return "treebank" if train.is_treebank else "text" if train.is_running_text else "table"


def _like_training(files: Sequence[Found], train: SourceConfig, guess: Guess, split: str) -> list[Found] | None:
    """The two texts whose names end as those of the training pair."""
    pair: list[Found] = []
    for name in (train.source, train.target):
        word = _word(Path(str(name)))
        pair += [one for one in files if _word(one.path) == word][:1]
    if len(pair) != 2:
        guess.remarks.append(f"{_names(files)}: not used; no pair named like the training data")
        return None
    return pair


def _lacks_columns(source: SourceConfig, base: Path) -> str:
    """Which column of the training data a table has not, such as labels that are to be found; empty if none."""
    if source.origin != "file" or source.file_format in ("text", "conllu"):
        return ""
    file = source.files(base)[0]
    named = [column for column in source.columns if isinstance(column, str)]
    table = read_table(file, named)
    width = len(table.columns)
    lacking = [
        str(one) for one in source.columns if one not in table.columns and not (isinstance(one, int) and one < width)
    ]
    return f"it has no column {', '.join(lacking)}" if lacking else ""


def _fit(guess: Guess, asked: Asked) -> None:
    """Refuses a task that cannot learn from this data."""
    if asked.task is not None:
        guess.sources["train"].require(CONTENTS[asked.task], "--task")


def _count(guess: Guess, base: Path) -> None:
    """Reads every split to its end, and counts."""
    findings = Findings()
    for split, source in guess.sources.items():
        number, has_text, labels = 0, False, set()
        for example in islice(read_examples(source, base, findings), MOST_ROWS):
            number += 1
            has_text |= not isinstance(example, Text) or bool(example.text.strip())
            if not guess.sample and split == "train":
                guess.sample = shown(example)
            if isinstance(example, Labelled | LabelledPicture):
                labels.add(example.label)
        if not has_text:  # a line of running text may be blank, but not all of them
            raise DataError(source.files(base)[0], "no examples")
        more = "at least " if number == MOST_ROWS else ""
        of = f" of {len(labels)} labels" if labels else ""
        guess.counts[split] = f"{more}{counted(number, source.unit)}{of}"
        if split == "train" and source.content in ("labelled", "images") and len(labels) < 2:
            only = f"all {number:,} examples have the label '{next(iter(labels))}'"
            raise DataError(source.files(base)[0], f"{only}; at least two are needed to tell apart")
    guess.remarks += [str(summary) for summary in findings.summaries()]
    if "valid" not in guess.sources:
        data = DataConfig(train=guess.sources["train"])
        next(iter(read_examples(data.split("valid"), base)), None)  # refuses data of which nothing can be held out


def shown(example: Example) -> str:
    """An example on one line."""
    match example:
        case Pair():
            return f"{_short(example.source)} → {_short(example.target)}"
        case Labelled():
            return f"{example.label}: {_short(example.text)}"
        case LabelledPicture():
            return f"{example.label}: {os.path.relpath(example.picture.name)}"
        case DescribedPicture():
            return f"{os.path.relpath(example.picture.name)} → {_short(example.target)}"
        case Tagged():
            return " ".join(f"{word}/{tag}" for word, tag in list(zip(example.words, example.tags, strict=False))[:12])
        case _:
            return _short(example.text)


def _short(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= SHOWN else f"{flat[: SHOWN - 1]}…"
