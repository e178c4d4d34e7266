"""Whether the first row of a table names its columns: a header that is read as an example is a class of its own."""

import re
from collections import Counter
from collections.abc import Sequence

SAMPLE = 200  # rows that are looked at
DELIMITERS = (";", "\t", "|", ",")
_NAMES = """
text texts sentence sentence1 sentence2 review reviews comment comments content contents body title headline tweet
message document doc passage paragraph question answer query context premise hypothesis instruction utterance
label labels class classes category categories sentiment polarity target source src tgt trg input output prompt
completion response summary article highlights abstract translation original reference description caption
id idx index number no nr row score rating stars grade topic intent emotion tag tags upos xpos language lang split
file files filename image images picture path url date name value column words tokens
english german french spanish italian portuguese dutch czech russian chinese japanese korean polish swedish danish
finnish turkish arabic hindi deutsch englisch satz kategorie klasse bewertung texte phrase
en de fr es it pt nl cs ru zh ja ko pl sv da fi tr ar hi uk ro hu el he
"""
NAMES = frozenset(_NAMES.split())
"""What columns are often called."""
_NAME = re.compile(r"[^\W\d][\w .#/()-]{0,39}")
_NUMBER = re.compile(r"[+-]?\d+(?:[.,]\d+)?(?:[eE][+-]?\d+)?")


def looks_like_header(first: Sequence[str], others: Sequence[Sequence[str]], labels: Sequence[int]) -> bool:
    """Whether a row names columns, as the rows below it tell; `labels`: columns that may hold labels.

    It does where its cells are usual names; where it has a word above a column of numbers; where its label occurs
    nowhere else and stands beside a single word above whole sentences.
    """
    if not first or not all(_NAME.fullmatch(cell.strip()) for cell in first):
        return False
    columns = [[row[index] for row in others] for index in range(len(first))]
    if any(cell in below for cell, below in zip(first, columns, strict=True)):
        return False
    classes = [columns[index] for index in labels]
    return (
        (_has_usual_names(first, bool(labels)) and (len(first) > 1 or _are_sentences(columns[0])))
        or any(len(below) > 1 and all(map(_is_number, below)) for below in classes)
        or _stands_above_sentences(first, columns, classes)
    )


def other_delimiter(row: Sequence[str]) -> str:
    """The sign that probably separates the columns of a row that was read as a single one; empty if none does."""
    if len(row) != 1:
        return ""
    return next((sign for sign in DELIMITERS if len(row[0].split(sign)) > 1), "")


def _has_usual_names(cells: Sequence[str], labelled: bool) -> bool:
    known = [_is_usual(cell.strip()) for cell in cells]
    return any(known) if labelled else all(known)


def _is_usual(cell: str) -> bool:
    """A usual name, or one made of them: `review_text`, `Review Text`, `sentenceId`."""
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", cell).casefold()
    parts = [part for part in re.split(r"[\W_]+", spaced) if part]
    if spaced in NAMES:
        return True
    return len(parts) > 1 and (all if " " in cell else any)(part in NAMES and len(part) > 2 for part in parts)


def _is_number(cell: str) -> bool:
    return _NUMBER.fullmatch(cell.strip()) is not None


def _stands_above_sentences(
    first: Sequence[str], columns: Sequence[Sequence[str]], classes: Sequence[Sequence[str]]
) -> bool:
    """Single words above a column of sentences and a column of few different values, each of which repeats."""
    if any(len(cell.split()) > 1 for cell in first):
        return False
    repeat = any(len(below) > 3 and min(Counter(below).values()) > 1 for below in classes)
    return repeat and any(map(_are_sentences, columns))


def _are_sentences(cells: Sequence[str]) -> bool:
    """Whether most cells have several words."""
    return 2 * sum(len(cell.split()) > 1 for cell in cells) > len(cells)
