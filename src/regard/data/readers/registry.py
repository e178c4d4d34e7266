"""The file formats of examples: each is a class that registers itself, one module a format.

A new format is one file in this folder:

    class ArrowFormat(RecordFormat):
        name, suffixes = "arrow", (".arrow",)

        def records(self, file, columns, findings):
            ...  # yield ({"column": value, …}, SourceLocation(str(file), row))
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePath
from typing import ClassVar, Literal, Protocol

from typing_extensions import override

from regard.data.columns import Content, Record, column_texts, pick_columns, row_examples
from regard.data.examples import Example, Row
from regard.data.findings import Findings
from regard.data.lines import uncompressed_name

Layout = Literal["text", "table", "treebank"]
"""What a file holds: lines of text, rows with columns, or sentences of words."""
NOT_READ = {
    ".7z", ".arrow", ".bin", ".bz2", ".ckpt", ".db", ".doc", ".docx", ".epub", ".feather", ".joblib", ".json", ".mo",
    ".npy", ".npz", ".ods", ".odt", ".pdf", ".pickle", ".pkl", ".pt", ".pth", ".rar", ".rtf",
    ".safetensors", ".sqlite", ".tar", ".tgz", ".xls", ".xlsx", ".xz", ".zip",
}  # fmt: skip
HOW_TO_CONVERT = {
    ".json": "; of a list of objects: jq -c '.[]' in.json > out.jsonl",
    ".xlsx": "; a spreadsheet program saves it as .csv",
    ".ods": "; a spreadsheet program saves it as .csv",
}


class FileSource(Protocol):
    """What a recipe says about a file, as `SourceConfig` holds it."""

    @property
    def content(self) -> Content: ...
    @property
    def columns(self) -> list[str | int]: ...
    @property
    def source(self) -> str | int | None: ...
    @property
    def target(self) -> str | int | None: ...
    @property
    def text(self) -> str | int | None: ...
    @property
    def label(self) -> str | int | None: ...
    @property
    def labels(self) -> str | int | None: ...
    @property
    def image(self) -> str | int | None: ...
    @property
    def header(self) -> bool | None: ...
    @property
    def has_header(self) -> bool: ...
    @property
    def delimiter(self) -> str | None: ...
    @property
    def separator(self) -> str | None: ...
    @property
    def tags(self) -> Literal["upos", "xpos"] | None: ...


class FileFormat(ABC):
    """How files of one format are named, checked, read for training, and read without a recipe."""

    name: ClassVar[str]
    """The value of `format` in a recipe."""
    suffixes: ClassVar[tuple[str, ...]] = ()
    layout: ClassVar[Layout] = "table"
    line_based: ClassVar[bool] = False
    """Whether a file has about as many examples as lines, so that lines can be counted instead."""

    def __init_subclass__(cls) -> None:
        if "name" in vars(cls):
            FORMATS[cls.name] = cls()

    def check(self, source: FileSource) -> None:
        """Raises `refuse(setting, problem)` for settings that do not fit the format."""
        return

    def matches(self, lines: Sequence[str]) -> bool:
        """Whether the first lines of a file whose name tells nothing are of this format."""
        return False

    @abstractmethod
    def examples(self, source: FileSource, file: Path, findings: Findings) -> Iterator[Example]:
        """The examples that a recipe asks for."""

    @abstractmethod
    def untyped_examples(self, file: Path, findings: Findings) -> Iterator[Example | Row]:
        """What `regard data check FILE` looks at, where no recipe names columns."""


FORMATS: dict[str, FileFormat] = {}


class RecordFormat(FileFormat):
    """A format whose rows have named or nested values."""

    @abstractmethod
    def records(self, file: Path, columns: Sequence[str | int] | None, findings: Findings) -> Iterator[Record]:
        """The rows, with at least the given columns, or with all."""

    @override
    def examples(self, source: FileSource, file: Path, findings: Findings) -> Iterator[Example]:
        rows = pick_columns(self.records(file, source.columns, findings), source.columns, findings)
        return row_examples(rows, source.content, source.columns, findings, source.separator)

    @override
    def untyped_examples(self, file: Path, findings: Findings) -> Iterator[Row]:
        for record, location in self.records(file, None, findings):
            texts = {f"column {path}": text for path, text in column_texts(record)}
            yield Row(texts, location, json.dumps(record, sort_keys=True, default=repr))


def format_of(file: str | PurePath) -> str:
    """The format of a file by its name; a name that tells nothing is text. ValueError for what cannot be read."""
    suffix = uncompressed_name(file).suffix.lower()
    if suffix in NOT_READ:
        raise ValueError(
            f"'{suffix}' files are not read; convert it to text, .tsv, .csv, .jsonl (one object a line) or .parquet, "
            f"each also as .gz or .zst{HOW_TO_CONVERT.get(suffix, '')}"
        )
    return next((name for name, format in FORMATS.items() if suffix in format.suffixes), "text")
