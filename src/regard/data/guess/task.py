"""What a person's files are for: task, splits and columns, guessed from names and contents, each with its reason.

guess = guess_data([Path("train.en"), Path("train.de")], Path("."), GuessOptions())
guess.task, guess.sources["train"]          # translation, source = "train.en" and target = "train.de"
recipe_text(guess, "train.en train.de")     # the recipe, with comments that say what else can be set
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from regard.config import dump_toml
from regard.data.examples import DescribedPicture, Example, Labelled, LabelledPicture, Pair, Tagged, Text
from regard.data.findings import Findings
from regard.data.guess.columns import CONTENTS, ColumnRoles, GuessOptions, guess_roles, needs_header
from regard.data.guess.files import DataFile, file_names, find_files, guess_texts, pair_like, relative_name
from regard.data.guess.profile import MOST_ROWS, Table, read_table
from regard.data.readers.conllu import tagged_sentences
from regard.data.settings import SPLITS, DataConfig
from regard.data.source_reader import read_examples
from regard.data.sources import SourceConfig
from regard.errors import DataError, counted

TEXT_ROLES = ("text", "source", "target")
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


def guess_data(paths: Sequence[Path], base: Path, options: GuessOptions) -> Guess:
    """The task and the splits of files and folders; names of files will start at `base`, the recipe's folder.

    Everything is read once to its end, so that what is written can be trained on; DataError for what cannot.
    """
    _ = options.content  # refuses an unknown task before anything is read
    files, remarks = find_files(paths)
    splits = _by_split(files, remarks)
    train = splits["train"]
    guess = {"text": _texts, "table": _table, "treebank": _treebank, "images": _images}[train[0].kind](
        train, base, options
    )
    guess.remarks += remarks
    for split in ("valid", "test"):
        if split in splits:
            _add_split(guess, split, splits[split], base, options)
    _check_task(guess, options)
    _count(guess, base)
    return guess


def _by_split(files: Sequence[DataFile], remarks: list[str]) -> dict[str, list[DataFile]]:
    """The files of each split. Files that name no split are training data, unless others name it."""
    splits = {name: [file for file in files if file.split == name] for name in (*SPLITS, "")}
    splits = {name: members for name, members in splits.items() if members}
    if "train" not in splits and "" in splits:
        splits["train"] = splits.pop("")
    elif "" in splits:
        remarks.append(f"{file_names(splits.pop(''))}: not used; the name tells no split such as train, valid or test")
    if "train" not in splits:
        if len(splits) > 1:
            raise DataError(
                files[0].path, f"no training data among {file_names(files)}; name it train…, or give it alone"
            )
        splits = {"train": next(iter(splits.values()))}
    kinds = {file.kind for file in splits["train"]}
    if len(kinds) > 1:
        raise DataError(files[0].path, f"{file_names(splits['train'])} are of different kinds; give those of one kind")
    return splits


def _texts(files: Sequence[DataFile], base: Path, options: GuessOptions) -> Guess:
    task, source, reasons = guess_texts(files, base, options)
    return Guess(task, {"train": source}, reasons=reasons)


def _table(files: Sequence[DataFile], base: Path, options: GuessOptions) -> Guess:
    if len(files) > 1:
        raise DataError(files[1].path, f"a split is one file, and {file_names(files)} are all training data; join them")
    named = [*options.columns.values()]
    table = read_table(files[0].path, named)
    roles = guess_roles(table, options)
    if needs_header(table, roles):
        table = read_table(files[0].path, table.sample[0])
        roles = guess_roles(table, options)
    texts = [column for role, column in roles.columns.items() if role in TEXT_ROLES]
    seen = [f"column {name}: {column.described(name in texts)}" for name, column in table.columns.items()]
    chosen = ", ".join(f"{role} = {column}" for role, column in roles.columns.items())
    source = _table_source(table, roles, base)
    return Guess(roles.task, {"train": source}, seen=seen, reasons=[*roles.reasons, chosen])


def _table_source(table: Table, roles: ColumnRoles, base: Path) -> SourceConfig:
    settings = dict(table.settings)
    if table.header and not any(isinstance(column, str) for column in roles.columns.values()):
        settings["header"] = True
    return SourceConfig.from_tree(
        {"file": relative_name(table.file, base), **roles.columns, **settings, **roles.settings}
    )


def _treebank(files: Sequence[DataFile], base: Path, options: GuessOptions) -> Guess:
    file = relative_name(files[0].path, base)
    if options.columns:
        source = SourceConfig.from_tree({"file": file, **options.columns})
        return Guess(options.task or ("translation" if options.source else "language_model"), {"train": source})
    try:
        next(tagged_sentences(files[0].path, "upos", Findings()), None)
    except DataError:
        next(tagged_sentences(files[0].path, "xpos", Findings()), None)
        return Guess("tagging", {"train": SourceConfig(file=file, tags="xpos")}, reasons=["CoNLL-U with xpos tags"])
    return Guess(
        options.task or "tagging", {"train": SourceConfig(file=file)}, reasons=["CoNLL-U: a tag for each word"]
    )


def _images(files: Sequence[DataFile], base: Path, options: GuessOptions) -> Guess:
    names = {"images": relative_name(files[0].path, base)}
    if files[0].labels is not None:
        names["labels"] = relative_name(files[0].labels, base)
    why = "IDX files of images and labels" if "labels" in names else "images in a folder for each class"
    return Guess(options.task or "image_classification", {"train": SourceConfig.from_tree(names)}, reasons=[why])


def _add_split(guess: Guess, split: str, files: Sequence[DataFile], base: Path, options: GuessOptions) -> None:
    """Lets a further split be read as the training data is; of several test sets the first is taken."""
    train = guess.sources["train"]
    same = [file for file in files if file.kind == _kind(train)]
    if not same:
        guess.remarks.append(f"{file_names(files)}: not used; of another kind than the training data")
        return
    if train.origin == "files":
        used = pair_like(same, train)
        if not used:
            guess.remarks.append(f"{file_names(same)}: not used; no pair named like the training data")
            return
        source = SourceConfig(source=relative_name(used[0].path, base), target=relative_name(used[1].path, base))
    else:
        used = same[:1]
        name = relative_name(used[0].path, base)
        labels = {"labels": relative_name(used[0].labels, base)} if used[0].labels else {}
        source = train.but(**({"images": name, **labels} if train.origin == "images" else {"file": name}))
    rest = [file for file in files if file not in used]
    if rest:
        guess.remarks.append(f"{file_names(rest)}: not used; a split is one file, or one pair of files")
    missing = _lacks_columns(source, base)
    if missing:
        guess.remarks.append(f"{file_names(used)}: not used; {missing}")
    else:
        guess.sources[split] = source


def _kind(train: SourceConfig) -> str:
    if train.origin in ("files", "images"):
        return "text" if train.origin == "files" else "images"
    return train.reader.layout


def _lacks_columns(source: SourceConfig, base: Path) -> str:
    """Which column of the training data a table has not, such as labels that are to be found; empty if none."""
    if source.origin != "file" or source.reader.layout != "table":
        return ""
    file = source.files(base)[0]
    named = [column for column in source.columns if isinstance(column, str)]
    table = read_table(file, named)
    width = len(table.columns)
    lacking = [
        str(column)
        for column in source.columns
        if column not in table.columns and not (isinstance(column, int) and column < width)
    ]
    return f"it has no column {', '.join(lacking)}" if lacking else ""


def _check_task(guess: Guess, options: GuessOptions) -> None:
    if options.task is not None:
        guess.sources["train"].require(CONTENTS[options.task], "--task")


def _count(guess: Guess, base: Path) -> None:
    findings = Findings()
    for split, source in guess.sources.items():
        number, has_text, labels = 0, False, set[str]()
        for example in islice(read_examples(source, base, findings), MOST_ROWS):
            number += 1
            has_text |= not isinstance(example, Text) or bool(example.text.strip())
            if not guess.sample and split == "train":
                guess.sample = shown(example)
            if isinstance(example, Labelled | LabelledPicture):
                labels.update(example.classes)
        if not has_text:  # a line of running text may be blank, but not all of them
            raise DataError(source.files(base)[0], "no examples")
        more = "at least " if number == MOST_ROWS else ""
        of = f" of {len(labels)} labels" if labels else ""
        guess.counts[split] = f"{more}{counted(number, source.unit)}{of}"
        if split == "train" and source.content in ("labelled", "multi-labelled", "images") and len(labels) < 2:
            only = (
                f"all {number:,} examples have the label '{next(iter(labels))}'" if labels else "no example has a label"
            )
            raise DataError(source.files(base)[0], f"{only}; at least two are needed to tell apart")
    guess.remarks += [str(summary) for summary in findings.summaries()]
    if "valid" not in guess.sources:
        data = DataConfig(train=guess.sources["train"])
        next(iter(read_examples(data.split("valid"), base)), None)  # refuses data of which nothing can be held out


def shown(example: Example) -> str:
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


HELD_OUT = "# valid: none was found; a part of the training data is held out for validation"
NOT_TESTED = "# test = … : what `regard evaluate` scores; without it, the validation data"
SETTINGS = {
    "tokenizer": {
        "translation summarisation classification multi_label_classification language_model masked_language_model "
        "image_description": [
            "size = 8000             # entries of the vocabulary",
        ],
    },
    "model": {
        "": [
            "width = 256             # also called d_model or hidden size",
            "depth = 4               # layers",
            "heads = 4               # attention heads",
            "dropout = 0.1",
        ],
    },
    "train": {
        "": [
            "minutes = 10            # or epochs, steps, tokens or flops: the first one reached ends training",
            "tokens_per_batch = 4096 # batch size",
            'schedule = { kind = "cosine", lr = 1e-3, warmup = 200 }',
        ],
    },
}
"""What is changed most, by table, and for which tasks; empty: for all."""


def recipe_text(guess: Guess, made_from: str) -> str:
    """The TOML of a recipe for what was found."""
    made_from = "".join(sign if sign.isprintable() else "?" for sign in made_from)
    lines = [
        f"# {guess.task.replace('_', ' ').capitalize()}, written by: regard init {made_from}",
        f'task = "{guess.task}"',
        "",
        "[data]",
    ]
    lines += ["# names of files start at the folder of this recipe"]
    for split in ("train", "valid", "test"):
        if split in guess.sources:
            lines.append(f"{split} = {inline(guess.sources[split])}  # {guess.counts[split]}")
        else:
            lines.append(HELD_OUT if split == "valid" else NOT_TESTED)
    lines += ["", "# Everything else follows from task and data. What is changed most; take the # away to set it.",
              "# All settings: regard config; about one: regard config --explain dropout"]  # fmt: skip
    for table, groups in SETTINGS.items():
        settings = [
            line for tasks, group in groups.items() if not tasks or guess.task in tasks.split() for line in group
        ]
        lines += ["", f"# [{table}]", *(f"# {line}" for line in settings)] if settings else []
    return "\n".join(lines) + "\n"


def inline(source: SourceConfig) -> str:
    tree = {name: value for name, value in source.tree().items() if name in source.model_fields_set}
    return "{ " + ", ".join(dump_toml({name: value}).strip() for name, value in tree.items()) + " }"
