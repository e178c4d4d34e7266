"""CoNLL-U, the format of treebanks: sentences of words, each with its tags, its head and its relation to that head.

    # text = The dog sleeps.
    1	The	the	DET	DT	_	2	det	_	_
    2	dog	dog	NOUN	NN	_	3	nsubj	_	_
    3	sleeps	sleep	VERB	VBZ	_	0	root	_	SpaceAfter=No
    4	.	.	PUNCT	.	_	3	punct	_	_

A blank line ends a sentence, `#` begins a comment, ten columns make a word. Lines for several words that are written
together (`1-2`, as in *don't*) and for words that are only understood (`5.1`) are not words of the tree and are passed
over. A sentence whose words all have `_` for a head has no tree; any other must be one: a single root, and no circle.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeVar

from typing_extensions import override

from regard.config import refuse
from regard.data.examples import Pair, SourceLocation, Tagged, Text
from regard.data.findings import Findings
from regard.data.linearise import Tree, write_brackets
from regard.data.lines import lines
from regard.data.readers.registry import FileFormat, FileSource
from regard.errors import nearest

Tags = Literal["upos", "xpos"]
RENDERINGS = ("words", "lemmas", "upos", "xpos", "relations", "brackets")
"""The texts that a sentence can be rendered as: its words or what is known of each, or its tree in brackets."""
COLUMNS = 10
NO_VALUE = "_"
BESIDE_WORDS = re.compile(r"(\d{1,6})(-\d{1,6}|\.\d{1,6})")
"""Ids of lines that are no words of the tree: of several words written together, or of one only understood."""

Made = TypeVar("Made", Tagged, Pair | Text)


class ConlluError(ValueError):
    """What is wrong with a line, or with the tree of a sentence, as a sentence for people."""

    def __init__(self, problem: str, line: int) -> None:
        super().__init__(problem)
        self.line = line


@dataclass(frozen=True, slots=True)
class Word:
    """A line of the tree."""

    form: str
    lemma: str
    upos: str
    xpos: str
    head: int | None
    """The number of the word it hangs on, from one; 0 for the root, None where nothing is known."""
    relation: str
    line: int


@dataclass(frozen=True)
class Sentence:
    """The words of a sentence, and where the first of them stood."""

    words: tuple[Word, ...]
    location: SourceLocation

    def values(self, column: Literal["form", "lemma", "upos", "xpos", "relation"]) -> tuple[str, ...]:
        """One column of all words; ConlluError where a word has nothing there."""
        values: tuple[str, ...] = tuple(getattr(word, column) for word in self.words)
        if column not in ("form", "lemma") and NO_VALUE in values:  # these two may well be an underscore
            number = values.index(NO_VALUE)
            word = self.words[number]
            raise ConlluError(f"word {number + 1} '{word.form}' has no {column}", word.line)
        return values

    @property
    def heads(self) -> tuple[int, ...] | None:
        """The head of each word, from one, 0 for the root; None where the sentence has no tree."""
        return None if self.words[0].head is None else tuple(word.head or 0 for word in self.words)

    def rendered(self, rendering: str) -> str:
        """The sentence as text: the words, or what a column has of each, one space apart; or its tree in brackets."""
        match rendering:
            case "words":
                return " ".join(self.values("form"))
            case "lemmas":
                return " ".join(self.values("lemma"))
            case "upos" | "xpos":
                return " ".join(self.values(rendering))
            case "relations":
                return " ".join(self.values("relation"))
            case _:
                return write_brackets(self._tree())

    def _tree(self) -> Tree:
        heads = self.heads
        if heads is None:
            raise ConlluError("the sentence has no tree (its heads are _)", self.location.line)
        return Tree(self.values("form"), heads, self.values("relation"))


class ConlluFormat(FileFormat):
    name, suffixes = "conllu", (".conllu",)
    layout = "treebank"

    @override
    def check(self, source: FileSource) -> None:
        for setting, column in (("label", source.label), ("labels", source.labels), ("image", source.image)):
            if column is not None:
                raise refuse(setting, "a .conllu file has words and their tags, no labels and no images; leave it out")
        for setting, column in (("source", source.source), ("target", source.target), ("text", source.text)):
            if column is not None and column not in RENDERINGS:
                raise refuse(setting, f"a .conllu file has no '{column}'; {nearest(str(column), RENDERINGS)}")

    @override
    def examples(self, source: FileSource, file: Path, findings: Findings) -> Iterator[Tagged | Pair | Text]:
        if source.columns:
            return rendered_sentences(file, source.columns, findings)
        return tagged_sentences(file, source.tags or "upos", findings)

    @override
    def untyped_examples(self, file: Path, findings: Findings) -> Iterator[Tagged]:
        return tagged_sentences(file, None, findings)


def tagged_sentences(file: Path, tags: Tags | None, findings: Findings) -> Iterator[Tagged]:
    """The sentences with their trees and the tags of one column; without tags where none are asked for."""

    def tagged(sentence: Sentence) -> Tagged:
        values = sentence.values(tags) if tags else ()
        return Tagged(sentence.values("form"), values, sentence.heads, sentence.location)

    return _made(file, tagged, findings)


def rendered_sentences(file: Path, columns: Sequence[str | int], findings: Findings) -> Iterator[Pair | Text]:
    """The sentences as texts: pairs of two renderings, or plain texts of one."""

    def example(sentence: Sentence) -> Pair | Text:
        source, *target = (sentence.rendered(str(column)) for column in columns)
        return Pair(source, target[0], sentence.location) if target else Text(source, sentence.location)

    return _made(file, example, findings)


def _made(file: Path, make: Callable[[Sentence], Made], findings: Findings) -> Iterator[Made]:
    """What is made of each sentence; one that lacks what is asked for is an error."""
    for sentence in sentences(file, findings):
        try:
            example = make(sentence)
        except ConlluError as problem:
            findings.add_once("value", file, problem.line, str(problem))
            continue
        yield example


def sentences(file: Path, findings: Findings) -> Iterator[Sentence]:
    """The sentences of a file, one at a time; one with an error is skipped unless `findings` is strict."""
    words: list[Word] = []
    sound = True
    for number, line, _ in lines(file, findings):
        if not line.strip():
            yield from _finished(words, file, sound, findings)
            words, sound = [], True
        elif sound and not line.startswith("#"):
            try:
                words += _word(line, len(words) + 1, number)
            except ConlluError as problem:
                findings.add_once("conllu", file, number, str(problem))
                sound = False
    yield from _finished(words, file, sound, findings)


def _finished(words: list[Word], file: Path, sound: bool, findings: Findings) -> Iterator[Sentence]:
    """The sentence of these words, where there are any and their heads are a tree."""
    if not words or not sound:
        return
    try:
        check_tree(words)
    except ConlluError as problem:
        findings.add_once("tree", file, problem.line, str(problem))
    else:
        yield Sentence(tuple(words), SourceLocation(str(file), words[0].line))


def _word(line: str, expected: int, number: int) -> list[Word]:
    """The word of a line; none where the line is not one of the tree's."""
    cells = line.split("\t")
    if len(cells) != COLUMNS:
        raise ConlluError(f"expected {COLUMNS} columns separated by tabs, got {len(cells)}", number)
    if "" in cells:
        raise ConlluError(f"column {cells.index('') + 1} is empty; what is not known is written as _", number)
    if beside := BESIDE_WORDS.fullmatch(cells[0]):
        return _passed_over(int(beside[1]), beside[2], expected, number)
    if cells[0] != str(expected):
        raise ConlluError(f"expected word {expected} of the sentence, got '{cells[0]}'", number)
    head = cells[6]
    if head != NO_VALUE and not re.fullmatch(r"[0-9]{1,6}", head):
        raise ConlluError(f"expected the number of a word as its head, 0 for the root or _, got '{head}'", number)
    head_number = None if head == NO_VALUE else int(head)
    return [Word(cells[1], cells[2], cells[3], cells[4], head_number, cells[7], number)]


def _passed_over(first: int, rest: str, expected: int, number: int) -> list[Word]:
    """No word; but a range begins with the word that comes next, and an empty node follows the word before."""
    is_range = rest.startswith("-")
    if first != (expected if is_range else expected - 1) or (is_range and int(rest[1:]) < first):
        raise ConlluError(f"'{first}{rest}' does not fit before word {expected} of the sentence", number)
    return []


def check_tree(words: Sequence[Word]) -> None:
    """ConlluError unless the heads of a sentence are one tree, or all unknown."""
    unknown = [word for word in words if word.head is None]
    if len(unknown) == len(words):
        return
    if unknown:
        raise ConlluError(f"'{unknown[0].form}' has no head though other words of the sentence do", unknown[0].line)
    for number, word in enumerate(words, start=1):
        if (word.head or 0) > len(words):
            problem = f"the head of word {number} '{word.form}' is {word.head}; the sentence has {len(words)} words"
            raise ConlluError(problem, word.line)
    roots = [number for number, word in enumerate(words, start=1) if word.head == 0]
    if not roots:
        raise ConlluError("no word of the sentence is its root (head 0)", words[0].line)
    if len(roots) > 1:
        problem = f"a second root, word {roots[1]} '{words[roots[1] - 1].form}'; the first is word {roots[0]}"
        raise ConlluError(problem, words[roots[1] - 1].line)
    if circle := _circle(words):
        shown = " → ".join(f"{number} '{words[number - 1].form}'" for number in [*circle, circle[0]])
        raise ConlluError(f"the heads go round in a circle: {shown}", words[circle[0] - 1].line)


def _circle(words: Sequence[Word]) -> list[int]:
    """Words whose heads lead back to the first of them; none in a tree."""
    reached = {0}
    for start in range(1, len(words) + 1):
        path: list[int] = []
        number = start
        while number not in reached:
            if number in path:
                return path[path.index(number) :]
            path.append(number)
            number = words[number - 1].head or 0
        reached.update(path)
    return []
