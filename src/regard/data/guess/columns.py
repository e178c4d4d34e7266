"""Which columns of a table are what, and so which task it is for: by their names and by their statistics."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from regard.data.guess.profile import ColumnProfile, Table
from regard.data.languages import LANGUAGE_TAG
from regard.data.readers.tables import looks_like_header
from regard.data.sources import Content
from regard.errors import ConfigError, DataError, nearest

CONTENTS: dict[str, Content] = {
    "translation": "pairs", "summarisation": "pairs", "classification": "labelled", "language_model": "text",
    "multi_label_classification": "multi-labelled",
    "masked_language_model": "text", "tagging": "tagged", "image_classification": "images",
    "image_description": "captions",
}  # fmt: skip
"""What the data of each task holds."""
OPTIONS: dict[str, str] = {
    "pairs": "--source COLUMN and --target COLUMN", "labelled": "--text COLUMN and --label COLUMN",
    "multi-labelled": "--text COLUMN and --label COLUMN",
    "text": "--text COLUMN", "images": "--label COLUMN", "captions": "--target COLUMN",
}  # fmt: skip

_names = str.split
LABELS = _names("""
    label labels class category sentiment polarity intent topic emotion genre klasse kategorie target tag stars
    rating score grade topics tags categories classes genres emotions keywords
""")
TEXTS = _names("""
    text sentence review comment content tweet message document article body utterance question description
    title headline
""")
SUMMARIES = _names("""
    summary summaries highlights abstract tldr headline title minutes
""")
PAIRS = [
    ("source", "target"), ("src", "tgt"), ("src", "trg"), ("source", "translation"), ("original", "translation"),
    ("input", "output"), ("question", "answer"), ("prompt", "completion"), ("prompt", "response"),
    ("instruction", "output"), ("instruction", "response"), ("text", "translation"), ("input", "target"),
    ("data", "text"), ("msgid", "msgstr"),
]  # fmt: skip
"""Names of columns that make pairs, beside those of two languages."""
CODES = _names("""
    en de fr es it pt nl cs ru zh ja ko pl sv da fi tr ar hi uk ro hu el he bg hr lt lv et sk sl no nb nn vi th
    fa ca ga
""")
LANGUAGES = _names("""
    english german french spanish italian portuguese dutch czech russian chinese japanese korean polish swedish
    danish finnish turkish arabic hindi ukrainian romanian hungarian greek hebrew deutsch englisch français francais
    español espanol italiano português portugues nederlands polski svenska dansk norsk suomi türkçe magyar română
    čeština русский українська ελληνικά 中文 日本語 한국어
""")
NO_TEXTS = {
    "id", "idx", "index", "date", "time", "url", "link", "file", "filename", "path", "author", "user", "username",
    "name", "language", "lang", "split", "attribution", "licence", "license",
}  # fmt: skip
"""Names of columns that hold text which nobody learns from, unless asked to."""
SHORTER = 0.4  # words of a summary, of those of its text
LONG = 40  # words of a text that is worth a summary


@dataclass(frozen=True)
class GuessOptions:
    """What the options of `regard init` decide; None: it is guessed."""

    task: str | None = None
    text: str | None = None
    label: str | None = None
    source: str | None = None
    target: str | None = None

    @property
    def columns(self) -> dict[str, str]:
        columns = {role: getattr(self, role) for role in ("text", "label", "source", "target")}
        return {role: column for role, column in columns.items() if column is not None}

    @property
    def content(self) -> Content | None:
        """What the data must hold to fit the task and the columns; None where neither is named."""
        if self.task is not None and self.task not in CONTENTS:
            raise ConfigError("--task", f"no task is called '{self.task}'; {nearest(self.task, CONTENTS)}")
        if self.task is not None:
            return CONTENTS[self.task]
        if self.source is not None or self.target is not None:
            return "pairs"
        return "labelled" if self.label is not None else None


@dataclass
class ColumnRoles:
    """The task of a table, its columns by role, and why."""

    task: str
    columns: dict[str, str | int]
    reasons: list[str] = field(default_factory=list)
    settings: dict[str, str] = field(default_factory=dict)
    """What a recipe must say beside them."""


def needs_header(table: Table, roles: ColumnRoles) -> bool:
    """Whether readers, who look at the chosen columns only, would take the first row for a header that nobody named."""
    indices = [column for column in roles.columns.values() if isinstance(column, int)]
    if table.header is not False or len(indices) < len(roles.columns):
        return False
    labels = [number for number, role in enumerate(roles.columns) if role in ("label", "labels")]
    first, *others = [[cells[index] for index in indices] for cells in table.sample]
    return looks_like_header(first, others, labels)


def guess_roles(table: Table, options: GuessOptions) -> ColumnRoles:
    """The task and the columns; DataError, with the option that decides, where they cannot be told."""
    return _Guesser(table, options).roles()


class _Guesser:
    """Columns that are `named` by options have their role; the others are `free` to be guessed."""

    def __init__(self, table: Table, options: GuessOptions) -> None:
        self.table, self.options = table, options
        self.named = {role: _column(table, f"--{role}", column) for role, column in options.columns.items()}
        self.free = [one for one in table.columns.values() if one.name not in self.named.values()]
        self.images = [one for one in self.free if one.is_image]

    def roles(self) -> ColumnRoles:
        match self._content_of_options() or self._content():
            case "pairs":
                return self._pairs()
            case "labelled":
                return self._labelled()
            case "multi-labelled":
                return self._multi_labelled()
            case "text":
                return self._text()
            case "images":
                return self._images("image_classification", "label", LABELS, OPTIONS["images"])
            case "captions":
                return self._images("image_description", "target", ["caption", *TEXTS], OPTIONS["captions"])
            case "tagged":
                problem = f"tagging needs a tag for each word: a .conllu file; {self.table.file} is a table"
                raise ConfigError("--task", problem)

    def _content_of_options(self) -> Content | None:
        """What the options ask for; where they name no task, as the columns tell it."""
        content = self.options.content
        if self.options.task is not None:
            return content
        label = self.table.columns.get(self.named.get("label", ""))
        if content == "labelled" and label is not None and label.has_several_labels:
            return "multi-labelled"
        if content == "labelled" and self.images and "text" not in self.named:
            return "images"
        return "captions" if content == "pairs" and self.images and "source" not in self.named else content

    def _content(self) -> Content:
        labels, texts, several = _labels(self.free), _texts(self.free), _several(self.free)
        if several and not self.images and ("text" in self.named or _texts(one for one in texts if one not in several)):
            return "multi-labelled"
        if self.images:
            return "images" if _best(labels, LABELS) or not texts else "captions"
        if "text" not in self.named and _named_pair(self.free):
            return "pairs"
        if labels and (texts or "text" in self.named):
            return "labelled"
        if "text" in self.named or len(texts) == 1:
            return "text"
        if len(texts) == 2:
            return "pairs"
        raise self._undecided("which task it is for", "--task, --text, --label, --source and --target decide it")

    def _pairs(self) -> ColumnRoles:
        source, target = (self.table.columns.get(self.named.get(role, "")) for role in ("source", "target"))
        reasons, texts = list[str](), _texts(self.free) or self.free
        if source is None and target is None:
            pair = _named_pair(self.free)
            if pair is None and len(texts) != 2:
                raise self._undecided("which column becomes which", f"{OPTIONS['pairs']} decide it")
            source, target = pair or (texts[0], texts[1])
            reasons.append("by their names" if pair else "the two columns of text, in their order")
        elif source is None or target is None:
            if len(texts) != 1:
                raise self._undecided("which other column belongs to it", f"{OPTIONS['pairs']} decide it")
            source, target = source or texts[0], target or texts[0]
            reasons.append("the only other column of text")
        task = self.options.task
        if task is None and not self.named and not is_summary(source, target) and is_summary(target, source):
            source, target = target, source
        if task is None and is_summary(source, target):
            task = "summarisation"
            reasons.append("one is a short form of the other")
        return ColumnRoles(task or "translation", {"source": source.name, "target": target.name}, reasons)

    def _labelled(self) -> ColumnRoles:
        text, label, why = self._text_and_label(_labels(self.free), "a column of labels, few values that repeat")
        return ColumnRoles("classification", {"text": text, "label": label}, why)

    def _multi_labelled(self) -> ColumnRoles:
        text, label, why = self._text_and_label(_several(self.free), "a column of lists of labels")
        separator = self.table.columns[label].separator
        settings = {} if separator in ("", ",") else {"separator": separator}
        return ColumnRoles("multi_label_classification", {"text": text, "labels": label}, why, settings)

    def _text_and_label(self, labels: Sequence[ColumnProfile], missing: str) -> tuple[str | int, str | int, list[str]]:
        """The column of texts, that of labels, and why these."""
        label, why = self.named.get("label"), list[str]()
        if label is None:
            best = _best(labels, LABELS) or (labels[0] if len(labels) == 1 else None)
            if best is None:
                what = "which column holds the label" if labels else missing
                raise self._undecided(what, f"{OPTIONS['labelled']} decide it")
            label = best.name
            has = f"'{label}' has" if isinstance(label, str) else f"column {label}:"
            why.append(f"{has} {best.described()}")
        text = self.named.get("text")
        if text is None:
            others = [one for one in self.free if one.name != label]
            text = self._the_text(_texts(others) or others, f"{OPTIONS['labelled']} decide it")
        return text, label, why

    def _text(self) -> ColumnRoles:
        why = [] if self.options.task or self.named else ["one column of text and no labels"]
        text = self.named.get("text")
        if text is None:
            text = self._the_text(_texts(self.free), f"{OPTIONS['text']} decides it")
        return ColumnRoles(self.options.task or "language_model", {"text": text}, why)

    def _images(self, task: str, role: str, names: Sequence[str], options: str) -> ColumnRoles:
        if len(self.images) != 1:
            what = "which column holds the images" if self.images else "a column of images"
            raise self._undecided(what, "one must")
        column = self.named.get(role)
        if column is None:
            others = [one for one in self.free if one is not self.images[0]]
            fits = _labels(others) if role == "label" else _texts(others)
            best = _best(fits, names) or (fits[0] if len(fits) == 1 else None)
            if best is None:
                raise self._undecided(f"which column is the {role} of the images", f"{options} decides it")
            column = best.name
        return ColumnRoles(task, {"image": self.images[0].name, role: column}, ["a column of images"])

    def _the_text(self, texts: Sequence[ColumnProfile], options: str) -> str | int:
        """The column of text: the only one, the one that is called so, or the one that is by far the longest."""
        if len(texts) == 1:
            return texts[0].name
        ranked = sorted(texts, key=lambda one: -one.mean_words)
        if len(ranked) > 1 and ranked[0].mean_words > 2 * ranked[1].mean_words:
            return ranked[0].name
        named = _best(texts, TEXTS[:1]) or _best([one for one in texts if _rank(one.name, TEXTS) is not None], TEXTS)
        pair = {str(one.name).rstrip("12") for one in texts}
        if named is None or len(pair) < len(texts):
            raise self._undecided("which column holds the text" if texts else "a column of text", options)
        return named.name

    def _undecided(self, what: str, options: str) -> DataError:
        shown = "; ".join(f"{name}: {one.described()}" for name, one in self.table.columns.items())
        return DataError(self.table.file, f"cannot tell {what} ({shown}); {options}")


def is_summary(source: ColumnProfile, target: ColumnProfile) -> bool:
    """Whether a column is a short form of another: by its name, or as long texts go with short ones."""
    shorter = target.mean_words < SHORTER * source.mean_words
    return shorter and (source.mean_words >= LONG or _rank(target.name, SUMMARIES) is not None)


def _texts(columns: Iterable[ColumnProfile]) -> list[ColumnProfile]:
    """Those that hold texts to learn from; short values that repeat are text only where nothing else is."""
    texts = [one for one in columns if (one.is_text or _is_called_text(one)) and not set(_parts(one.name)) & NO_TEXTS]
    return [one for one in texts if not one.repeats_often] or texts


def _is_called_text(column: ColumnProfile) -> bool:
    """Whether values that look alike, such as texts made from a template, are texts by the name of their column."""
    return (
        _rank(column.name, TEXTS) is not None
        and column.mean_words >= 2
        and len(column.values) > 1
        and not column.is_label
    )


def _labels(columns: Iterable[ColumnProfile]) -> list[ColumnProfile]:
    """Those that hold labels: few values that repeat, fewer still where the name is no usual one."""
    labels = [one for one in columns if one.is_label]
    return [one for one in labels if one.repeats_often or _rank(one.name, LABELS) is not None]


def _several(columns: Iterable[ColumnProfile]) -> list[ColumnProfile]:
    """Those that hold several labels a row: lists of them; texts with a sign between only where the name is usual."""
    several = [one for one in columns if one.has_several_labels]
    return [one for one in several if one.lists or _rank(one.name, LABELS) is not None]


def _named_pair(columns: Sequence[ColumnProfile]) -> tuple[ColumnProfile, ColumnProfile] | None:
    """Two columns whose names make a pair, such as en and de, or question and answer; both are texts."""
    texts = [one for one in columns if one.is_text and not one.repeats_often]
    languages = [one for one in texts if _is_language(one.name)]
    if len(languages) == 2:
        return languages[0], languages[1]
    for first, second in [*PAIRS, *((text, summary) for summary in SUMMARIES[:5] for text in (*TEXTS, "dialogue"))]:
        pair = [next((one for one in texts if _rank(one.name, [name]) == 0), None) for name in (first, second)]
        if pair[0] is not None and pair[1] is not None and pair[0] is not pair[1]:
            return pair[0], pair[1]
    return None


def _is_language(name: str | int) -> bool:
    parts = _parts(name)
    if LANGUAGE_TAG.fullmatch(str(name)) and parts[0] in CODES:
        return True
    return any(part in LANGUAGES for part in parts) or (bool(parts) and parts[-1] in CODES)


def _best(columns: Sequence[ColumnProfile], names: Sequence[str]) -> ColumnProfile | None:
    ranks = [(rank, one) for one in columns if (rank := _rank(one.name, names)) is not None]
    return min(ranks, key=lambda pair: pair[0])[1] if ranks else None


def _rank(name: str | int, names: Sequence[str]) -> int | None:
    return next((rank for rank, usual in enumerate(names) if usual in _parts(name)), None)


def _parts(name: str | int) -> list[str]:
    """The words of a name: `Review_text` and `reviewText` have two, of `translation.en` the last step counts."""
    if isinstance(name, int):
        return []
    last = name.rpartition(".")[2]
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", last).casefold()
    return [part for part in re.split(r"[\W_]+", spaced) if part]


def _column(table: Table, option: str, column: str) -> str | int:
    """A column as the table knows it; numbers count from 0."""
    if column in table.columns:
        return column
    if column.isdecimal() and int(column) < len(table.columns) and (table.sample or int(column) in table.columns):
        return [*table.columns][int(column)]
    raise ConfigError(option, f"{table.file} has no column '{column}'; {nearest(column, map(str, table.columns))}")
