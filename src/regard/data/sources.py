"""Where data lies, as recipes say it.

train = { source = "train.en.gz", target = "train.de.gz" }         two files, aligned line by line
train = { file = "pairs.tsv", source = "en", target = "de" }       columns by name, number or path
train = { file = "reviews.csv", text = "review", label = "stars" }
train = { file = "messages.jsonl", text = "text", labels = "topics" }    several labels a text, a list
train = { file = "input.txt", part = "0%-90%" }                    a running text, or any part of a file
train = { file = "memory.tmx", source = "en", target = "de" }      languages of a .tmx, .xliff or .po file
train = { file = "train.conllu", tags = "upos" }                   sentences with their trees, a tag a word
train = { file = "train.conllu", source = "words", target = "brackets" }
train = { hub = "owner/name", split = "train", source = "translation.en", target = "translation.de" }
train = { images = "train.zip" }                                   a folder or .zip with a folder for each class
train = { images = "train-images.gz", labels = "train-labels.gz" } IDX files, as MNIST has them
train = { file = "captions.tsv", image = "file", target = "text" } images and what is said about them, or a label
train = { street = "train" }                                       the embedded corpus
"""

import re
from fractions import Fraction
from os.path import expanduser  # pathlib's raises where there is no such user
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, Self

from pydantic import Field, field_validator, model_validator

from regard.config import Config, FileName, refuse
from regard.data.columns import Column, Content
from regard.data.readers.conllu import Tags
from regard.data.readers.registry import FORMATS, FileFormat, format_of
from regard.errors import ConfigError

if TYPE_CHECKING:
    Format = str
else:
    Format = Literal[tuple(FORMATS)]
Origin = Literal["files", "file", "hub", "street", "images"]
HELD_OUT = 0.05
"""The share of training data that is held out for validation unless the recipe says otherwise."""

HOW_TO_SAY: dict[Content, str] = {
    "pairs": "pairs: source = … and target = …",
    "labelled": "labelled texts: text = … and label = …",
    "multi-labelled": "texts with several labels: text = … and labels = …",
    "text": "plain text: file = … alone, or with text = …",
    "tagged": "tagged sentences: a .conllu file as file = …",
    "images": "labelled images: images = …, or file = … with image = … and label = …",
    "captions": "described images: file = … with image = … and target = …",
}


class Part(NamedTuple):
    """A stretch of a file, as fractions of its length."""

    start: Fraction
    stop: Fraction

    def of(self, total: int) -> range:
        """The positions it covers; neighbouring parts share none and leave none out."""
        return range(int(total * self.start), int(total * self.stop))


def parse_part(text: str) -> Part:
    """`0%-90%` as fractions; ValueError for anything else."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*%\s*-\s*(\d+(?:\.\d+)?)\s*%\s*", text)
    start, stop = (Fraction(number) / 100 for number in match.groups()) if match else (Fraction(), Fraction())
    if not 0 <= start < stop <= 1:
        raise ValueError("a part from lower to higher such as '0%-90%' or '90%-100%'")
    return Part(start, stop)


class SourceConfig(Config):
    """Where examples lie: two aligned text files, one file, a Hugging Face dataset, or the embedded corpus."""

    file: FileName | None = None
    """One file for all: .tsv, .csv, .jsonl, .parquet, .conllu, .tmx, .xliff, .po, or text under any other name; each
    also as .gz or .zst."""
    source: Column | None = None
    """Beside `file` or `hub`: the column to translate from, by name, number from 0 or path; of a .tmx, .xliff or .po
    file, the language. Alone: a text file."""
    target: Column | None = None
    """Beside `file` or `hub`: the column to translate into. Alone: a text file aligned with `source` line by line."""
    text: Column | None = None
    """The column that holds the text, by name, number from 0 or path such as `review.body` or `answers.0`."""
    label: Column | None = None
    """The column that holds the label."""
    images: str | None = None
    """Images by class: a folder, or a .zip, that has a folder for each; or an IDX file (.gz too) beside `labels`."""
    labels: Column | None = None
    """Beside `text`: the column with several labels, a list or a text with `separator` between them. Beside `images`:
    the IDX file with their labels."""
    separator: Literal[",", ";", "|", " "] | None = None
    """What stands between the labels of a text in a column of `labels` that has no lists: a comma when left out."""
    image: Column | None = None
    """The column that holds the image: its bytes, or the name of its file, which starts at the table's own folder."""
    tags: Tags | None = None
    """Which tags of a .conllu file to learn: `upos`, the same for all languages, when left out, or its own `xpos`. As
    `source`, `target` or `text` such a file has words, lemmas, upos, xpos, relations and brackets (the tree)."""
    format: Format | None = None
    """The format of `file`, where its name does not tell it."""
    delimiter: Literal[",", ";", "|"] | None = None
    """What separates the columns of a .csv file: a comma when left out. Columns separated by tabs: format = "tsv"."""
    header: bool | None = None
    """Whether the first row of a .tsv or .csv file names the columns; yes where a column is given by its name."""
    hub: FileName | None = None
    """A Hugging Face dataset `owner/name`, or a folder that holds one; needs the extra `hub`."""
    config: str | None = None
    """Which configuration of the Hugging Face dataset."""
    split: str | None = None
    """Which split of the Hugging Face dataset."""
    street: Literal["train", "valid", "test"] | None = None
    """A split of the embedded English-German corpus."""
    seed: int | None = None
    """Which embedded corpus to generate; 1 if not given."""
    part: str | None = None
    """A part such as `0%-90%`: of the characters in a running text, of the examples in anything else."""
    shuffle: bool = False
    """Choose the part by a hash of each example, not by place: for sorted files; equal inputs stay in one part."""
    limit: int | None = Field(default=None, ge=1)
    """At most so many examples, the first ones."""

    @property
    def origin(self) -> Origin:
        """What kind of place the data lies in."""
        if self.file is not None:
            return "file"
        if self.hub is not None:
            return "hub"
        if self.images is not None:
            return "images"
        return "files" if self.street is None else "street"

    @property
    def content(self) -> Content:
        """What kind of examples the data holds."""
        if self.images is not None or self.image is not None:
            return "images" if self.target is None else "captions"
        if self.source is not None or self.street:
            return "pairs"
        if self.is_treebank and self.text is None:
            return "tagged"
        if self.labels is not None and self.text is not None:
            return "multi-labelled"
        return "text" if self.label is None else "labelled"

    @property
    def unit(self) -> str:
        """What one of its examples is called."""
        units = {"pairs": "pair", "labelled": "labelled text", "multi-labelled": "labelled text", "text": "document"}
        units |= {"tagged": "sentence"}
        return "line" if self.is_running_text else units.get(self.content, "image")

    @property
    def file_format(self) -> Format:
        """The format of `file`: the setting, or the one its name tells."""
        return self.format or format_of(self.file or "")

    @property
    def reader(self) -> FileFormat:
        """What reads `file`."""
        return FORMATS[self.file_format]

    @property
    def has_header(self) -> bool:
        """Whether the first row of a table names its columns, as far as the recipe tells."""
        return any(isinstance(column, str) for column in self.columns) if self.header is None else self.header

    @property
    def is_running_text(self) -> bool:
        """Whether the examples are the lines of one long text."""
        return self.origin == "file" and self.reader.layout == "text"

    @property
    def is_treebank(self) -> bool:
        """Whether the examples are sentences with their dependency trees."""
        return self.origin == "file" and self.reader.layout == "treebank"

    @property
    def columns(self) -> list[str | int]:
        """The columns to read, in the order of an example's fields."""
        several = self.labels if self.images is None else None
        columns = (self.image, self.source, self.target, self.text, self.label, several)
        return [] if self.origin == "files" else [column for column in columns if column is not None]

    def files(self, base: Path = Path()) -> list[Path]:
        """The files that are read, relative ones below `base`; none for the hub and the embedded corpus."""
        pictures = [self.images, *([] if self.labels is None else [str(self.labels)])]
        names = {"files": [self.source, self.target], "file": [self.file], "images": pictures}.get(self.origin, [])
        return [base / expanduser(str(name)) for name in names]

    def from_here(self) -> Self:
        """The same data with names of files that start where the program runs, not at a recipe's folder."""
        named = {"files": ("source", "target"), "file": ("file",), "images": ("images", "labels")}.get(self.origin, ())
        names = {name: getattr(self, name) for name in named}
        return self.but(**{name: str(Path(file).absolute()) for name, file in names.items() if isinstance(file, str)})

    def require(self, content: Content, path: str = "") -> None:
        """Raises ConfigError unless the data holds this kind of examples; `path` is where it stands in the recipe."""
        if self.content != content:
            raise ConfigError(path, f"expected {HOW_TO_SAY[content]}; got {HOW_TO_SAY[self.content].partition(':')[0]}")

    @field_validator("part")
    @classmethod
    def _part(cls, value: str | None) -> str | None:
        if value is not None:
            parse_part(value)
        return value

    @model_validator(mode="after")
    def _one_origin(self) -> "SourceConfig":
        origins = [name for name in ("file", "hub", "street", "images") if getattr(self, name) is not None]
        if len(origins) > 1:
            raise refuse(origins[1], f"cannot stand beside '{origins[0]}'; give one of the two")
        if not origins and self.source is None and self.target is None:
            raise refuse("file", "say where the data lies: file = …, source = … and target = …, hub = … or street = …")
        owners = {"config": "hub", "split": "hub", "format": "file", "seed": "street"}
        for name, owner in owners.items():
            if getattr(self, name) is not None and self.origin != owner:
                raise refuse(name, f"only data given by '{owner}' has this setting")
        if self.hub is not None and self.split is None:
            raise refuse("split", "say which split of the dataset, such as split = 'train'")
        if self.shuffle and self.part is None:
            raise refuse("shuffle", "only chooses which examples belong to a 'part'; give one such as part = '0%-90%'")
        return self

    @model_validator(mode="after")
    def _pair_or_text(self) -> "SourceConfig":
        if self.image is not None or self.images is not None:
            return self._with_images()
        if self.label is not None and self.labels is not None:
            raise refuse("labels", "cannot stand beside 'label'; give the one label of a text, or several")
        for one, other in (("source", "target"), ("target", "source"), ("label", "text"), ("labels", "text")):
            if getattr(self, one) is not None and getattr(self, other) is None:
                raise refuse(other, f"needed beside '{one}'")
        if self.source is not None and self.text is not None:
            raise refuse("text", "cannot stand beside 'source'; give source and target, or text and label")
        return self

    def _with_images(self) -> "SourceConfig":
        columns = {name for name in ("image", "source", "target", "text", "label") if getattr(self, name) is not None}
        if self.images is not None and columns:
            raise refuse(min(columns), "cannot stand beside 'images', where folders or an IDX file give the label")
        if self.image is not None and self.origin not in ("file", "hub"):
            raise refuse("file", "needed beside 'image', which is a column; for files of images give images = …")
        if self.image is not None and columns not in ({"image", "label"}, {"image", "target"}):
            raise refuse("image", "needs a label = … or a target = … (what is said about the image), and nothing else")
        return self

    @model_validator(mode="after")
    def _columns_fit(self) -> "SourceConfig":
        names = {"files": ("source", "target"), "file": ("file",)}.get(self.origin, ())
        for name in names:
            self._check_file_name(name)
        if self.origin == "street" and self.columns:
            first = "text" if self.source is None else "source"
            raise refuse(first, "the embedded corpus has no columns to name")
        is_table = self.origin == "hub" or (self.origin == "file" and self.reader.layout == "table")
        if is_table and not self.columns:
            raise refuse("text", "say which columns to read: source = … and target = …, or text = … and label = …")
        return self

    @model_validator(mode="after")
    def _format_fits(self) -> "SourceConfig":
        if self.delimiter is not None and not (self.origin == "file" and self.file_format == "csv"):
            raise refuse("delimiter", "only .csv files have it; where the name ends otherwise, say format = 'csv' too")
        if self.separator is not None and self.content != "multi-labelled":
            raise refuse("separator", "only a column of 'labels' has it, several for each text")
        if self.header is not None and not (self.origin == "file" and self.file_format in ("tsv", "csv")):
            raise refuse("header", "only .tsv and .csv files have a header row")
        if self.origin == "file":
            self.reader.check(self)
        if self.tags is not None and self.content != "tagged":
            raise refuse("tags", "only sentences of a .conllu file have tags, where nothing else of it is asked for")
        return self

    def _check_file_name(self, name: str) -> None:
        value = getattr(self, name)
        if not isinstance(value, str):
            raise refuse(name, f"expected a file's name, got {value}; for a column, give 'file' too")
        try:
            format_of(value)
        except ValueError as error:
            if self.format is None:
                raise refuse(name, str(error)) from None


class DividedSource(SourceConfig):
    """Training data of which a share is held out for validation, since the recipe names no validation data."""

    held_out: bool = False
    """Whether these are the examples that are held out, or the rest."""
    share: float = HELD_OUT
    """How much is held out."""

    @property
    def whole(self) -> SourceConfig:
        """The same data undivided."""
        return SourceConfig(**{name: value for name, value in self if name not in ("held_out", "share")})


def source_of_files(text: str) -> SourceConfig:
    """The data of a file, `a.txt`, or of two aligned files, `a.en,a.de`; names start where the program runs."""
    first, comma, second = text.partition(",")
    return SourceConfig(source=first, target=second).from_here() if comma else SourceConfig(file=first).from_here()
